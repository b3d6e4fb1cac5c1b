from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lkge.data.facts import is_fact_file, read_facts, write_facts
from lkge.errors import DataError

FACTS = [("a", "r", "b"), ("b", "r", "c"), ("ä b", "q", "c")]
TSV = "".join("\t".join(fact) + "\n" for fact in FACTS).encode()
N_TRIPLES = b"""# a comment
<x:a> <x:r> <x:b> .

<x:a> <x:r> "text" .
_:blank <x:r> <x:b> .
<x:b> <x:r> <x:c> . # the end
"""


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


def parquet(columns: dict[str, list[object]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


@pytest.mark.parametrize("name", ["facts.txt", "facts.tsv", "FACTS.TSV"])
def test_tab_separated_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(TSV)
    facts = read_facts(tmp_path / name)
    assert list(facts) == FACTS
    assert facts.lines == [1, 2, 3]
    assert facts.warnings == ()
    assert facts.source == str(tmp_path / name)


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_files(suffix: str) -> None:
    assert list(read_facts(PACKERS[suffix](TSV), name=f"facts.tsv{suffix}")) == FACTS


def test_streams_are_read_like_files() -> None:
    assert list(read_facts(io.BytesIO(TSV), name="x/train.txt")) == FACTS
    with pytest.raises(ValueError, match="need a name"):
        read_facts(TSV)


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + TSV,
        TSV.replace(b"\n", b"\r\n"),
        TSV.removesuffix(b"\n"),
        TSV.replace(b"\n", b"\r\n").removesuffix(b"\n"),
    ],
    ids=["byte order mark", "CRLF", "no last newline", "lone CR at the end"],
)
def test_harmless_variations(data: bytes) -> None:
    assert list(read_facts(data, name="facts.tsv")) == FACTS


def test_blank_lines_are_ignored_but_counted() -> None:
    facts = read_facts(b"\n\na\tr\tb\n  \n\nb\tr\tc\n\n", name="facts.txt")
    assert list(facts) == FACTS[:2]
    assert facts.lines == [3, 6]


def test_an_empty_file_has_no_facts() -> None:
    for name in ("f.txt", "f.csv", "f.nt", "f.ttl"):
        assert len(read_facts(b"", name=name)) == 0


def test_only_newlines_end_a_line() -> None:
    odd = ("a\u2028b", "r\x0b", "c\x85d")
    assert list(read_facts("\t".join(odd).encode(), name="f.tsv")) == [odd]


@pytest.mark.parametrize(
    ("name", "data", "line", "message"),
    [
        ("f.txt", b"a\tr\tb\n\na\tr\n", 3, "found 2 fields"),
        ("f.txt", b"a r b\n", 1, "found 1 field;"),
        ("f.txt", b"a\tr\tb\tc\n", 1, "found 4 fields"),
        ("f.csv", b"a,r,b\nc,r\n", 2, "found 2 fields"),
        ("f.csv", b'a,r,b\n"c,r,d\n', 2, "not valid CSV"),
        ("f.txt", b"a\tr\tb\n\xff\tr\tc\n", 2, "UTF-8"),
        ("f.csv", b"a,r,\xffb\n", 1, "UTF-8"),
        ("f.txt", b"a\tr\tb\na\t\tb\n", 2, "relation has an empty name"),
        ("f.txt", b"\t\t\n", 1, "subject has an empty name"),
        ("f.csv", b"a,r,b\na,r, \n", 2, "object has an empty name"),
        ("f.nt", b"<x:a> <x:r> <x:b> .\n<x:a> <x:r> .\n", 2, "object"),
        ("f.nt", b'<x:a> <x:r> "\xff" .\n', 1, "UTF-8"),
        ("f.ttl", b"@prefix x: <x:> .\nx:a x:r y:b .\n", 2, "mend"),
    ],
)
def test_errors_name_file_and_line(name: str, data: bytes, line: int, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_facts(data, name=name)
    assert (caught.value.file, caught.value.line) == (name, line)
    assert str(caught.value).startswith(f"{name}:{line}: ")


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize(
    "damage",
    [lambda data: data[: len(data) // 2], lambda data: b"not compressed", lambda data: data[:-1]],
    ids=["half", "plain", "last byte missing"],
)
def test_damaged_compression(suffix: str, damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DataError, match="damaged"):
        read_facts(damage(PACKERS[suffix](TSV * 50)), name=f"facts.tsv{suffix}")


@pytest.mark.parametrize("name", ["facts", "facts.doc", "facts.gz", "facts.tsv.rar", ".txt"])
def test_unknown_suffixes(name: str) -> None:
    assert not is_fact_file(name)
    with pytest.raises(DataError, match=r"known are \.txt"):
        read_facts(b"", name=name)


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_facts(tmp_path / "none.txt")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        read_facts(tmp_path / "folder.txt")


@pytest.mark.parametrize(
    "header", ["", "subject,relation,object\n", "Head, Relation, Tail\r\n", "s,p,o\n"]
)
def test_csv_with_and_without_header(header: str) -> None:
    data = f'{header}a,r,"b, ""c"""\n\n"two\nlines",r,b\nlast,r,b\n'
    facts = read_facts(data.encode(), name="facts.csv")
    assert list(facts) == [("a", "r", 'b, "c"'), ("two\nlines", "r", "b"), ("last", "r", "b")]
    first = 2 if header else 1
    assert facts.lines == [first, first + 2, first + 4]


def test_n_triples_keep_facts_between_iris() -> None:
    facts = read_facts(N_TRIPLES, name="facts.nt")
    assert list(facts) == [("x:a", "x:r", "x:b"), ("x:b", "x:r", "x:c")]
    assert facts.lines == [2, 6]
    assert facts.warnings == ("facts.nt: left out 2 facts: 1 with blank nodes, 1 with literals",)


def test_turtle_has_no_lines() -> None:
    facts = read_facts(b"@prefix x: <x:> .\nx:a x:r x:b , x:c ; a 5 .\n", name="facts.ttl")
    assert list(facts) == [("x:a", "x:r", "x:b"), ("x:a", "x:r", "x:c")]
    assert facts.lines is None
    assert facts.place_of(0) == "facts.ttl"
    assert len(facts.warnings) == 1


@pytest.mark.parametrize("names", [("subject", "relation", "object"), ("Head", "predicate", "o")])
def test_parquet_columns_by_name(names: tuple[str, str, str]) -> None:
    subjects, relations, objects = map(list, zip(*FACTS, strict=True))
    columns = {names[2]: objects, "weight": ["?"] * 3, names[1]: relations, names[0]: subjects}
    facts = read_facts(parquet(columns), name="facts.parquet")
    assert list(facts) == FACTS
    assert list(facts.lines or ()) == [1, 2, 3]


def test_parquet_columns_that_are_given() -> None:
    dictionary = pa.array(["r", "r"]).dictionary_encode()
    columns = {"year": [1, 2], "x": ["a", "b"], "y": dictionary, "z": ["b", "c"], "w": ["", ""]}
    facts = read_facts(parquet(columns), "facts.parquet", columns="subject=x,relation=y,object=z")
    assert list(facts) == FACTS[:2]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PAR1 but no", "Parquet"),
        (parquet({"x": ["a"], "y": [1], "z": ["b"]}), "not clear which column"),
        (parquet({"subject": ["a", None], "relation": ["r", "r"], "object": ["b", "c"]}), "empty"),
    ],
    ids=["damaged", "too few columns", "null"],
)
def test_parquet_errors(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_facts(data, name="facts.parquet")


def test_repeats_are_reported_and_kept_once() -> None:
    facts = read_facts(b"a\tr\tb\nb\tr\tc\na\tr\tb\nb\tr\tc\na\tr\tb\n", name="facts.txt")
    assert list(facts) == FACTS[:2]
    assert facts.lines == [1, 2]
    assert len(facts.warnings) == 1
    assert facts.warnings[0].startswith("facts.txt:3: ")
    assert facts.warnings[0].endswith(": 3")


@pytest.mark.parametrize(
    "name",
    ["f.txt", "f.tsv", "f.csv", "f.parquet", "f.tsv.gz", "f.tsv.xz", "f.csv.bz2"],
)
def test_written_facts_are_read_back(tmp_path: Path, name: str) -> None:
    write_facts(tmp_path / name, FACTS)
    assert list(read_facts(tmp_path / name)) == FACTS
    write_facts(tmp_path / name, [])
    assert list(read_facts(tmp_path / name)) == []
    assert [path.name for path in tmp_path.iterdir()] == [name]


texts = st.text(min_size=1).filter(str.strip)
plain_texts = texts.filter(lambda text: not set(text) & set("\t\r\n"))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(plain_texts, plain_texts, plain_texts), unique=True))
def test_any_names_survive_tsv(
    tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[str, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("facts") / "facts.tsv"
    write_facts(path, facts)
    assert list(read_facts(path)) == facts


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(texts, texts, texts), unique=True))
def test_any_names_survive_csv_and_parquet(
    tmp_path_factory: pytest.TempPathFactory, facts: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("facts")
    for name in ("facts.csv", "facts.parquet"):
        write_facts(folder / name, facts)
        assert list(read_facts(folder / name)) == facts


@pytest.mark.parametrize(
    ("name", "fact", "message"),
    [
        ("f.tsv", ("a\tb", "r", "c"), "tab"),
        ("f.tsv", ("a", "r", "c\r"), "line break"),
        ("f.csv", ("a", " ", "c"), "empty"),
        ("f.csv", ("a", "r", "\ud800"), "Unicode"),
        ("f.parquet", ("a", "r", "\ud800"), "Unicode"),
        ("f.nt", ("a", "r", "c"), "format"),
        ("f.tsv.zst", ("a", "r", "c"), "format"),
        ("none/f.tsv", ("a", "r", "c"), "cannot be written"),
    ],
)
def test_what_cannot_be_written_leaves_the_old_file(
    tmp_path: Path, name: str, fact: tuple[str, str, str], message: str
) -> None:
    path = tmp_path / name
    if path.parent.exists():
        path.write_bytes(b"old")
    with pytest.raises(DataError, match=message):
        write_facts(path, [*FACTS, fact])
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] in ([], [(name, b"old")])
