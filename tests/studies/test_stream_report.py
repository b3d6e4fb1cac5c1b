"""Tables and figure of streams, from results that are made by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from lkge.errors import RunError
from lkge.reports.grids import Grid
from lkge.studies import stream_figure
from lkge.studies.stream_report import (
    mean_grids,
    plain,
    readme,
    share_grids,
    stream_grids,
    streams_grid,
    systems_of,
    write,
)
from lkge.studies.stream_results import (
    Point,
    Quality,
    Seconds,
    StreamFacts,
    StreamResults,
    StreamRun,
    System,
    results_in,
)
from lkge.studies.streams import StreamSpec

POINTS: Mapping[str, tuple[int, ...]] = {
    "living": (0, 10, 100),
    "fine-tune": (0, 10, 100),
    "at-once": (100,),
}


def made(stream: str, system: System, mrr: float, seed: int = 11, **changes: Any) -> StreamResults:
    """The MRR of all held-out facts falls from 2 `mrr` to `mrr`; that of old ones is half of it."""
    points = POINTS[system]

    def point(adds: int) -> Point:
        now = mrr * (2 - adds / 100)
        qualities = [Quality(value, value / 2, 40) for value in (now, now / 2, now / 4)]
        seconds = Seconds(60.0, 50.0) if system == "at-once" else Seconds()
        counts = (adds, 1000 + adds, 500, 7)
        return Point(*counts, *qualities, 2_000_000, 3_000, 4_000, seconds)

    spec = StreamSpec(stream, "dataset", stream)
    run = StreamRun(spec, system, seed, points)
    facts = StreamFacts("first this, then that", 100, 1000, 1100, 90, 500, f"digest of {stream}")
    batches = (
        () if system == "at-once" else (Seconds(9.0, 8.0, 0.0), *[Seconds(2.0, 1.0, 0.5)] * 98)
    )
    batches += () if system == "at-once" else (Seconds(), Seconds(7.0, 3.0, 0.5))
    results = StreamResults(run, facts, {}, {}, {}, batches, tuple(map(point, points)))
    return replace(results, **changes)


def rows(grid: Grid) -> dict[str, dict[str, str]]:
    """The texts of a grid by first cell and column."""
    return {
        row[0].text: dict(zip(grid.columns, (cell.text for cell in row), strict=True))
        for row in grid.sections[0]
    }


TWO = [
    made("brick", "living", 0.3),
    made("brick", "fine-tune", 0.1),
    made("brick", "at-once", 0.4),
    made("FACT", "living", 0.1),
    made("FACT", "fine-tune", 0.05),
    made("FACT", "at-once", 0.2),
]


def test_means_are_over_streams_and_ratios_are_to_at_once() -> None:
    quality, cost, way = mean_grids(systems_of(TWO, Path()))
    living = rows(quality)["living"]
    assert (living["MRR all"], living["MRR oldest"]) == ("0.200", "0.100")
    assert (living["Hits@10 all"], living["MRR newest"]) == ("0.100", "0.050")
    assert living["of at-once, all"] == "62 %"
    assert rows(quality)["at-once"]["of at-once, all"] == "–"  # noqa: RUF001
    assert "brick, FACT" in quality.note
    of_cost = rows(cost)["living"]
    assert (of_cost["Add, mean"], of_cost["Add, max"]) == ("2.1 s", "7.0 s")
    assert (of_cost["Training, mean"], of_cost["Consolidation, mean"]) == ("1.0 s", "0.5 s")
    assert (of_cost["At once"], of_cost["At once / add"]) == ("60.0 s", "× 29.3")
    assert (of_cost["Version"], of_cost["Carried"], of_cost["Known"]) == (
        *("2.0 MB", "3.0 kB", "4.0 kB"),
    )
    shares = [(row[0].text, row[1].text, row[2].text) for row in way.sections[0]]
    assert shares[:3] == [
        *(("living", "0 %", "0.400"), ("living", "10 %", "0.380"), ("living", "100 %", "0.200")),
    ]
    assert ("at-once", "100 %", "0.300") in shares


def test_each_stream_has_its_share_of_learning_at_once() -> None:
    (grid,) = share_grids(systems_of([*TWO, made("ENTITY", "living", 0.9)], Path()))
    found = {row[0].text: [cell.text for cell in row[1:]] for row in grid.sections[0]}
    assert found.keys() == {"brick", "FACT", "mean"}
    assert found["brick"][-3:] == ["100", "0.300", "75.0 %"]
    assert found["FACT"][-1] == "50.0 %"
    assert found["mean"][-1] == "62.5 %"
    assert share_grids(systems_of(TWO[:2], Path())) == []


def test_an_add_that_was_stopped_is_not_counted() -> None:
    living = systems_of(TWO, Path())["brick"]["living"]
    assert len(living.add_seconds(100, "wall")) == 99
    assert len(living.add_seconds(10, "wall")) == 10


def test_streams_that_a_system_lacks_are_not_in_the_mean() -> None:
    systems = systems_of([*TWO, made("ENTITY", "living", 0.9)], Path())
    quality = mean_grids(systems)[0]
    assert "ENTITY" not in quality.note
    assert rows(quality)["living"]["MRR all"] == "0.200"
    assert mean_grids(systems_of([TWO[0], TWO[4]], Path())) == []
    (only,) = stream_grids(systems["ENTITY"])[1].sections[0]
    assert only[5].text == "–"  # noqa: RUF001


def test_seeds_are_averaged() -> None:
    systems = systems_of([made("brick", "living", 0.2), made("brick", "living", 0.4, 12)], Path())
    assert systems["brick"]["living"].mrr(100, "all") == pytest.approx(0.3)
    assert plain(systems)[0]["seeds"] == [11, 12]


def test_a_stream_has_a_row_for_each_point() -> None:
    quality, _ = stream_grids(systems_of(TWO, Path())["brick"])
    found = [(row[0].text, row[1].text, row[4].text, row[-1].text) for row in quality.sections[0]]
    assert found[:3] == [
        ("living", "0", "0.600", "–"),  # noqa: RUF001
        ("living", "10", "0.570", "–"),  # noqa: RUF001
        ("living", "100", "0.300", "75 %"),
    ]
    assert len(found) == 7


def test_the_page_says_what_was_measured() -> None:
    page = readme(systems_of(TWO, Path()))
    assert "Ranks are of the test facts" in page
    assert "Settings other than the defaults" not in page
    assert "first this, then that" in page
    assert "(figures/quality-over-adds.png)" in page
    assert [row["First facts"] for row in rows(streams_grid(systems_of(TWO, Path()))).values()] == [
        *("1,000", "1,000"),
    ]
    run = replace(TWO[0].run, split="valid", settings={"dim": 8})
    page = readme(systems_of([replace(TWO[0], run=run)], Path()))
    assert "Ranks are of the validation facts" in page
    assert "Settings other than the defaults: living: dim = 8." in page


def test_results_that_cannot_be_compared_are_an_error() -> None:
    valid = replace(TWO[1], run=replace(TWO[1].run, split="valid"))
    with pytest.raises(RunError, match="on test facts and on validation facts"):
        systems_of([TWO[0], valid], Path())
    other = replace(TWO[1], stream=replace(TWO[1].stream, digest="another"))
    with pytest.raises(RunError, match="brick-living-11 and brick-fine-tune-11 are of other facts"):
        systems_of([TWO[0], other], Path())


def test_a_folder_is_read_written_and_drawn(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run of a stream"):
        write(tmp_path)
    for result in TWO:
        result.write(tmp_path / f"{result.run.name}.json")
    assert [each.run.name for each in results_in(tmp_path)] == [
        f"{stream}-{system}-11" for stream in ("FACT", "brick") for system in POINTS
    ]
    systems = write(tmp_path)
    assert list(systems) == ["FACT", "brick"]
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert page.index("## FACT") < page.index("## brick")
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        drawn = tmp_path / "figures" / f"quality-over-adds.{kind}"
        assert drawn.read_bytes().startswith(start)
    first = drawn.read_bytes()
    write(tmp_path)
    assert drawn.read_bytes() == first


def test_the_figure_has_a_line_for_each_system_and_group() -> None:
    line = [(0, 0.4), (50, 0.3), (100, math.nan)]
    groups = {"all": line, "oldest": line, "newest": line[:2]}
    once = {group: [(100, 0.5)] for group in groups}
    figure = stream_figure.quality_over_adds({"A": {"living": groups, "at-once": once}})
    assert isinstance(figure, Figure)
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        *("A: all held-out facts", "A: oldest tenth", "A: newest tenth"),
    ]
    panel = figure.axes[2]
    living, reference = panel.get_lines()
    assert list(living.get_xdata()) == [0, 50]
    assert list(living.get_ydata()) == [0.4, 0.3]
    assert list(reference.get_xdata()) == [100]
    assert len(panel.collections) == 1, "the level of the one point"
    assert panel.get_ylim()[1] > 0.5
