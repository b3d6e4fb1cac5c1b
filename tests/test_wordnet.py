"""`scripts/wordnet.py` reads the lines of WordNet's files."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from tests.scripts import script_named

LINES = [
    "  1 This software and database is being provided",
    "00000010 03 n 02 plant 0 flora 0 002 @ 00000020 n 0000 ~ 00000030 n 0000 | no @ 00000099",
    "00000040 00 s 0b a 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j 0 k 0 001 & 00000031 a 0000 | eleven",
    "00000031 00 a 01 green 0 002 & 00000040 s 0000 ! 00000032 a 0101 | one pair, seen again",
]


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with script_named("wordnet") as module:
        yield module


def test_one_of_two_inverses_and_each_pair_once(script: ModuleType) -> None:
    assert set(script.facts_of(LINES)) == {
        ("n00000010", "hypernym", "n00000020"),
        ("a00000031", "similar_to", "a00000040"),
    }


def test_what_is_left_has_three_facts_each(script: ModuleType) -> None:
    square = {(a, "hypernym", b) for a in "abcd" for b in "abcd" if a < b}
    tail = {("a", "entails", "e"), ("e", "causes", "f"), ("f", "causes", "f")}
    assert script.core(square | tail) == square
    assert script.core(tail) == set()
