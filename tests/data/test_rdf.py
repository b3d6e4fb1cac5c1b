"""RDF in all its forms: the facts between IRIs, and how many others were left out."""

from __future__ import annotations

import time

import pytest

from lkge.data.facts import read_facts
from lkge.errors import DataError

FACT = ("x:a", "x:r", "x:b")
XML = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="x:">
{}
</rdf:RDF>
"""
RDF_XML = XML.format(
    '<rdf:Description rdf:about="x:a"><x:r rdf:resource="x:b"/><x:l>text</x:l><x:n>5</x:n>'
    '<x:q><rdf:Description><x:r rdf:resource="x:b"/></rdf:Description></x:q></rdf:Description>'
)
JSON_LD = """{"@context": {"r": {"@id": "x:r", "@type": "@id"}},
"@id": "x:a", "r": "x:b", "x:l": ["text", 5], "x:q": {"r": "x:b"}}"""
TURTLE = '<x:a> <x:r> <x:b> ; <x:l> "text", 5 ; <x:q> [ <x:r> <x:b> ] .'
N_QUADS = """# note
<x:a> <x:r> <x:b> <x:graph> .
<x:a> <x:l> "text" <x:graph> .
<x:a> <x:l> "5" .

<x:a> <x:q> _:b .
_:b <x:r> <x:b> .
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f.ttl", TURTLE),
        ("f.trig", f"<x:graph> {{ {TURTLE} }}"),
        ("f.nq", N_QUADS),
        ("f.rdf", RDF_XML),
        ("f.owl", RDF_XML),
        ("f.jsonld", JSON_LD),
    ],
)
def test_facts_between_iris_are_read_and_others_counted(name: str, text: str) -> None:
    facts = read_facts(text.encode(), name=name)
    assert list(facts) == [FACT]
    note = f"{name}: left out 4 facts: 2 with blank nodes, 2 with literals"
    assert facts.warnings == (note,)
    assert facts.lines == ([2] if name == "f.nq" else None)


@pytest.mark.parametrize("name", ["f.ttl", "f.trig", "f.nq", "f.rdf"])
def test_an_empty_file_has_no_facts(name: str) -> None:
    assert len(read_facts(b"", name=name)) == 0


def test_a_fact_in_two_graphs_is_one() -> None:
    facts = read_facts(b"<x:a> <x:r> <x:b> <x:g> .\n<x:a> <x:r> <x:b> <x:h> .\n", name="f.nq")
    assert list(facts) == [FACT]
    assert "second time" in facts.warnings[0]


def test_quoted_facts_are_left_out() -> None:
    facts = read_facts(b"<x:a> <x:r> <<( <x:b> <x:c> <x:d> )>> .", name="f.ttl")
    assert facts.warnings == ("f.ttl: left out 1 facts: 1 with quoted facts",)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.jsonld", '{"@context": "http://x/y", "@id": "x:a"}', "put the @context into the file"),
        ("f.rdf", RDF_XML.replace('"x:a"', '"#a"'), "give the file a base IRI"),
        ("f.rdf", RDF_XML[:200], r"f.rdf:\d+: not valid XML"),
        ("f.rdf", RDF_XML.replace("</rdf:RDF>", ""), "not valid XML: no element found"),
        ("f.jsonld", JSON_LD[:50], r"f.jsonld:\d: .*mend it"),
        ("f.trig", "<x:g> { <x:a> <x:r> }", "f.trig:1: .*mend it"),
        ("f.nq", "<x:a> <x:r> <x:b> <x:g> <x:h> .", "f.nq:1: .*mend it"),
    ],
)
def test_errors_have_a_remedy(name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_facts(text.encode(), name=name)


def with_entities(*values: str) -> bytes:
    """RDF/XML whose last entity is used."""
    declared = "".join(f'<!ENTITY e{n} "{value}">' for n, value in enumerate(values))
    body = f'<rdf:Description rdf:about="x:a"><x:l>&e{len(values) - 1};</x:l></rdf:Description>'
    return XML.format(body).replace("<rdf:RDF", f"<!DOCTYPE rdf:RDF [{declared}]><rdf:RDF").encode()


def test_plain_entities_are_read() -> None:
    data = with_entities("x:").replace(b'about="x:a"', b'about="&e0;a"')
    data = data.replace(b"<x:l>&e0;</x:l>", b'<x:r rdf:resource="&e0;b"/>')
    assert list(read_facts(data, name="f.owl")) == [FACT]


@pytest.mark.parametrize(
    "data",
    [
        with_entities("y" * 10, *(f"&#38;e{n};" * 10 for n in range(12))),
        with_entities("y" * 10, *(f"&e{n};" * 10 for n in range(12)), "unused"),
        with_entities("y").replace(b'"y"', b'SYSTEM "file:///etc/hostname"'),
        with_entities("y").replace(b"ENTITY e0", b"ENTITY % e0"),
    ],
    ids=["nested", "nested and unused", "of a file", "of the declaration"],
)
def test_entities_that_refer_to_others_are_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="refers to a file or another entity"):
        read_facts(data, name="f.rdf")


def test_an_entity_that_is_used_often_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LKGE_MAX_MEMORY", "10MB")
    data = with_entities("y" * 10_000).replace(b"&e0;", b"&e0;" * 500)
    with pytest.raises(DataError, match="LKGE_MAX_MEMORY"):
        read_facts(data, name="f.rdf")
    monkeypatch.setenv("LKGE_MAX_MEMORY", "1GB")
    data = with_entities("y" * 100_000).replace(b"&e0;", b"&e0;" * 2_000)
    with pytest.raises(DataError, match="write the entities out"):
        read_facts(data, name="f.rdf")


def test_deep_xml_is_refused_at_once() -> None:
    started = time.process_time()
    with pytest.raises(DataError, match="nested deeper than 256"):
        read_facts(XML.format("<x:A><x:r>" * 100_000).encode(), name="f.rdf")
    assert time.process_time() - started < 1


def test_what_a_parser_holds_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LKGE_MAX_MEMORY", "50MB")
    terms = ",".join(f'"t{number}":"x:y"' for number in range(200_000))
    with pytest.raises(DataError, match="LKGE_MAX_MEMORY"):
        read_facts(f'{{"@context":{{{terms}}}}}'.encode(), name="f.jsonld")
    for name in ("f.ttl", "f.trig"):
        with pytest.raises(DataError, match="LKGE_MAX_MEMORY"):
            read_facts(b"<x:a> <x:r> " + b"(" * 200_000, name=name)
