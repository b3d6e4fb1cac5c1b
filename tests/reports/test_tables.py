from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from lkge.evaluation.results import ProtocolResult, Results
from lkge.reports import tables
from lkge.reports.systems import systems_of

MakeRun = Callable[..., Results]


def shown(results: list[Results], width: int = 80, ansi: bool = False) -> str:
    console = Console(width=width, force_terminal=ansi, color_system="standard" if ansi else None)
    with console.capture() as capture:
        for table in tables.terminal_tables(results):
            console.print(table)
    return capture.get()


def test_summary_rows_are_strict_json_with_every_figure(make_run: MakeRun) -> None:
    runs = [make_run(seed=1), make_run(seed=2), make_run(method="snapshot", snapshots=1)]
    lkge, snapshot = json.loads(json.dumps(tables.summary_rows(runs), allow_nan=False))
    assert (lkge["dataset"], lkge["method"], lkge["seeds"]) == ("ENTITY", "lkge", [1, 2])
    assert set(lkge["paper"]) == {"mrr", "hits1", "hits3", "hits10", "fwt", "bwt"}
    mean = (runs[0].mrr + runs[1].mrr) / 2
    assert lkge["paper"]["mrr"]["mean"] == pytest.approx(mean)
    assert lkge["paper"]["mrr"]["deviation"] > 0
    assert lkge["current"]["bwt"]["mean"] < lkge["paper"]["bwt"]["mean"] < 0
    assert lkge["seconds"]["mean"] == pytest.approx(5 * 22.34)
    assert lkge["carried_bytes"]["mean"] == 1_500_000
    assert snapshot["paper"]["fwt"] == {"mean": None, "deviation": None, "half_width": None}
    assert snapshot["paper"]["mrr"]["deviation"] is None


def test_summary_rows_of_nothing() -> None:
    assert tables.summary_rows([]) == []


def test_only_the_best_of_its_dataset_is_bold_in_markdown(make_run: MakeRun) -> None:
    runs = [
        make_run(mrr=0.3),
        make_run(method="snapshot", mrr=0.1),
        make_run("FACT", mrr=0.2),
        make_run("FACT", "snapshot", mrr=0.4),
    ]
    lines = tables.markdown(runs).splitlines()
    first = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    assert set(first) == {"Method", "---", "lkge", "snapshot"}
    mrr = [line.split("|")[2].strip() for line in lines if line.startswith(("| lkge", "| snap"))]
    assert [cell.startswith("**") for cell in mrr] == [
        *(True, False, True, False),
        *(False, True, False, True),
    ]
    headings = [line for line in lines if line.startswith("## ")]
    assert headings == [
        f"## {dataset}, {protocol} protocol"
        for dataset in ("ENTITY", "FACT")
        for protocol in ("paper", "current")
    ]


def test_names_cannot_break_out_of_a_markdown_table(make_run: MakeRun) -> None:
    text = tables.markdown([make_run("a|b\n# <b>", "*m*|[x](y)")])
    assert r"| \*m\*\|\[x\](y) |" in text
    assert r"## a\|b�\# \<b\>, paper protocol" in text


def test_several_seeds_show_mean_and_deviation(make_run: MakeRun) -> None:
    runs = [make_run(seed=seed, mrr=0.2 + seed / 100) for seed in (1, 2, 3)]
    text = tables.markdown(runs)
    assert "0.207 ±0.009" in text
    assert "standard deviation" in text
    assert "±" not in tables.markdown(runs[:1])


def test_a_single_run_is_shown_in_full_and_fits_eighty_columns(make_run: MakeRun) -> None:
    text = shown([make_run()])
    assert "ENTITY, paper protocol" in text
    assert "MRR h[i, j], current protocol" in text
    assert "46,388" in text
    assert "25 %" not in text
    assert "22 %" in text
    assert "1.5 MB" in text
    assert "…" not in text


def test_one_version_of_the_code_is_a_note_and_several_are_a_column(make_run: MakeRun) -> None:
    old, new = make_run(seed=1), replace(make_run(seed=2), provenance={"lkge": "0.2.0"})
    other = replace(make_run(method="ewc"), provenance={"lkge": "0.2.0"})
    assert "Code: unrecorded" in tables.markdown([old])
    assert " Code |" not in tables.markdown([old])
    text = tables.markdown([old, new, other])
    assert "| Carried | Code |" in text
    assert text.count("| unrecorded, 0.2.0 |") == 2
    assert text.count("| 0.2.0 |") == 2
    assert [row["code"] for row in tables.summary_rows([old, other])] == ["unrecorded", "0.2.0"]


def test_many_runs_are_shown_as_summary_only(make_run: MakeRun) -> None:
    runs = [make_run(dataset, f"method {k}") for dataset in "ABCD" for k in range(17)]
    assert len(tables.terminal_tables(runs)) == 8
    assert "method 16" in shown(runs)


def test_the_best_is_bold_in_the_terminal(make_run: MakeRun) -> None:
    text = shown([make_run(mrr=0.3), make_run(method="snapshot", mrr=0.1)], ansi=True)
    lkge, snapshot = (
        next(line for line in text.splitlines() if name in line) for name in ("lkge", "snapshot")
    )
    assert "\x1b[1;32m0.2" in lkge
    assert "\x1b[1;32m0.0" not in snapshot


def test_names_are_neither_markup_nor_terminal_codes(make_run: MakeRun) -> None:
    text = shown([make_run("[red]x[/red]", "\x1b[31mevil")])
    assert "[red]x[/red]" in text
    assert "\x1b" not in text


def test_nan_is_an_en_dash(make_run: MakeRun) -> None:
    run = make_run(snapshots=1)
    assert "–" in shown([run])  # noqa: RUF001
    assert not re.search(r"\bnan\b", shown([run]))
    assert "| – | – |" in tables.markdown([run])  # noqa: RUF001


def test_a_run_without_any_result_yet_has_tables(make_run: MakeRun) -> None:
    run = replace(make_run(), snapshots=(), protocols={"paper": ProtocolResult()})
    assert "ENTITY" in shown([run])


def test_the_matrix_has_forward_transfer_right_of_its_diagonal(make_run: MakeRun) -> None:
    (system,) = systems_of([make_run(snapshots=3)])
    grid = tables.matrix_grid(system, "paper")
    assert grid.columns == ("", "Q₁", "Q₂", "Q₃")
    first, _, last = grid.sections[0]
    assert [cell.text for cell in first] == ["M₁", first[1].text, "0.117", ""]
    assert first[2].faint
    assert not any(cell.faint for cell in last)
