"""A table of texts as LaTeX, for the package booktabs. Letters of other scripts need XeLaTeX or
LuaLaTeX with a font that has them; all other text is for every LaTeX."""

from lkge.reports.grids import Cell, Grid
from lkge.reports.text import ABSENT, MINUS, printable

ESCAPES = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # after the end of a row, "[" and "*" would be read as its options
    "*": "{*}",
    MINUS: "$-$",
    ABSENT: "--",
    "±": r"$\pm$",
    "×": r"$\times$",
    "⁻": r"\textsuperscript{$-$}",
    "¹": r"\textsuperscript{1}",
    "…": r"\ldots{}",
    "�": "?",
    **{chr(0x2080 + digit): f"$_{{{digit}}}$" for digit in range(10)},
}
TABLE = str.maketrans(ESCAPES)


def latex_text(words: str) -> str:
    """The words with everything escaped that LaTeX would read; control characters replaced."""
    return printable(words).translate(TABLE)


def latex_table(grid: Grid) -> str:
    """The grid as a `table` with its title as caption; the best in bold, the note below."""
    kinds = "l" * grid.names + "r" * (len(grid.columns) - grid.names)
    sections = ("".join(map(_row, section)) for section in grid.sections if section)
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(grid.title)}}}",
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        f"{' & '.join(map(latex_text, grid.columns))} \\\\",
        "\\midrule\n" + "\\midrule\n".join(sections) + r"\bottomrule",
        r"\end{tabular}",
        *([rf"\par\smallskip{{\footnotesize {latex_text(grid.note)}\par}}"] if grid.note else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(row: tuple[Cell, ...]) -> str:
    return f"{' & '.join(map(_cell, row))} \\\\\n"


def _cell(cell: Cell) -> str:
    words = latex_text(cell.text)
    return rf"\textbf{{{words}}}" if cell.best else words
