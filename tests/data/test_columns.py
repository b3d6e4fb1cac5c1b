"""Headers, delimiters and columns of tables: known for certain, given, or an error."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lkge.data import tables
from lkge.data.facts import read_facts, write_facts
from lkge.errors import DataError, SettingsError

FACTS = [("a", "r", "b"), ("b", "r", "c")]


def table(header: str, delimiter: str, order: str = "sro", extra: bool = False) -> bytes:
    """The facts as a table; `order` has s, r and o."""
    rows = [header] if header else []
    for number, fact in enumerate(FACTS):
        cells = [fact["sro".index(letter)] for letter in order]
        rows.append(delimiter.join([*cells, str(number)] if extra else cells))
    return "".join(f"{row}\n" for row in rows).encode()


@pytest.fixture(params=[False, True], ids=["by line", "by column"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """TSV is read line by line, and by columns."""
    monkeypatch.setattr(tables, "LARGE_TSV", 0 if request.param else 1 << 20)


@pytest.mark.parametrize(
    ("header", "order"),
    [
        ("subject predicate object", "sro"),
        ("Head Relation Tail", "sro"),
        ("s p o", "sro"),
        ("from to relation", "sor"),
        ("source relationship target", "sro"),
        ("rel subj obj", "rso"),
    ],
)
@pytest.mark.parametrize("delimiter", ["\t", ",", ";", "|"])
def test_certain_headers_give_the_order(
    large: None, header: str, order: str, delimiter: str
) -> None:
    data = table(header.replace(" ", delimiter), delimiter, order)
    for name in ("f.tsv", "f.csv", "f.txt"):
        facts = read_facts(data, name=name)
        assert list(facts) == FACTS
        assert list(facts.lines or ()) == [2, 3]
        assert facts.layout
        assert facts.layout.names == tuple(header.split())


def test_other_columns_are_left_out(large: None) -> None:
    data = table("weight\trelation\tobject\tsubject".replace("weight\t", ""), "\t", "ros")
    assert list(read_facts(data, name="f.tsv")) == FACTS
    data = table("target\tsource\trelation\tweight", "\t", "osr", extra=True)
    assert list(read_facts(data, name="f.tsv")) == FACTS
    with pytest.raises(DataError, match=r"f.tsv:4: expected 4 fields with a tab"):
        read_facts(data + b"a\tr\tb\n", name="f.tsv")


@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
def test_without_a_header_the_first_line_is_a_fact(large: None, delimiter: str) -> None:
    for name in ("f.tsv", "f.csv"):
        facts = read_facts(table("", delimiter), name=name)
        assert list(facts) == FACTS
        assert list(facts.lines or ()) == [1, 2]


@pytest.mark.parametrize(
    "fact",
    [
        ("label", "type", "Property"),
        ("From Russia with Love", "type", "film"),
        ("head", "part of", "body"),
        ("s", "likes", "t"),
        ("h", "r", "x"),
        ("Point", "subClassOf", "Class"),
        ("Object lesson", "type", "Head of state"),
    ],
)
def test_facts_that_are_no_headers(large: None, fact: tuple[str, str, str]) -> None:
    assert list(read_facts("\t".join(fact).encode() + b"\n", name="f.tsv")) == [fact]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("source,target,type", "subject=source,relation=type,object=target"),
        ("head_id,tail_id,label", "subject=head_id,relation=label,object=tail_id"),
        (":START_ID,:END_ID,:TYPE", "subject=:START_ID,relation=:TYPE,object=:END_ID"),
        ("node1,node2,edge", "subject=node1,relation=edge,object=node2"),
        ("sourceNode,weight,targetNode", "subject=sourceNode,relation=weight,object=targetNode"),
        ("person,relation,friend", "subject=…,relation=relation,object=…"),
        ("source,verb of,weight,target", "subject=source,relation=…,object=target"),
        ("subject,head,relation,object", "subject=…,relation=relation,object=object"),
    ],
)
@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
def test_uncertain_headers_are_an_error_that_names_the_option(
    large: None, header: str, columns: str, delimiter: str
) -> None:
    width = header.count(",") + 1
    data = f"{header}\n{','.join('abcd'[:width])}\n".replace(",", delimiter).encode()
    for name in ("f.tsv", "f.csv"):
        with pytest.raises(DataError) as caught:
            read_facts(data, name=name)
        assert str(caught.value).startswith(f"{name}:1: ")
        assert f"--columns {columns}" in str(caught.value)
        assert "--columns subject=1,relation=2,object=3" in str(caught.value)


def test_given_columns(large: None) -> None:
    data = table("source\ttarget\ttype", "\t", "sor")
    by_name = "subject=source, relation=type, object=target"
    mapping = {"subject": "source", "relation": "type", "object": "target"}
    for columns in (by_name, mapping):
        facts = read_facts(data, name="f.tsv", columns=columns)
        assert list(facts) == FACTS
    numbers = {"subject": 1, "relation": 3, "object": 2}
    facts = read_facts(data, name="f.tsv", columns=numbers)
    assert list(facts) == [("source", "type", "target"), *FACTS]
    assert facts.layout
    assert facts.layout.columns == {"subject": "1", "relation": "3", "object": "2"}


def test_a_table_of_more_columns_without_a_header_needs_numbers(large: None) -> None:
    data = table("", "\t", "sor", extra=True)
    with pytest.raises(DataError, match=r"found 4 fields.*--columns subject=1"):
        read_facts(data, name="f.tsv")
    assert list(read_facts(data, name="f.tsv", columns="subject=1,relation=3,object=2")) == FACTS


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("subject=a,relation=b", "name all three"),
        ("subject=a,relation=b,thing=c", "name all three"),
        ("subject", "name all three"),
        ("subject=a,relation=b,object=a", "named twice"),
    ],
)
def test_columns_that_say_too_little(columns: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_facts(b"a\tr\tb\n", name="f.tsv", columns=columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("subject=x,relation=relation,object=object", "the column 'x' is not there; the columns"),
        ("subject=1,relation=2,object=4", "no column 4; the first line has 3"),
        ("subject=0,relation=1,object=2", "no column 0"),
        ("subject=1,relation=relation,object=object", "the column '1' is not there"),
    ],
)
def test_columns_that_are_not_there(columns: str, message: str) -> None:
    data = table("subject\trelation\tobject", "\t")
    for name in ("f.tsv", "f.csv"):
        with pytest.raises(DataError, match=message):
            read_facts(data, name=name, columns=columns)


def test_columns_are_for_tables() -> None:
    with pytest.raises(DataError, match="RDF has no columns"):
        read_facts(b"<x:a> <x:r> <x:b> .", name="f.nt", columns="subject=1,relation=2,object=3")


def test_a_delimiter_is_taken_only_if_the_rows_are_even() -> None:
    assert list(read_facts(b"a;1,r,b\nc,r,d;2\n", name="f.csv")) == [
        ("a;1", "r", "b"),
        ("c", "r", "d;2"),
    ]
    assert list(read_facts(b"a,1;r;b,c\nd;r;e\n", name="f.csv")) == [
        ("a,1", "r", "b,c"),
        ("d", "r", "e"),
    ]
    with pytest.raises(DataError, match=r"f.csv:1: .* a comma .*found 1 field"):
        read_facts(b"a;r;b|c|d\n", name="f.csv")


def test_a_first_fact_like_a_header_survives_tsv(tmp_path: pytest.TempPathFactory) -> None:
    for first in (("subject", "relation", "object"), ("source", "type", "target")):
        path = f"{tmp_path}/f.tsv"
        write_facts(path, [first, *FACTS])
        assert list(read_facts(path)) == [first, *FACTS]


def parquet(*names: str) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table([pa.array(["a"])] * len(names), list(names)), sink)
    return sink.getvalue()


@pytest.mark.parametrize("names", [("x", "y", "z"), ("source", "target", "type")])
def test_names_of_parquet_columns_must_be_certain_or_given(names: tuple[str, str, str]) -> None:
    with pytest.raises(DataError, match=r"not clear which column is which.*--columns"):
        read_facts(parquet(*names), name="f.parquet")
    for chosen in (names, "123"):
        columns = dict(zip(("subject", "relation", "object"), chosen, strict=True))
        assert list(read_facts(parquet(*names), "f.parquet", columns=columns)) == [("a", "a", "a")]


@pytest.mark.parametrize(
    "lines",
    [
        [list(fact) for fact in FACTS],
        [["source", "relation", "target"], *(list(fact) for fact in FACTS)],
        [{"subject": s, "weight": 1, "predicate": r, "object": o} for s, r, o in FACTS],
        [{"to": o, "relation": r, "from": s} for s, r, o in FACTS],
    ],
)
def test_json_lines(lines: list[object]) -> None:
    text = "".join(f"{json.dumps(line)}\r\n\n" for line in lines)
    for name in ("f.jsonl", "f.ndjson"):
        facts = read_facts(b"\xef\xbb\xbf" + text.encode(), name=name)
        assert list(facts) == FACTS
        assert facts.lines == [2 * len(lines) - 3, 2 * len(lines) - 1]


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ('{"subject": "a"', "not valid JSON"),
        ("[" * 100_000, "not valid JSON: nested too deeply"),
        ('"a"', "must be a JSON object or an array"),
        ('["a", "r", "b"]', "objects and arrays are mixed"),
        ('{"subject": "a", "relation": "r"}', "the object is not a text but nothing"),
        ('{"subject": "a", "relation": "r", "object": 5}', "the object is not a text but 5"),
        ('{"subject": "a", "relation": "r", "object": "\\ud800"}', "not valid Unicode"),
        ('{"subject": "a", "relation": "r", "object": " "}', "object has an empty name"),
    ],
)
def test_errors_of_json_lines_name_the_line(last: str, message: str) -> None:
    first = '{"subject": "a", "relation": "r", "object": "b"}'
    with pytest.raises(DataError, match=message) as caught:
        read_facts(f"{first}\n{last}\n".encode(), name="f.jsonl")
    assert caught.value.line == 2


def test_json_lines_with_unclear_names() -> None:
    data = b'{"source": "a", "target": "b", "type": "r"}\n'
    with pytest.raises(DataError, match="--columns subject=source,relation=type,object=target"):
        read_facts(data, name="f.jsonl")
    columns = "subject=source,relation=type,object=target"
    assert list(read_facts(data, name="f.jsonl", columns=columns)) == [("a", "r", "b")]
