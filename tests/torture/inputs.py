"""Random documents of each format: most are valid, some are damaged in one or two places."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lkge.configure import PRESETS, configure
from lkge.data.checked_json import CHECKSUM, _digest
from lkge.store.records import FORMAT

Triple = tuple[str, str, str]
LETTERS = (
    *"abcxyz09 _-.:/#\"'\\<>{}[]()@^,;|?%&=~`$!*+",
    *"äßλ中\u0301\u200d\u202e\ufeff\x00\x1b\x85\u2028\xa0\U0001d518\U0010ffff",
)
SEPARATORS = [b"\t", b"\n", b"\r", b"\r\n", b",", b'"', b"\x00", b"\xff", b"\xef\xbb\xbf", b" ."]


class Source(random.Random):
    """Random parts of documents."""

    def word(self, letters: tuple[str, ...] = LETTERS, most: int = 6) -> str:
        return "".join(self.choices(letters, k=self.randint(1, most)))

    def name(self) -> str:
        """Something with a visible letter."""
        if self.random() < 0.6:
            return f"e{self.randrange(8)}"
        return self.word() + self.choice("abc")

    def facts(self) -> list[Triple]:
        return [(self.name(), self.name(), self.name()) for _ in range(self.randrange(6))]

    def damaged(self, data: bytes) -> bytes:
        """One change that a disk, an editor or an attacker makes."""
        at = self.randrange(len(data) + 1)
        upto = min(len(data), at + self.randrange(1, 12))
        match self.randrange(6):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + data[upto:]
            case 2:
                return data[:upto] + data[at:]
            case 3:
                return data[:at] + self.choice(SEPARATORS) + data[at:]
            case 4:
                return data[:at] + self.randbytes(self.randrange(1, 4)) + data[upto:]
            case _:
                flipped = bytearray(data)
                for _ in range(self.randrange(1, 3)):
                    if flipped:
                        flipped[self.randrange(len(flipped))] ^= 1 << self.randrange(8)
                return bytes(flipped)


def marked(source: Source, data: bytes) -> bytes:
    """Some files begin with a byte order mark; so must all that begin with that letter."""
    mark = "\ufeff".encode()
    return mark + data if data.startswith(mark) or source.random() < 0.2 else data


HEADERS = [("subject", "relation", "object"), ("s", "p", "o"), ("Source", "rel", "to")]


def columns(source: Source, facts: list[Triple]) -> list[tuple[str, ...]]:
    """The facts as rows; some have a header, another order and one more column."""
    rows: list[tuple[str, ...]] = list(facts)
    if source.random() < 0.4:
        rows = [source.choice(HEADERS), *rows]
        order = source.choice([(0, 1, 2), (0, 2, 1), (2, 1, 0)])
        rows = [tuple(row[place] for place in order) for row in rows]
        if source.random() < 0.3:
            rows = [(*row, f"x{number}") for number, row in enumerate(rows)]
    return rows


def tsv(source: Source) -> tuple[bytes, list[Triple]]:
    def field() -> str:
        return source.name().translate(str.maketrans("\t\n\r", "___"))

    facts = [(field(), field(), field()) for _ in range(source.randrange(6))]
    end = source.choice(["\n", "\n", "\r\n"])
    blanks = ["", "", "", end, f"  {end}"]
    rows = columns(source, facts)
    text = "".join(source.choice(blanks) + "\t".join(row) + end for row in rows)
    return marked(source, text.encode()), facts


def comma_separated(source: Source) -> tuple[bytes, list[Triple]]:
    facts, text = source.facts(), io.StringIO(newline="")
    quoting = source.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    ends = source.choice(["\n", "\r\n"])
    rows = columns(source, facts)
    csv.writer(text, quoting=quoting, lineterminator=ends).writerows(rows)
    data = text.getvalue().encode()
    return marked(source, data), facts


def iri(source: Source) -> str:
    return "x:" + source.word(tuple("abc09-_.~/äλ"), 5) + "a"


def n_triples(source: Source) -> tuple[bytes, list[Triple]]:
    facts = [(iri(source), iri(source), iri(source)) for _ in range(source.randrange(5))]
    lines = []
    for s, p, o in facts:
        other = f'<{s}> <{p}> "text"@en .', f"_:b <{p}> <{o}> ."
        lines += [source.choice(["", "# note", " ", *other])]
        lines += [f"{source.choice(['', ' '])}<{s}>{source.choice([' ', chr(9), ''])}<{p}> <{o}> ."]
    return "\n".join(lines).encode(), facts


def turtle(source: Source) -> tuple[bytes, list[Triple]]:
    facts, text = [], "@prefix p: <x:> .\n"
    for _ in range(source.randrange(4)):
        subject, relation = f"a{source.randrange(5)}", f"r{source.randrange(3)}"
        objects = [f"o{source.randrange(5)}" for _ in range(source.randrange(1, 4))]
        joined = source.choice([" , ", ",\n  "]).join(f"p:{each}" for each in objects)
        more = source.choice(["", " ; a 5", ' ; p:l "text"', " ; p:n [ p:x 1 ]", " ; p:c (1 2)"])
        text += f"p:{subject} p:{relation} {joined}{more} .\n"
        facts += [(f"x:{subject}", f"x:{relation}", f"x:{each}") for each in objects]
    return text.encode(), facts


def json_lines(source: Source) -> tuple[bytes, list[Triple]]:
    facts = source.facts()
    names = source.choice(HEADERS)
    plain, letters = source.random() < 0.5, source.random() < 0.5
    trees: list[Any] = list(facts)
    if not plain:
        trees = [
            {"x": source.choice(ODD_JSON), **dict(zip(names, fact, strict=True))} for fact in facts
        ]
    lines = [json.dumps(tree, ensure_ascii=letters) for tree in trees]
    return marked(source, "".join(f"{line}\n" for line in lines).encode()), facts


ODD_JSON: list[Any] = [None, 1, -1.5e300, True, "", "text", [], {}, {"a": [None]}]


def n_quads(source: Source) -> tuple[bytes, list[Triple]]:
    data, facts = n_triples(source)
    graph = source.choice([b"", b"<x:graph> ", b"_:g "])
    return b"\n".join(
        line[:-1] + graph + b"." if line.endswith(b" .") else line for line in data.split(b"\n")
    ), facts


def trig(source: Source) -> tuple[bytes, list[Triple]]:
    data, facts = turtle(source)
    prefix, _, body = data.partition(b"\n")
    return prefix + b"\n" + source.choice(
        [b"", b"<x:g> ", b"GRAPH _:g "]
    ) + b"{" + body + b"}", facts


def rdf_xml(source: Source) -> tuple[bytes, list[Triple]]:
    def word() -> str:
        return source.word(tuple("abc09_~/äλ"), 5) + "a"

    facts, text = [], ""
    for _ in range(source.randrange(4)):
        subject, relation, object_ = f"x:{word()}", f"r{source.randrange(3)}", f"x:{word()}"
        more = source.choice(["", "<x:l>text</x:l>", '<x:n rdf:parseType="Resource"/>'])
        text += f'<rdf:Description rdf:about="{subject}">{more}<x:{relation} rdf:resource="'
        text += source.choice([object_, object_.replace("x:", "&x;")]) + '"/></rdf:Description>\n'
        facts.append((subject, f"x:{relation}", object_))
    head = '<?xml version="1.0"?><!DOCTYPE rdf:RDF [<!ENTITY x "x:">]>\n<rdf:RDF xmlns:x="x:" '
    names = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    return f"{head}{names}{text}</rdf:RDF>".encode(), facts


def json_ld(source: Source) -> tuple[bytes, list[Triple]]:
    facts = [(iri(source), iri(source), iri(source)) for _ in range(source.randrange(4))]
    trees: list[Any] = [
        {"@id": s, p: [{"@id": o}, *source.choice([[], ["text"], [5], [{"@id": "_:b"}]])]}
        for s, p, o in facts
    ]
    return json.dumps(trees, ensure_ascii=source.random() < 0.5).encode(), facts


def parquet(source: Source) -> tuple[bytes, list[Triple]]:
    facts, sink = source.facts(), io.BytesIO()
    columns = [pa.array([fact[place] for fact in facts], pa.string()) for place in range(3)]
    if source.random() < 0.3:
        columns = [column.dictionary_encode() for column in columns]
    elif source.random() < 0.3:
        columns = [column.cast(pa.large_string()) for column in columns]
    names = source.choice(
        [["subject", "relation", "object"], ["h", "rel", "Target"], ["s", "p", "o"]]
    )
    packing = source.choice(["snappy", "gzip", "zstd", "none"])
    pq.write_table(
        pa.table(columns, names),
        sink,
        compression=packing,
        row_group_size=source.choice([1, 2, 100]),
        use_dictionary=source.random() < 0.5,
    )
    return sink.getvalue(), facts


FACT_FILES: dict[str, Callable[[Source], tuple[bytes, list[Triple]]]] = {
    ".tsv": tsv,
    ".csv": comma_separated,
    ".nt": n_triples,
    ".ttl": turtle,
    ".jsonl": json_lines,
    ".nq": n_quads,
    ".trig": trig,
    ".rdf": rdf_xml,
    ".jsonld": json_ld,
    ".parquet": parquet,
}
"""Suffix → (a valid document, its facts with repeats)."""

ODD: list[Any] = [
    *(None, True, 0, -1, 2**63, 10**30, 1.5, float("nan"), "", "a", "\ud800", "x" * 999),
    *([], {}, [[]], [None], {"a": {}}),
]


def changed_tree(source: Source, tree: Any) -> Any:
    """A JSON tree with one value replaced, removed, renamed or added, somewhere."""
    if isinstance(tree, dict) and tree and source.random() < 0.8:
        key = source.choice(list(tree))
        match source.randrange(8):
            case 0:
                return {name: value for name, value in tree.items() if name != key}
            case 1:
                return {**tree, source.word(): source.choice(ODD)}
            case _:
                return {**tree, key: changed_tree(source, tree[key])}
    if isinstance(tree, list) and tree and source.random() < 0.7:
        at = source.randrange(len(tree))
        return [*tree[:at], changed_tree(source, tree[at]), *tree[at + 1 :]]
    return source.choice(ODD)


def record(source: Source, trees: list[dict[str, Any]]) -> tuple[bytes, bool]:
    """A record of a store with the right checksum, and whether it is as it was written."""
    tree, whole = source.choice(trees), source.random() < 0.5
    if not whole:
        changed = changed_tree(source, tree)
        tree = changed if isinstance(changed, dict) else {"format": FORMAT, "a": changed}
    return json.dumps({**tree, CHECKSUM: _digest(tree)}).encode("utf-8", "surrogatepass"), whole


def settings(source: Source) -> bytes:
    """A file of settings; some values are of another kind."""
    name = source.choice(list(PRESETS))
    lines = configure({}, name).to_toml().splitlines()
    for _ in range(source.choice([0, 0, 0, 1, 2])):
        at = source.randrange(len(lines))
        key, equals, _ = lines[at].partition(" = ")
        odd = source.choice(
            ["1", "-1", "1e999", "nan", "true", '"x"', "[]", "{}", "1979-05-27", '""', "0x1F", "'"]
        )
        lines[at] = f"{key} = {odd}" if equals else source.choice(["[x]", "[model]", "[[method]]"])
    return "\n".join(lines).encode()
