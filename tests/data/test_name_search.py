"""Texts by what they contain and by likeness, and the names of tables with changes."""

from __future__ import annotations

import random
import time

import pytest

from lkge.data import name_search
from lkge.data.changed_names import ChangedNames
from lkge.data.name_search import Texts
from lkge.data.names import NameTable, encoded


def texts(*listed: str) -> Texts:
    return Texts.of(*encoded(listed))


def test_those_that_begin_come_first_then_words_then_short_ones() -> None:
    found = texts("Cold_Water", "Underwater", "Water_Pump", "water", "Fire", "").containing("WATER")
    assert found == [3, 2, 0, 1]


def test_blanks_are_underscores_and_no_text_goes_over_its_end() -> None:
    some = texts("Zone_Air-Temp", "ab", "ab")
    assert some.containing("air temp") == some.containing("AIR_TEMP") == [0]
    assert some.containing("ba") == some.containing("bab") == some.containing("\xff") == []
    assert some.containing("") == some.containing("\ud800") == []


def test_letters_that_are_not_ascii_are_found_in_any_case() -> None:
    some = texts("Ärger", "großer ärger", "ÄRGER", "Arger")
    assert some.containing("ärger") == [0, 2, 1]
    assert some.containing("ÄRG") == [0, 2, 1]


def test_likeness_is_that_of_the_last_part_of_an_iri() -> None:
    some = texts("http://e.org/a#Water_Pump", "http://e.org/a/Fan/", "http://e.org/a#Boiler")
    assert some.alike("watr pmp", 5) == [0]
    assert some.alike("http://other.org/x#Boyler", 5) == [2]
    assert some.alike("zzzz", 5) == []


def test_more_bytes_than_are_searched_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_search, "MAX_BYTES", 5)
    assert texts("abcdef").containing("abc") == []
    assert texts("abc").containing("abc") == [0]
    monkeypatch.setattr(name_search, "MAX_COMPARED_TEXTS", 1)
    assert texts("a", "b").alike("a", 1) == []


def test_a_table_with_changes_finds_what_is_there_now() -> None:
    base = NameTable.of(["red pump", "blue pump", "old fan", "gone pump"])
    table = ChangedNames(base, {2: "green pump", 3: ""}, ["new pump", "bell"])
    plain = NameTable.of(list(table))
    assert set(table.containing("pump")) == set(plain.containing("pump")) == {0, 1, 2, 4}
    assert table.containing("fan") == []
    assert table.alike("gren pump", 1) == plain.alike("gren pump", 1) == [2]
    assert table.alike("bel", 3) == [5]


def test_no_query_takes_long() -> None:
    generator, words = random.Random(1), ["hot", "water", "pump", "valve", "sensor", "ärger"]
    names = [f"http://e.org/{'_'.join(generator.choices(words, k=3))}_{n}" for n in range(100_000)]
    table = NameTable.of(names)
    table.containing("x")
    table.alike("xyz", 1)
    for query in ("e", "ärger", "hot watr pump", "x" * 1000, "_".join(words * 30), names[7]):
        started = time.process_time()
        table.containing(query)
        table.alike(query, 10)
        assert time.process_time() - started < 0.1
