"""Random documents for every parser: a sample here, a million in `make torture`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.torture.parsers import SHARES, run

from lkge.data import formats
from lkge.data.columns import Chosen


def test_every_document_is_read_or_refused(tmp_path: Path) -> None:
    found = run(600, 5, tmp_path)
    assert [trace for _, _, trace in found.failures] == []
    assert found.inputs.keys() == SHARES.keys()
    assert found.read.total() > 0.6 * found.inputs.total()


def test_a_parser_with_a_fault_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = formats.TABLES[".csv"]

    def forgetful(data: bytes, name: str, columns: Chosen | None) -> formats.NamedFacts:
        facts = parse(data, name, columns)
        columns = facts.subjects[1:], facts.relations[1:], facts.objects[1:]
        return formats.NamedFacts(name, *columns, None)

    monkeypatch.setitem(formats.TABLES, ".csv", forgetful)
    assert run(60, 5, tmp_path).failures


def test_an_error_of_another_kind_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(data: bytes, name: str, columns: Chosen | None) -> formats.NamedFacts:
        raise IndexError(name)

    monkeypatch.setitem(formats.TABLES, ".tsv", fail)
    assert run(60, 5, tmp_path).failures
