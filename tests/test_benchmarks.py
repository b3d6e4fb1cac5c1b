"""What programs in `benchmarks` import from each other is there; they are too slow to run here."""

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
FILES = sorted(FOLDER.glob("*.py"))


def defined_in(path: Path) -> set[str]:
    """The names that a file defines or imports at its top level."""
    names: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        else:
            stored = (each for each in ast.walk(node) if isinstance(each, ast.Name))
            names |= {each.id for each in stored if isinstance(each.ctx, ast.Store)}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_a_benchmark_imports_from_another_exists(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("benchmarks."):
            other = FOLDER / f"{str(node.module).partition('.')[2]}.py"
            assert {alias.name for alias in node.names} <= defined_in(other), node.module
