"""Labels in files, and those that facts in RDF bring along."""

from __future__ import annotations

from pathlib import Path

import pytest

from lkge.data.facts import read_facts
from lkge.data.label_files import read_label_file
from lkge.errors import DataError

TURTLE = """@prefix : <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:a :r :b , :b . :a rdfs:label "das A"@de, "the A"@en-GB, "A" . :b rdfs:label "das B"@de, "le B"@fr .
:r rdfs:label "relates to" . :c rdfs:label [] . [] rdfs:label "nobody" . :a :size 3 .
"""
EXPECTED = {"http://e/a": "the A", "http://e/b": "das B", "http://e/r": "relates to"}


def test_labels_in_rdf_prefer_english_or_no_language(tmp_path: Path) -> None:
    facts = read_facts(TURTLE.encode(), "some.ttl")
    assert facts.labels == EXPECTED
    assert list(facts) == [("http://e/a", "http://e/r", "http://e/b")]
    assert "left out 3 facts: 1 with blank nodes, 2 with literals" in facts.warnings[0]
    path = tmp_path / "labels.TTL"
    path.write_text(TURTLE, "utf-8")
    assert read_label_file(path) == EXPECTED


def test_lines_of_names_and_labels(tmp_path: Path) -> None:
    path = tmp_path / "labels.tsv"
    path.write_bytes("\ufeffwd:Q1\tthe universe\r\n\nwd:Q2\t\nwd:Q1\tUniverse \n".encode())
    assert read_label_file(path) == {"wd:Q1": "Universe", "wd:Q2": ""}


@pytest.mark.parametrize(
    ("content", "place"),
    [(b"a\tb\nonly a name\n", ":2: expected a name"), (b"a\tb\tc", ":1: "), (b"\tb", ":1: ")],
)
def test_other_lines_are_errors(tmp_path: Path, content: bytes, place: str) -> None:
    path = tmp_path / "labels.tsv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"labels.tsv{place}"):
        read_label_file(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_label_file(tmp_path / "none.tsv")
    (tmp_path / "bad.tsv").write_bytes(b"a\t\xff")
    with pytest.raises(DataError, match="not valid UTF-8"):
        read_label_file(tmp_path / "bad.tsv")
