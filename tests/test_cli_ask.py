"""`lkge predict` with limits and for relations, `suggest`, `explain`, `find`, and labels."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from tests.serve.helpers import world
from tests.test_cli_living import SMALL, assert_refused, done, lkge, said, tree, written

from lkge.living import init
from lkge.living import open as open_graph


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cities; no test changes them."""
    folder = tmp_path_factory.mktemp("cities") / "KG"
    graph = init(folder, dim=8, max_epochs=3, batch_size=32, seed=3, backend="torch")
    graph.add(world(), valid=0.2)
    graph.label({"City 03": "Third town", "lies in": "is part of"})
    return folder


def entities(found: Any) -> list[str]:
    return [answer["entity"] for answer in found["answers"]]


class TestRelations:
    def test_between_two_entities(self, kg: Path) -> None:
        found = tree("predict", kg, "-s", "City 03", "-o", "Country 3")
        expected = open_graph(kg).predict_relations(subject="City 03", object="Country 3")
        assert found["answers"] == [one._asdict() for one in expected]
        assert found["relation"] is None
        assert found["labels"] == {"City 03": "Third town", "lies in": "is part of"}
        shown = said(done("predict", kg, "-s", "City 03", "-o", "Country 3"))
        assert "(Third town (City 03), ?, Country 3)" in shown
        assert "is part of (lies in)" in shown
        new = tree("predict", kg, "-s", "City 03", "-o", "Country 3", "--new", "-k", "1")
        assert [one["relation"] for one in new["answers"]] == ["near to"]

    def test_in_a_batch(self, kg: Path, tmp_path: Path) -> None:
        file = written(tmp_path / "q.tsv", "City 03\t?\tCountry 3\n?\tlies in\tCountry 3\n")
        first, second = tree("predict", kg, "--batch", file, "-k", "2")
        assert [one["known"] for one in first["answers"]].count(True) >= 1
        assert len(entities(second)) == 2
        wrong = written(tmp_path / "wrong.tsv", "City 03\t?\t?\n")
        assert_refused(lkge("predict", kg, "--batch", wrong), "wrong.tsv:1", "?")

    def test_limits_of_entities_are_refused(self, kg: Path) -> None:
        words = ("predict", kg, "-s", "City 03", "-o", "Country 3")
        for option in (("--among", "City 04"), ("--where", "lies in=Country 1"), ("--unlinked",)):
            assert_refused(lkge(*words, *option), option[0], "leave it out")

    def test_one_part_is_asked_for(self, kg: Path) -> None:
        assert_refused(lkge("predict", kg, "-s", "City 03"), "two of -s SUBJECT")
        every = ("-s", "City 03", "-r", "lies in", "-o", "Country 3")
        assert_refused(lkge("predict", kg, *every), "two of -s SUBJECT")


class TestLimits:
    WORDS = ("-s", "City 03", "-r", "lies in", "-k", "99")

    def test_listed_entities(self, kg: Path, tmp_path: Path) -> None:
        found = tree("predict", kg, *self.WORDS, "--among", "City 09, Country 1")
        assert set(entities(found)) == {"City 09", "Country 1"}
        every = tree("predict", kg, *self.WORDS)["answers"]
        assert all(answer in every for answer in found["answers"])
        names = written(tmp_path / "names.txt", "Country 2\n\nCity 09\n")
        words = ("--among-file", names, "--among", "Country 1")
        listed = {"City 09", "Country 1", "Country 2"}
        assert set(entities(tree("predict", kg, *self.WORDS, *words))) == listed
        assert_refused(lkge("predict", kg, *self.WORDS, "--among", "Citi 09"), "City 09")

    def test_entities_with_a_fact(self, kg: Path) -> None:
        where = ("--where", "lies in=Country 1", "--where", "capital of=Country 1")
        assert entities(tree("predict", kg, *self.WORDS, *where)) == ["City 01"]
        assert_refused(lkge("predict", kg, *self.WORDS, "--where", "lies in"), "RELATION=OBJECT")
        assert_refused(lkge("predict", kg, *self.WORDS, "--where", "lie in=x=y"), "lies in")

    def test_names_may_have_equals_signs(self, tmp_path: Path) -> None:
        graph = init(tmp_path / "KG", dim=4, max_epochs=1, backend="torch")
        graph.add([("a", "r=s", "x=y"), ("b", "r=s", "z"), ("c", "r", "z")], valid=0)
        words = ("-s", "b", "-r", "r", "--where", "r=s=x=y")
        assert entities(tree("predict", tmp_path / "KG", *words)) == ["a"]

    def test_entities_without_a_link(self, kg: Path) -> None:
        found = entities(tree("predict", kg, *self.WORDS, "--unlinked"))
        assert not {"Country 3", "City 09", "City 27", "City 03"} & set(found)
        assert len(found) == 36 - 4

    def test_they_need_known_facts(self, tmp_path: Path) -> None:
        kg = tmp_path / "KG"
        facts = written(tmp_path / "facts.tsv", "a\tr\tb\n")
        done("init", kg, *SMALL, "--no-known", "--from", facts, "--quiet")
        for option in (("--unlinked",), ("--where", "r=b")):
            words = ("predict", kg, "-s", "a", "-r", "r", *option)
            assert_refused(lkge(*words), option[0], "needs the known facts")
        assert_refused(lkge("suggest", kg), "need the known facts")
        assert_refused(lkge("explain", kg, "a", "r", "b"), "needs the known facts")


class TestSuggest:
    def test_as_json_and_as_a_table(self, kg: Path) -> None:
        found = tree("suggest", kg, "-r", "near to", "-k", "7")
        expected = open_graph(kg).suggest(relation="near to", k=7)
        assert found["facts"] == [fact._asdict() for fact in expected.facts]
        assert (found["scored"], found["queries"], found["complete"]) == expected[1:]
        shown = done("suggest", kg, "-r", "near to", "-k", "7", "--queries", "2").stdout
        assert "Scored 2 of 30 queries; others may have better facts" in " ".join(shown.split())
        assert shown.count("near to") == 7
        whole = said(done("suggest", kg, "-r", "near to", "-k", "500"))
        assert "no other has a better fact" in whole

    def test_of_a_subject_or_an_object(self, kg: Path) -> None:
        facts = tree("suggest", kg, "-s", "City 03", "-k", "50")["facts"]
        assert {fact["subject"] for fact in facts} == {"City 03"}
        facts = tree("suggest", kg, "-o", "Country 3", "-k", "50")["facts"]
        assert {fact["object"] for fact in facts} == {"Country 3"}
        assert_refused(lkge("suggest", kg, "-s", "City 03", "-o", "City 04"), "not both")

    def test_as_files(self, kg: Path, tmp_path: Path) -> None:
        expected = [fact._asdict() for fact in open_graph(kg).suggest(k=40).facts]
        for suffix in ("csv", "jsonl", "parquet"):
            path = tmp_path / f"facts.{suffix}"
            assert f"{path} has 40 facts" in said(done("suggest", kg, "-k", "40", "--out", path))
            rows = read(path)
            assert len(rows) == 40
            for row, fact in zip(rows, expected, strict=True):
                assert [row[name] for name in ("subject", "relation", "object")] == [
                    fact[name] for name in ("subject", "relation", "object")
                ]
                assert float(row["plausibility"]) == pytest.approx(fact["plausibility"])
                label = "Third town" if row["subject"] == "City 03" else ""
                assert row["subject_label"] == label
        refused = lkge("suggest", kg, "--out", tmp_path / "facts.xls")
        assert_refused(refused, "unknown suffix '.xls'", ".csv, .jsonl, .parquet")

    def test_without_labels_there_are_no_columns_for_them(self, kg: Path, tmp_path: Path) -> None:
        done("suggest", kg, "-s", "City 01", "-r", "capital of", "--out", tmp_path / "f.csv")
        assert list(read(tmp_path / "f.csv")[0])[-1] == "plausibility"


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of facts."""
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
        return rows
    text = path.read_text("utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(text.splitlines()))


class TestExplain:
    FACT = ("City 07", "lies in", "Country 1")

    def test_as_json_and_as_a_table(self, kg: Path) -> None:
        found = tree("explain", kg, *self.FACT, "-k", "3")
        expected = open_graph(kg).explain(*self.FACT, k=3)
        assert found["fact"] == expected.fact._asdict()
        assert found["reasons"] == [reason._asdict() for reason in expected.reasons]
        shown = said(done("explain", kg, *self.FACT, "-k", "3"))
        assert "(City 07, is part of (lies in), Country 1): known, plausibility" in shown
        assert f"Of {expected.compared} known facts" in shown
        assert expected.reasons[0].text in shown

    def test_an_unknown_name(self, kg: Path) -> None:
        assert_refused(lkge("explain", kg, "City 7", "lies in", "Country 1"), "City 07")


class TestLabels:
    def test_find(self, kg: Path) -> None:
        assert tree("find", kg, "third")["names"] == [{"name": "City 03", "label": "Third town"}]
        assert tree("find", kg, "part", "--relations")["names"][0]["name"] == "lies in"
        assert "Third town" in said(done("find", kg, "y 03"))

    def test_they_are_shown(self, kg: Path, tmp_path: Path) -> None:
        assert "Similar to Third town (City 03)" in said(done("similar", kg, "City 03"))
        assert tree("similar", kg, "City 03")["labels"] == {"City 03": "Third town"}
        facts = written(tmp_path / "facts.tsv", "City 03\tlies in\tCountry 1\n")
        assert "Third town (City 03)" in said(done("score", kg, facts))
        assert tree("score", kg, facts)["labels"]["lies in"] == "is part of"

    def test_from_files(self, kg: Path, tmp_path: Path) -> None:
        copy = shutil.copytree(kg, tmp_path / "KG")
        labels = written(tmp_path / "labels.tsv", "City 04\tFourth town\nCity 03\t\n")
        assert "Nothing waits" in said(done("add", copy, "--labels", labels))
        assert open_graph(copy).labels == {"lies in": "is part of", "City 04": "Fourth town"}
        wrong = written(tmp_path / "wrong.tsv", "City 04\n")
        assert_refused(lkge("add", copy, "--labels", wrong), "wrong.tsv:1", "tab between them")

    def test_from_rdf(self, tmp_path: Path) -> None:
        rdfs = "<http://www.w3.org/2000/01/rdf-schema#label>"
        facts = written(tmp_path / "facts.nt", f'<a:x> <a:r> <a:y> .\n<a:x> {rdfs} "Ex" .\n')
        labels = written(tmp_path / "labels.tsv", "a:y\tWhy\n")
        kg = tmp_path / "KG"
        result = done("init", kg, *SMALL, "--from", facts, "--labels", labels, "--quiet")
        assert "left out" not in result.stderr
        assert open_graph(kg).labels == {"a:x": "Ex", "a:y": "Why"}
        more = written(tmp_path / "more.nt", f'<a:r> {rdfs} "is" .\n')
        done("add", kg, more, "--quiet")
        assert open_graph(kg).labels == {"a:x": "Ex", "a:y": "Why", "a:r": "is"}
        assert open_graph(kg).version == 1
