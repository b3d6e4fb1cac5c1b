"""Run notebooks without Jupyter, and write them as Markdown with their outputs.

    python scripts/notebooks.py docs/notebooks/daily-growth.ipynb > page.md

The cells of a notebook share one namespace and run in an empty folder. The outputs of a cell are
what it prints, the value of its last expression, and the figures of pyplot.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """The source of a cell, and its outputs as Markdown."""

    is_code: bool
    source: str
    outputs: tuple[str, ...] = ()


def cells_of(notebook: Path) -> list[Cell]:
    """The cells, without outputs."""
    tree = json.loads(notebook.read_text(encoding="utf-8"))
    return [Cell(cell["cell_type"] == "code", "".join(cell["source"])) for cell in tree["cells"]]


def run(notebook: Path) -> list[Cell]:
    """The cells with their outputs."""
    import matplotlib

    matplotlib.use("Agg")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    done = list[Cell]()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate(cells_of(notebook), start=1):
            place = f"{notebook.name}, cell {number}"
            outputs = outputs_of(cell.source, namespace, place) if cell.is_code else ()
            done.append(cell._replace(outputs=tuple(outputs)))
    return done


def outputs_of(source: str, namespace: dict[str, Any], place: str) -> Iterator[str]:
    """Run code; what it prints, its value, its figures."""
    tree, value = ast.parse(source, place), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, place, "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), place, "eval"), namespace)
    if text := printed.getvalue():
        yield as_text(text)
    if hasattr(value, "_repr_html_"):
        yield f"<div>{value._repr_html_()}</div>"
    elif value is not None:
        yield as_text(repr(value))
    yield from figures()


def as_text(text: str) -> str:
    """Text as a block of its own."""
    return f"``` {{ .text .no-copy }}\n{text.rstrip()}\n```"


def figures() -> Iterator[str]:
    """The open figures, which are closed."""
    from matplotlib import pyplot

    for number in pyplot.get_fignums():
        with io.BytesIO() as image:
            pyplot.figure(number).savefig(image, format="png", dpi=150, bbox_inches="tight")
            data = base64.b64encode(image.getvalue()).decode()
        yield f'<img alt="Figure" src="data:image/png;base64,{data}">'
    pyplot.close("all")


def as_markdown(cells: Iterable[Cell]) -> str:
    """The page of a notebook."""
    blocks = list[str]()
    for cell in cells:
        blocks.append(f"```python\n{cell.source}\n```" if cell.is_code else cell.source)
        blocks += cell.outputs
    return "\n\n".join(blocks)


if __name__ == "__main__":
    print(as_markdown(run(Path(sys.argv[1]))))
