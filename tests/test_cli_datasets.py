from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner, Result

from lkge.cli import app, datasets
from lkge.data import growth
from lkge.errors import UnknownName


@pytest.fixture(autouse=True)
def _no_other_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LKGE_DATA", raising=False)
    monkeypatch.setenv("LKGE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A ring of 60 entities with two relations, as TSV."""
    path = tmp_path / "ring.tsv"
    facts = (f"e{n}\tr{n % 2}\te{(n + 1) % 60}\n" for n in range(60))
    path.write_text("".join(facts), encoding="utf-8")
    return path


def lkge(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["datasets", *map(str, words)])


def built(source: Path, out: Path, *more: str) -> Result:
    return lkge("build", source, "--growth", "fact", "--out", out, *more)


def assert_refused(result: Result, *fragments: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    for fragment in fragments:
        assert fragment in result.stderr


def test_the_growths_are_those_of_the_builder() -> None:
    assert get_args(datasets.Growth) == growth.GROWTHS


def test_list_names_the_embedded_dataset_and_those_of_the_paper() -> None:
    listed = json.loads(lkge("list", "--json").stdout)
    assert {"brick", "ENTITY", "RELATION", "FACT", "HYBRID"} <= {each["name"] for each in listed}
    table = lkge("list").stdout
    assert all(each["name"] in table for each in listed)
    assert "lkge datasets fetch" in table


def test_build_cuts_a_graph_that_stats_and_list_can_read(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "graphs" / "grown"
    made = built(source, out, "--snapshots", "3", "--json")
    assert made.exit_code == 0
    rows = json.loads(made.stdout)
    assert [row["new_facts"] for row in rows] == [20, 20, 20]
    assert json.loads(lkge("stats", out, "--json").stdout) == rows
    assert json.loads(lkge("stats", "grown", "--data", out.parent, "--json").stdout) == rows
    listed = json.loads(lkge("list", "--data", out.parent, "--json").stdout)
    assert "grown" in {each["name"] for each in listed}


def test_the_tables_show_the_counts(source: Path, tmp_path: Path) -> None:
    made = built(source, tmp_path / "grown", "--snapshots", "2")
    shown = lkge("stats", tmp_path / "grown")
    for text in (made.stdout, shown.stdout):
        (last,) = [line.split() for line in text.splitlines() if line.split()[:2] == ["1", "30"]]
        assert last[2:5] == ["18", "6", "6"]
        assert last[5] == "60"


def test_the_seed_decides_the_cut(source: Path, tmp_path: Path) -> None:
    def facts(name: str, seed: str) -> bytes:
        assert built(source, tmp_path / name, "--seed", seed).exit_code == 0
        return (tmp_path / name / "0" / "train.txt").read_bytes()

    assert facts("a", "0") == facts("b", "0") != facts("c", "1")


def test_facts_that_stand_twice_are_reported_on_stderr(source: Path, tmp_path: Path) -> None:
    text = source.read_text(encoding="utf-8")
    source.write_text(text + text.splitlines()[0] + "\n", encoding="utf-8")
    result = built(source, tmp_path / "grown", "--json")
    assert "warning: " in result.stderr
    assert sum(row["new_facts"] for row in json.loads(result.stdout)) == 60


def test_build_does_not_overwrite(source: Path, tmp_path: Path) -> None:
    (tmp_path / "grown").mkdir()
    (tmp_path / "grown" / "mine.txt").touch()
    assert_refused(built(source, tmp_path / "grown"), "grown", "--out")


def test_a_malformed_source_is_named_with_its_line(tmp_path: Path) -> None:
    source = tmp_path / "bad.tsv"
    source.write_text("a\tr\tb\nonly two\tfields\n", encoding="utf-8")
    assert_refused(built(source, tmp_path / "grown"), "bad.tsv:2")
    assert not (tmp_path / "grown").exists()


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    assert_refused(built(tmp_path / "absent.tsv", tmp_path / "grown"), "absent.tsv")


def test_an_unknown_growth_lists_those_there_are(source: Path, tmp_path: Path) -> None:
    result = lkge("build", source, "--growth", "moss", "--out", tmp_path / "grown")
    assert result.exit_code == 2
    assert "hybrid" in result.stderr


def test_an_unknown_dataset_is_one_line() -> None:
    assert_refused(lkge("stats", "bricks"), "'bricks'", "'brick'")


def test_fetch_passes_the_address_on_and_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[tuple[str, str | None]] = []

    def fetch(name: str, *, url: str | None, progress: Callable[[int, int | None], None]) -> Path:
        calls.append((name, url))
        progress(5, None)
        progress(10, 10)
        return tmp_path / "dataset.zip"

    monkeypatch.setattr("lkge.data.catalog.fetch", fetch)
    result = lkge("fetch", "FACT", "--url", "http://localhost/x.zip")
    assert result.exit_code == 0
    assert calls == [("FACT", "http://localhost/x.zip")]
    assert f"FACT is in {tmp_path / 'dataset.zip'}" in result.stdout


def test_fetch_refuses_what_it_does_not_know() -> None:
    assert_refused(lkge("fetch", "ENTITEE"), "'ENTITY'")


def test_ctrl_c_anywhere_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lkge.data.catalog.fetch", interrupted)
    result = lkge("fetch", "FACT")
    assert result.exit_code == 130
    assert "Traceback" not in result.output


def test_an_error_tree_member_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise UnknownName("dataset", "x", ["y"])

    monkeypatch.setattr("lkge.data.catalog.load", unknown)
    assert_refused(lkge("stats", "x"), "no dataset named 'x'")
