from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lkge.evaluation.results import Accuracy, ProtocolResult, Results
from lkge.reports import figures, plot_style

MakeRun = Callable[..., Results]

OF_ONE_RUN = (
    *(figures.mrr_over_snapshots, figures.mrr_by_age),
    *(figures.matrix_heatmap, figures.time_per_snapshot),
)
OF_MANY = (
    *(figures.mrr_by_method, figures.transfer_by_method),
    *(figures.cumulative_time, figures.mrr_over_time),
)


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def check_files(png: Path, svg: Path, pdf: Path) -> None:
    assert pdf.read_bytes().startswith(b"%PDF-")
    root = ElementTree.fromstring(svg.read_bytes())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    points = float(root.attrib["width"].removesuffix("pt"))
    assert png_size(png)[0] / (points / 72) >= 150


def test_a_single_run_has_its_figures(make_run: MakeRun, tmp_path: Path) -> None:
    drawn = figures.draw([make_run()])
    paths = [path for figure in drawn for path in figure.write(tmp_path / "figures")]
    assert [path.name for path in paths] == [
        f"{stem}.{suffix}"
        for stem in ("mrr-over-snapshots", "mrr-by-age", "matrix", "time-per-snapshot")
        for suffix in ("png", "svg", "pdf")
    ]
    assert sorted(paths) == sorted((tmp_path / "figures").iterdir())
    for files in zip(paths[::3], paths[1::3], paths[2::3], strict=True):
        check_files(*files)


def test_several_systems_are_compared_and_datasets_named(make_run: MakeRun) -> None:
    names = ("A/b", "a b", "C")
    runs = [make_run(name, method, snapshots=1) for name in names for method in ("x", "y")]
    stems = [one.stem for one in figures.draw(runs)]
    assert stems[:3] == ["mrr-by-method", "transfer-by-method", "cumulative-time"]
    assert [stem for stem in stems if stem.startswith("matrix")] == [
        *("matrix-a-b-1", "matrix-a-b-2", "matrix-c"),
    ]
    assert len(set(stems)) == len(stems) == 15


def test_a_crowded_dataset_has_a_panel_for_each_of_its_best_only(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lkge.reports.figures.OF_ALL", {})
    runs = [make_run(method=f"m{k}", mrr=k / 100, snapshots=1) for k in range(1, 8)]
    assert [one.stem for one in figures.draw(runs[1:])] == [
        *("mrr-over-snapshots", "mrr-by-age", "matrix", "time-per-snapshot"),
    ]
    crowded = figures.draw(runs)
    assert [one.stem for one in crowded] == ["mrr-over-snapshots", "mrr-by-age"]
    assert all("6 systems with the highest MRR" in one.caption for one in crowded)
    assert [run.method for run in figures.best_runs(runs)] == [f"m{k}" for k in range(2, 8)]


def test_one_system_on_several_datasets_is_named_once(make_run: MakeRun) -> None:
    figure = figures.mrr_over_snapshots([make_run("A"), make_run("B")])
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["A", "B"]
    assert figure.get_suptitle().endswith(": lkge")


def test_the_same_results_give_the_same_svg_whatever_the_user_prefers(make_run: MakeRun) -> None:
    import matplotlib

    first = figures.draw([make_run()])
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": None, "axes.grid": True}):
        second = figures.draw([make_run()])
    assert first == second
    assert b"<dc:date>" not in first[0].svg
    assert b"CreationDate" not in first[0].pdf


def test_drawing_leaves_the_settings_of_matplotlib_alone(make_run: MakeRun) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 13}):
        figures.matrix_heatmap([make_run()])
        assert matplotlib.rcParams["font.size"] == 13


@pytest.mark.parametrize("draw", [*OF_ONE_RUN, *OF_MANY])
def test_odd_results_are_drawn(draw: Callable[..., object], make_run: MakeRun) -> None:
    unknown = Accuracy(float("nan"), float("nan"), float("nan"), float("nan"), 0)
    tested = ProtocolResult(matrix=((unknown,),))
    odd = [
        make_run(snapshots=1),
        make_run("_$x^{$ 図", "$\\frac{<&", snapshots=12),
        replace(make_run("no tests"), protocols={"paper": tested, "current": tested}),
        replace(make_run("nothing"), snapshots=(), protocols={}),
    ]
    for run in odd:
        rendered = plot_style.render(draw([run]), "odd")  # type: ignore[arg-type]
        ElementTree.fromstring(rendered.svg)
    plot_style.render(draw(odd), "odd")  # type: ignore[arg-type]


def test_lines_of_models_end_at_their_own_snapshot(make_run: MakeRun) -> None:
    run = make_run(snapshots=4)
    (panel,) = figures.mrr_over_snapshots([run]).axes
    found = [list(line.get_ydata()) for line in panel.lines]
    assert found == [[cell.mrr for cell in row] for row in run.protocols["paper"].matrix]


def test_the_line_of_a_system_is_its_last_model_by_age(make_run: MakeRun) -> None:
    runs = [make_run(mrr=0.2, snapshots=3), make_run(method="ewc", mrr=0.3, snapshots=3)]
    panels = figures.mrr_by_age(runs).axes
    for panel, protocol in zip(panels, ("paper", "current"), strict=True):
        found = [list(line.get_ydata()) for line in panel.lines]
        assert found == [
            [row.mrr for row in run.by_age() if row.protocol == protocol] for run in runs
        ]


def test_bars_are_as_long_as_the_mrr_and_the_best_is_bold_and_on_top(make_run: MakeRun) -> None:
    low, high = make_run(method="low", mrr=0.1), make_run(method="high", mrr=0.3)
    (panel,) = figures.mrr_by_method([low, high]).axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["high", "low"]
    assert [bar.get_width() for bar in panel.patches[:2]] == [low.mrr, high.mrr]
    bold = {text.get_text() for text in panel.texts if text.get_fontweight() == "bold"}
    final = [high.protocols[name].final.mrr for name in ("paper", "current")]
    assert bold == {f"{mrr:.3f}" for mrr in final}


def test_a_hard_dataset_that_others_do_not_have_takes_nobody_down(make_run: MakeRun) -> None:
    runs = [
        make_run(method="low", mrr=0.3),
        make_run(method="high", mrr=0.4),
        make_run("FACT", "high", mrr=0.1),
    ]
    panel, _ = figures.mrr_by_method(runs).axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["high", "low"]


def test_stacked_times_add_up(make_run: MakeRun) -> None:
    run = make_run(snapshots=2)
    (panel,) = figures.time_per_snapshot([run]).axes
    tops = [bar.get_y() + bar.get_height() for bar in panel.containers[1]]
    assert tops == pytest.approx([record.seconds for record in run.snapshots])


def test_write_writes_all_formats_and_makes_the_folder(make_run: MakeRun, tmp_path: Path) -> None:
    figure = figures.matrix_heatmap([make_run(snapshots=2)])
    png, svg, pdf = plot_style.render(figure, "stem").write(tmp_path / "a" / "b")
    names = ["stem.png", "stem.svg", "stem.pdf"]
    assert [png, svg, pdf] == [tmp_path / "a/b" / name for name in names]
    check_files(png, svg, pdf)


def test_labels_keep_apart_in_their_order_and_in_bounds() -> None:
    values = [5.0, 1.0, 1.1, 1.05, 9.9, 10.0]
    places = plot_style.spread_out(values, gap=1.0, top=10.0)
    order = sorted(range(6), key=values.__getitem__)
    placed = [places[k] for k in order]
    assert all(b - a >= 1 - 1e-9 for a, b in pairwise(placed))
    assert min(placed) >= 0
    assert max(placed) <= 10
    assert places[0] == 5.0


def test_labels_that_need_no_move_stay() -> None:
    assert plot_style.spread_out([3.0, 1.0], gap=1.0, top=4.0) == [3.0, 1.0]


def test_the_size_of_a_figure_is_that_of_its_svg(make_run: MakeRun) -> None:
    for one in figures.draw([make_run(), make_run(method="ewc")]):
        root = ElementTree.fromstring(one.svg)
        assert list(map(float, root.attrib["viewBox"].split())) == pytest.approx([0, 0, *one.size])


def test_bars_end_in_their_deviation_and_their_number_stands_beyond_it(make_run: MakeRun) -> None:
    runs = [make_run(seed=seed, mrr=mrr) for seed, mrr in ((1, 0.2), (2, 0.3))]
    (panel,) = figures.mrr_by_method(runs).axes
    (segment,) = panel.collections[0].get_segments()
    low, high = sorted(run.mrr for run in runs)
    assert (high - low) / 2**0.5 == pytest.approx((segment[1, 0] - segment[0, 0]) / 2)
    assert panel.texts[0].xy[0] == segment[1, 0]
