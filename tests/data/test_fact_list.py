"""Tests of facts by name, dictionary-encoded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lkge.data import tables
from lkge.data.fact_list import FactList, is_first
from lkge.data.facts import read_facts
from lkge.data.snapshots import numbered
from lkge.data.vocabulary import Vocabulary
from lkge.errors import DataError

NAMES = st.sampled_from(
    ["a", "b", "Ä", "ß", " ", "a b", '"', "x\\", "\ufeff", "0", "NA", "null", "🧬"]
)
TRIPLES = st.lists(st.tuples(NAMES, NAMES, NAMES), max_size=12)
LINES = st.lists(
    st.one_of(
        st.tuples(NAMES, NAMES, NAMES).map("\t".join),
        st.sampled_from(["", "  ", "a\tb", "a\tb\tc\td", "a\rb\tr\tc", "\t\t", "a\tr\t\x00"]),
    ),
    max_size=6,
)


@given(TRIPLES)
def test_facts_are_those_that_were_given(triples: list[tuple[str, str, str]]) -> None:
    facts = FactList.of(triples)
    assert facts == triples
    assert list(facts) == triples
    assert facts[1:3] == triples[1:3]
    assert [facts[place] for place in range(len(triples))] == triples
    named = [name for subject, _, object_ in triples for name in (subject, object_)]
    assert list(facts.entities) == list(dict.fromkeys(named))
    assert list(facts.relations) == list(dict.fromkeys(relation for _, relation, _ in triples))
    assert FactList.joined([triples[:5], FactList.of(triples[5:])]) == list(dict.fromkeys(triples))


def test_lists_with_other_facts_are_not_equal() -> None:
    facts = FactList.of([("a", "r", "b")])
    assert facts != [("a", "r", "c")]
    assert facts != [("a", "r", "b")] * 2


@pytest.mark.parametrize("largest", [5, 1 << 30])
def test_the_first_of_equal_rows_is_found(largest: int) -> None:
    rows = np.array([[1, 2, 3], [1, 2, 4], [1, 2, 3], [largest, 2, 4], [largest, 2, 4]], np.int32)
    assert is_first(rows).tolist() == [True, True, False, True, False]
    wide = np.where(rows == 2, np.int32(largest), rows)
    assert is_first(wide).tolist() == [True, True, False, True, False]


@settings(deadline=None)  # loads pyarrow
@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_columns_are_parsed_as_lines_are(
    lines: list[str], end: str, last: bool, mark: bool
) -> None:
    data = (("\ufeff" if mark else "") + end.join(lines) + (end if last else "")).encode()
    by_column = tables.parse_plain_tsv(data, "f.tsv")
    if by_column is None:
        return
    by_line = tables.parse_tsv_by_line(data, "f.tsv")
    assert list(by_column) == list(by_line)
    assert list(by_column.lines or ()) == list(by_line.lines or ())
    assert by_column.encoded.entities == by_line.encoded.entities
    assert by_column.encoded.relations == by_line.encoded.relations
    np.testing.assert_array_equal(by_column.encoded.ids, by_line.encoded.ids)


def test_plain_lines_are_parsed_by_columns() -> None:
    facts = tables.parse_plain_tsv(b"b\tr\ta\na\ts\tc\n", "f.tsv")
    assert facts is not None
    assert facts.encoded.entities == ["b", "a", "c"]
    assert list(facts) == [("b", "r", "a"), ("a", "s", "c")]


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (b"a\tr", "f.tsv:4: expected subject, relation and object"),
        (b"a\tr\t\xff", "f.tsv:4: not valid UTF-8"),
        (b"a\t \tb", "f.tsv:4: the relation has an empty name"),
    ],
)
def test_large_files_have_the_same_errors(
    last: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LARGE_TSV", 0)
    with pytest.raises(DataError, match=message):
        read_facts(b"a\tr\tb\nb\tr\tc\nc\tr\td\n" + last, name="f.tsv")


def test_repeats_in_large_files_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LARGE_TSV", 0)
    facts = read_facts(b"a\tr\tb\nb\tr\tc\na\tr\tb\n", name="f.tsv")
    assert list(facts) == [("a", "r", "b"), ("b", "r", "c")]
    assert facts.warnings == (
        "f.tsv:3: a fact stands here for the second time; repeats in this file, left out: 1",
    )


def test_numbers_are_those_of_the_vocabulary() -> None:
    vocabulary = Vocabulary(["b"], ["s"])
    facts = numbered(vocabulary, [("a", "r", "b"), ("b", "s", "c")])
    assert facts.tolist() == [[1, 2, 0], [0, 0, 2]]
    assert list(vocabulary.entities) == ["b", "a", "c"]
