from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lkge.evaluation.results import PROTOCOLS, Accuracy, Results
from lkge.reports import table_files, tables
from lkge.reports.grids import Cell, Grid, grid_of
from lkge.reports.latex import latex_table, latex_text

MakeRun = Callable[..., Results]
CONTROL = re.compile(r"\\[a-zA-Z]+\{?\}?|\\[&%$#_{}]|\\\\")


def check_latex(text: str) -> None:
    """What LaTeX would stop at: unbalanced groups and environments, rows of another length, special
    letters, and options after the end of a row."""
    lines = text.splitlines()
    assert lines[0] == r"% \usepackage{booktabs}"
    body = "\n".join(lines[1:])
    assert re.findall(r"\\begin\{(\w+)\}", body) == ["table", "tabular"]
    assert re.findall(r"\\end\{(\w+)\}", body) == ["tabular", "table"]
    (kinds,) = re.findall(r"\\begin\{tabular\}\{([lr]+)\}", body)
    inner = body.split("\\toprule\n")[1].split("\\bottomrule")[0]
    for row in inner.splitlines():
        if row == r"\midrule":
            continue
        assert row.endswith(r" \\")
        assert len(re.findall(r"(?<!\\)&", row)) == len(kinds) - 1
        assert row[0] not in "[*"
    plain = re.sub(r"\$(?:[-]|\\pm|\\times|_\{\d\})\$", "", body)
    plain = re.sub(r"\\\\|\\[&%$#_{}]", "", plain)
    assert not re.search(r"[$#%~^_]", plain)
    depth = 0
    for letter in plain:
        depth += (letter == "{") - (letter == "}")
        assert depth >= 0
    assert depth == 0


ODD = "a&b%c$d#e_f{g}h~i^j\\k<l>m|n\x1b\n[*]"


def test_everything_that_latex_reads_is_escaped() -> None:
    assert latex_text(ODD) == (
        r"a\&b\%c\$d\#e\_f\{g\}h\textasciitilde{}i\textasciicircum{}j\textbackslash{}k"
        r"\textless{}l\textgreater{}m\textbar{}n??{[}{*}]"
    )
    assert latex_text("−0.1 ±0.2 – M₁") == r"$-$0.1 $\pm$0.2 -- M$_{1}$"  # noqa: RUF001


def test_a_table_has_the_rules_of_booktabs_and_its_best_in_bold() -> None:
    grid = grid_of("T", ("Name", "MRR"), [("[a", Cell("0.2", best=True)), ("*b", "0.1")], note="N")
    assert latex_table(grid).splitlines()[4:] == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"Name & MRR \\",
        r"\midrule",
        r"{[}a & \textbf{0.2} \\",
        r"{*}b & 0.1 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip{\footnotesize N\par}",
        r"\end{table}",
    ]
    two = replace(grid, sections=(*grid.sections, (), *grid.sections))
    assert latex_table(two).count(r"\midrule") == 2
    check_latex(latex_table(two))
    check_latex(latex_table(Grid("nothing", ("A", "B"), ())))


def test_tables_of_results_with_odd_names_are_latex(make_run: MakeRun) -> None:
    relations = {protocol: {ODD: Accuracy(0.5, 0.1, 0.2, 0.3, 20)} for protocol in PROTOCOLS}
    runs = [
        replace(make_run(ODD, method, seed=seed), relations=relations)
        for method in ("lkge", "e_w%c")
        for seed in (1, 2)
    ]
    grids = tables.report_grids(runs)
    assert len(grids) == 5
    for grid in grids:
        check_latex(latex_table(grid))


@pytest.fixture
def written(tmp_path: Path, make_run: MakeRun) -> Path:
    relations = {name: {'a, "b"': Accuracy(0.5, 0.1, 0.2, 1 / 3, 20)} for name in PROTOCOLS}
    runs = [
        replace(make_run(method=method, seed=seed, snapshots=2), relations=relations)
        for method in ("lkge", "ewc")
        for seed in (1, 2)
    ]
    table_files.write(runs, tables.report_grids(runs), tmp_path / "tables")
    return tmp_path / "tables"


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_csv_files_have_all_numbers_unrounded(written: Path) -> None:
    relations = rows_of(written / "relations.csv")
    assert len(relations) == 2 * 2 * 2
    assert relations[0]["relation"] == 'a, "b"'
    assert float(relations[0]["hits10"]) == 1 / 3
    assert len(rows_of(written / "cells.csv")) == 4 * 2 * 3
    assert {row["seed"] for row in rows_of(written / "runs.csv")} == {"1", "2"}
    systems = rows_of(written / "systems.csv")
    (mrr,) = (
        row
        for row in systems
        if (row["system"], row["protocol"], row["measure"]) == ("ewc", "paper", "mrr")
    )
    runs = [row for row in rows_of(written / "runs.csv") if row["protocol"] == "paper"]
    values = [float(row["mrr"]) for row in runs if row["system"] == "ewc"]
    assert float(mrr["mean"]) == pytest.approx(sum(values) / 2)
    assert mrr["seeds"] == "2"
    (paper, _) = rows_of(written / "differences.csv")
    assert (paper["one"], paper["other"], paper["p_relations"]) == ("lkge", "ewc", "")


def test_each_table_is_a_file_of_its_own(written: Path) -> None:
    assert sorted(path.stem for path in written.glob("*.tex")) == [
        "entity-current-protocol",
        "entity-lkge-minus-others-current-protocol",
        "entity-lkge-minus-others-paper-protocol",
        "entity-over-seeds",
        "entity-paper-protocol",
    ]


def test_tables_with_the_same_title_are_numbered(tmp_path: Path) -> None:
    grids = [grid_of(title, ("A",), [["1"]]) for title in ("A b", "a-b", "図", "?")]
    table_files.write([], grids, tmp_path)
    found = sorted(path.stem for path in tmp_path.glob("*.tex"))
    assert found == ["a-b", "a-b-2", "table", "table-2"]
