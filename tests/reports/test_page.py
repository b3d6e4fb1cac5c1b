from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lkge.errors import RunError
from lkge.evaluation.results import Results
from lkge.reports.page import page, write_page, write_report

MakeRun = Callable[..., Results]
VOID = frozenset({"meta", "link"})


class Reader(HTMLParser):
    """Checks that elements nest, and collects ids, targets, best figures and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.best: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "strong" and ("class", "best") in attrs:
            self.best.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "strong" and self.best and not self.best[-1]:
            self.best[-1] = data

    def all(self, name: str) -> list[str]:
        return [value for _, key, value in self.attributes if key == name]


def test_the_best_of_each_dataset_is_bold(make_run: MakeRun) -> None:
    runs = [make_run(mrr=0.3), make_run(method="snapshot", mrr=0.1)]
    best = Reader(page(runs, [])).best
    assert f"{runs[0].mrr:.3f}" in best
    assert f"{runs[1].mrr:.3f}" not in best
    assert Reader(page(runs[:1], [])).best == []


def test_the_whole_report(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [
        make_run(dataset, method, mrr, snapshots=2)
        for dataset in ("ENTITY", "FACT")
        for method, mrr in (("lkge", 0.23), ("fine-tune", 0.16))
    ]
    path = write_report(runs, tmp_path / "report")
    assert path == tmp_path / "report" / "index.html"
    assert len(list((tmp_path / "report/figures").iterdir())) == 3 * (3 + 2 * 4)
    assert "## FACT, current protocol" in (tmp_path / "report/summary.md").read_text("utf-8")
    text = path.read_text("utf-8")
    reader = Reader(text)
    assert reader.tags["svg"] == 11
    assert reader.tags["details"] == 4
    assert re.findall(r"https?:", text) == []
    assert not re.search(r'\b(src|href)="(?!#|data:,)', text)
    assert "@import" not in text
    assert "<!--" not in text

    ids = reader.all("id")
    assert len(set(ids)) == len(ids)
    targets = {
        value.removeprefix("#")
        for value in (*reader.all("href"), *reader.all("xlink:href"))
        if value.startswith("#")
    }
    targets |= set(re.findall(r"url\(#([^)]+)\)", text)) | set(reader.all("data-panel"))
    assert targets <= set(ids)


def test_names_and_settings_are_escaped(make_run: MakeRun, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    run = make_run(evil, '"><img src=x onerror=alert(1)>', snapshots=2)
    training = {**run.config["training"], "<i>k</i>": "<u>v</u>"}
    run = replace(run, config={**run.config, "training": training})
    write_page([run, make_run(evil)], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text("utf-8")
    tags = Reader(text).tags
    assert tags["script"] == 1
    assert (tags["img"], tags["i"], tags["u"]) == (0, 0, 0)
    assert "&lt;u&gt;v&lt;/u&gt;" in text


def test_provenance_is_shown_and_escaped(make_run: MakeRun) -> None:
    made = {"lkge": "0.2.0", "commit": "1a2b3c4d5e", "dirty": False, "python": "3.12.1"}
    made |= {"torch": "2.6", "numba": "0.61", "threads": 1, "cpu": "<b>CPU</b>", "platform": "X"}
    text = page([replace(make_run(), provenance=made, data_digest="ab" * 32)], [])
    assert "Code: 0.2.0 (1a2b3c4); python 3.12.1" in text
    assert "<dt>cpu</dt><dd>&lt;b&gt;CPU&lt;/b&gt;</dd>" in text
    assert f"<dt>data digest</dt><dd>{'ab' * 8}</dd>" in text
    assert ">Code</th>" not in text


def test_a_page_with_several_versions_of_the_code_has_a_column_for_them(make_run: MakeRun) -> None:
    text = page([make_run(), replace(make_run(method="ewc"), provenance={"lkge": "0.2.0"})], [])
    assert ">Code</th>" in text
    assert '<td class="edge">unrecorded</td>' in text
    assert '<td class="edge">0.2.0</td>' in text


def test_a_single_system_is_open_and_several_are_closed(make_run: MakeRun) -> None:
    assert len(Reader(page([make_run()], [])).all("open")) == 1
    assert Reader(page([make_run(), make_run(method="x")], [])).all("open") == []


def test_panels_hold_both_matrices_records_of_each_seed_and_settings(make_run: MakeRun) -> None:
    text = page([make_run(seed=1), make_run(seed=2)], [])
    assert text.count('<table class="heat">') == 2
    assert "Snapshots, seed 2" in text
    assert "<dt>training.seed</dt><dd>1, 2</dd>" in text
    assert text.count("--warmth:") == 2 * 15
    assert 'class="faint">0.117<' in text


def test_what_a_method_has_to_say_of_a_snapshot_is_shown(make_run: MakeRun) -> None:
    run = make_run(snapshots=2)
    noted = replace(run.snapshots[1], note="3 relations < 5 unseen")
    text = page([replace(run, snapshots=(run.snapshots[0], noted))], [])
    assert '<p class="note">Snapshot 2: 3 relations &lt; 5 unseen.</p>' in text


def test_single_snapshots_and_runs_without_results_have_a_page(make_run: MakeRun) -> None:
    nothing = replace(make_run(method="none"), snapshots=(), protocols={})
    text = page([make_run(snapshots=1), nothing], [])
    shown = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", text, flags=re.S)
    assert not re.search(r"\bnan\b", shown)
    assert "<td>–</td>" in text  # noqa: RUF001


def test_a_bench_of_many_systems_has_a_panel_for_each(make_run: MakeRun) -> None:
    runs = [make_run(dataset, f"m{k}", 0.01 * k) for dataset in "ABCD" for k in range(1, 18)]
    reader = Reader(page(runs, []))
    assert reader.tags["details"] == 68
    assert len(set(reader.all("data-panel"))) == 68


def test_no_results_and_unwritable_places_are_named(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="name at least one run folder"):
        write_report([], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="file: the report cannot be written"):
        write_report([make_run(snapshots=1)], tmp_path / "file")
