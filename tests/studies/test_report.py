"""README, figures and page are made from the kept JSON files alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.studies.made import keep_made, small_study

from lkge.errors import RunError
from lkge.evaluation.results import Results
from lkge.studies.report import draw, readme, stored_entries, write_study
from lkge.studies.result_store import stored_runs
from lkge.studies.study import Study, SystemSpec, study_named
from lkge.studies.tables import plain

MakeRun = Callable[..., Results]
HEIGHTS = {"re-train": 0.26, "fine-tune": 0.17, "ewc": 0.2, "lkge": 0.23, "lkge:no-transfer": 0.24}


@pytest.fixture
def kept(tmp_path: Path, make_run: MakeRun) -> Path:
    """A few systems of the paper on two datasets; LKGE with two seeds."""
    paper = study_named("paper")
    for name, height in HEIGHTS.items():
        for cell in paper.run_specs(
            ["ENTITY", "FACT"], [name], [11, 22] if name == "lkge" else [11]
        ):
            run = make_run(
                cell.dataset, cell.config.method.name, height, seed=cell.config.training.seed
            )
            noted = replace(run.snapshots[-1], note="three relations unseen")
            if name == "ewc":
                run = replace(run, snapshots=(*run.snapshots[:-1], noted))
            keep_made(tmp_path, cell, run)
    return tmp_path


def row(text: str, heading: str, name: str) -> list[str]:
    """The cells of the row of that name in the first table after a heading."""
    table = text.split(f"{heading}\n", 1)[1]
    line = next(line for line in table.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_everything_is_written_from_the_json_files(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[tuple[int, Path, str]] = []
    monkeypatch.setattr(
        "lkge.studies.report.write_page",
        lambda results, path, reference: pages.append((len(results), path, reference)),
    )
    page = write_study(study_named("paper"), kept)
    assert pages == [(12, page, "lkge")]
    assert page == kept / "index.html"
    assert sorted(path.name for path in (kept / "figures").iterdir()) == [
        f"figure-{name}.{kind}"
        for name in ("3-mrr-change", "4-transfer", "5-time")
        for kind in ("pdf", "png", "svg")
    ]
    text = (kept / "README.md").read_text(encoding="utf-8")
    for path in (kept / "figures").glob("*.png"):
        assert f"](figures/{path.name})" in text


def written(kept: Path, study: Study | None = None) -> str:
    study = study or study_named("paper")
    return readme(study, stored_runs(study, kept), [])


def test_ours_stands_beside_print_and_the_best_lifelong_system_is_bold(kept: Path) -> None:
    text = written(kept)
    for system in ("re-train", "fine-tune", "ewc", "lkge"):
        bold = [cell for cell in row(text, "### ENTITY", system) if cell.startswith("**")]
        assert len(bold) == (system == "lkge")
    ewc = row(text, "### ENTITY", "ewc")
    assert ewc[3] == "0.229"
    assert ewc[4].startswith("−0.0")  # noqa: RUF001
    assert float(ewc[2]) - float(ewc[3]) == pytest.approx(-float(ewc[4][1:]))
    assert "±" in row(text, "### ENTITY", "lkge")[2]
    assert row(text, "### ENTITY", "lkge")[1] == "2"


def test_the_overview_has_all_datasets_and_the_agreement_of_orders(kept: Path) -> None:
    text = written(kept)
    head = row(text, "## Table 2: the systems", "System")
    assert head == ["System", "ENTITY", "FACT"]
    assert row(text, "## Table 2: the systems", "rank correlation")[1:] == ["1.000", "0.800"]
    assert "Rank correlation over 4 systems: 0.800." in text


def test_ablations_have_a_table_of_their_own(kept: Path) -> None:
    second, third = written(kept).split("## Table 3: ")
    assert "lkge, no transfer" not in second
    assert "| re-train |" not in third.split("## MRR more than")[0]
    assert row(third, "### FACT", "lkge, no transfer")[2].startswith("**")


def test_what_is_far_from_print_and_what_is_missing_is_listed(kept: Path) -> None:
    text = written(kept)
    far = text.split("## MRR more than 0.02 from the printed MRR")[1]
    assert "| ENTITY | ewc |" in far
    assert "| ENTITY | lkge |" not in far
    assert "Not run yet: ENTITY-snapshot-11, RELATION-snapshot-11" in text
    assert "After the last snapshot:\n\n* ewc: three relations unseen" in text


def test_figures_show_what_the_paper_s_show(kept: Path) -> None:
    study = study_named("paper")
    change, transfer, time = draw(study, stored_runs(study, kept)).values()
    assert [panel.get_title(loc="left") for panel in change.axes] == ["ENTITY", "FACT"]
    assert "lkge" in change.get_suptitle()
    assert all(len(panel.lines) == 5 for panel in change.axes)
    names = [label.get_text() for label in transfer.axes[0].get_yticklabels()]
    assert sorted(names) == ["ewc", "fine-tune", "lkge", "re-train"]
    assert [panel.get_title(loc="left") for panel in time.axes] == ["FACT"]


def test_a_study_without_print_has_tables_all_the_same(tmp_path: Path, make_run: MakeRun) -> None:
    study = small_study(notes="Chosen *by hand*.")
    for cell in study.run_specs():
        keep_made(tmp_path, cell, make_run("brick", cell.config.method.name))
    text = written(tmp_path, study)
    assert "`lkge bench small.toml`" in text
    assert "Chosen *by hand*." in text
    headings = row(text, "### brick", "System")
    assert "Printed" not in headings
    assert len(row(text, "### brick", "fine-tune")) == len(headings)
    assert "from print" not in text
    assert "Not run yet" not in text


def test_two_systems_of_a_study_are_compared_where_both_have_runs(
    tmp_path: Path, make_run: MakeRun
) -> None:
    study = small_study(compared=("lkge", "fine-tune"))
    for cell in study.run_specs(systems=["lkge"]):
        keep_made(tmp_path, cell, make_run("brick", "lkge", 0.3))
    assert "lkge minus fine-tune" not in written(tmp_path, study)
    for cell in study.run_specs(systems=["fine-tune"]):
        keep_made(tmp_path, cell, make_run("brick", "fine-tune", 0.2))
    gain = row(written(tmp_path, study), "## lkge minus fine-tune", "brick")[2]
    assert float(gain) > 0


def test_variants_by_strength_are_named_by_it(tmp_path: Path, make_run: MakeRun) -> None:
    strong = SystemSpec("lkge:strong", settings={"regularization_weight": 1.0})
    study = small_study()
    study = replace(study, specs={**study.specs, strong.name: strong})
    for cell in study.run_specs():
        weight = cell.config.flat().get("method.regularization_weight", 0.05)
        keep_made(tmp_path, cell, make_run("brick", cell.config.method.name, weight))
    text = written(tmp_path, study)
    weak, strong_row = (
        row(text, "## Variants", f"lkge, regularization weight {a}") for a in ("0.1", "1.0")
    )
    assert weak[1] != strong_row[1]


def test_each_group_has_a_table_with_a_row_for_each_method(
    tmp_path: Path, make_run: MakeRun
) -> None:
    study = study_named("scores")
    heights = {"complex": 0.3, "rotate": 0.2}
    for name in (f"{m}:{s}" for s in heights for m in ("evergreen", "lkge", "re-train")):
        for cell in study.run_specs(systems=[name]):
            height = heights[cell.config.model.score] + 0.01 * len(cell.config.method.name)
            keep_made(tmp_path, cell, make_run(cell.dataset, cell.config.method.name, height))
    text = written(tmp_path, study)
    complex_, rotate = text.split("\n## RotatE\n")
    assert "TransE" not in text.split("## ComplEx")[1]
    for part, heading in ((complex_, "## ComplEx"), (f"## RotatE\n{rotate}", "## RotatE")):
        assert row(part, heading, "System") == ["System", "ENTITY", "RELATION"]
        assert row(part, heading, "evergreen, no transfer")[1].startswith("**")
        assert not row(part, heading, "lkge")[1].startswith("**")
        row(part, "### RELATION", "re-train")
    assert row(complex_, "## ComplEx", "lkge")[1] != row(rotate, "### ENTITY", "lkge")[2]


def test_plain_figures_for_json(kept: Path) -> None:
    tree = plain(stored_entries(study_named("paper"), kept))
    lkge = next(row for row in tree["systems"] if row["system"] == "lkge")
    assert lkge["seeds"] == [11, 22]
    assert lkge["printed"]["hits10"] == 0.425
    assert lkge["difference"] == pytest.approx(round(lkge["paper"]["mrr"]["mean"], 3) - 0.234)
    assert tree["rank_correlation"]["ENTITY"] == pytest.approx(0.9)


def test_a_study_that_mixes_versions_of_the_code_says_which_made_each_system(
    tmp_path: Path, make_run: MakeRun
) -> None:
    study = small_study()
    first, second, *_ = study.run_specs()
    keep_made(tmp_path, first, make_run("brick", first.config.method.name, 0.3))
    assert "Code: unrecorded" in written(tmp_path, study)
    newer = replace(make_run("brick", second.config.method.name, 0.2), provenance={"lkge": "0.2.0"})
    keep_made(tmp_path, second, newer)
    text = written(tmp_path, study)
    assert row(text, "## Systems", first.spec.name)[-1] == "unrecorded"
    assert row(text, "### brick", second.spec.name)[-1] == "0.2.0"


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run of the study 'paper' is stored here"):
        write_study(study_named("paper"), tmp_path)


def test_mrr_over_time_is_drawn_with_the_first_seed_alone(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Results] = []
    monkeypatch.setattr("lkge.studies.report.figures.mrr_over_time", drawn.extend)
    study = replace(study_named("paper"), mrr_over_time_of=("lkge", "re-train"))
    draw(study, stored_runs(study, kept))
    assert {(run.method, run.seed) for run in drawn} == {("lkge", 11), ("re-train", 11)}


def test_the_reference_of_a_study_is_tested_on_each_dataset(
    tmp_path: Path, make_run: MakeRun
) -> None:
    study = small_study(mrr_change_of="fine-tune")
    for cell in study.run_specs(seeds=[1, 2, 3]):
        height = 0.3 if cell.spec.name == "lkge" else 0.2
        run = make_run("brick", cell.config.method.name, height, seed=cell.config.training.seed)
        keep_made(tmp_path, cell, run)
    text = written(tmp_path, study)
    for protocol in ("paper", "current"):
        found = row(text, f"## brick, fine-tune minus others, {protocol} protocol", "lkge")
        assert found[1] == "3"
        assert -0.11 < float(found[2].replace("−", "-")) < -0.08  # noqa: RUF001
        assert found[4] == r"\< 0.001"
    assert row(text, "## brick, over seeds", "lkge")[1] == "3"
    assert text.count("paired t test") == 1
    write_study(study, tmp_path)
    assert {path.name for path in (tmp_path / "tables").iterdir()} >= {
        *("systems.tex", "systems-brick.tex", "brick-over-seeds.tex", "differences.csv"),
    }
