"""What a preview says: what is new, and which names are doubtful; and that it changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import lkge
from lkge.data.names import NameTable
from lkge.errors import DataError
from lkge.store import preview as preview_module
from lkge.store.preview import Doubt

KNOWN = [("Ada", "knows", "Charles"), ("Charles", "builds", "Engine")]


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> lkge.LivingGraph:
    folder = tmp_path_factory.mktemp("preview") / "KG"
    kg = lkge.init(folder, facts=KNOWN, dim=2, max_epochs=1, backend="torch")
    kg.add([("Ada", "writes", "Notes")])
    kg.edit(rename=("Notes", "notes"))
    return kg


def state(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_new(kg: lkge.LivingGraph) -> None:
    before = state(kg.store.folder)
    facts = [*KNOWN, ("Ada", "knows", "Mary"), ("Mary", "teaches", "Ada"), ("Ada", "knows", "Mary")]
    found = kg.preview(facts)
    assert (found.facts, found.new_facts, found.new_entities, found.new_relations) == (4, 2, 1, 1)
    assert found.sample == tuple(facts[:4])
    assert (found.doubts, found.num_doubts) == ((), 0)
    assert kg.version == 3
    assert state(kg.store.folder) == before


def test_all_is_new_to_no_graph() -> None:
    found = lkge.preview([(f"e{n}", "r", "x") for n in range(30)])
    assert (found.facts, found.new_facts, found.new_entities, found.new_relations) == (
        30,
        30,
        31,
        1,
    )
    assert len(found.sample) == preview_module.SHOWN_FACTS


def test_without_known_facts_nobody_knows_which_are_new(tmp_path: Path) -> None:
    kg = lkge.init(tmp_path / "KG", facts=KNOWN, known=False, dim=2, max_epochs=1, backend="torch")
    found = kg.preview(KNOWN)
    assert (found.new_facts, found.new_entities) == (None, 0)


def test_doubtful_names(kg: lkge.LivingGraph) -> None:
    facts = [
        (" Eve", "KNOWS", "ADA"),
        ("M?ller", "knows", "M\ufffdller"),
        ("http://x/?a=1", "knows", "bell\x07"),
        ("eve\u200b", "knows", "Notes"),
        ("Bob", "knows", "BOB"),
        ("Ada", "knows", "notes"),
    ]
    found = kg.preview(facts)
    assert found.doubts == (
        Doubt("entity", " Eve", "blanks around it"),
        Doubt("entity", "ADA", "differs from 'Ada' in case only"),
        Doubt("entity", "M?ller", "has a `?`; was a letter lost?"),
        Doubt("entity", "M\ufffdller", "has a `?`; was a letter lost?"),
        Doubt("entity", "bell\x07", "has control characters"),
        Doubt("entity", "eve\u200b", "has control characters"),
        Doubt("entity", "Notes", "differs from 'notes' in case only"),
        Doubt("entity", "BOB", "differs from 'Bob' in case only"),
        Doubt("relation", "KNOWS", "differs from 'knows' in case only"),
    )


def test_many_doubts_are_counted() -> None:
    found = lkge.preview([(f"e{n} ", "r", "x") for n in range(50)])
    assert (len(found.doubts), found.num_doubts) == (preview_module.SHOWN_DOUBTS, 50)


def test_a_first_line_that_has_nothing_in_common_with_the_others(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    lines = [f"e{n},r{n % 2},e{n + 1}\n" for n in range(30)]
    path.write_text("package,kind,other\n" + "".join(lines), encoding="utf-8")
    doubt = Doubt("fact", "package kind other", "is the first line a header?")
    assert lkge.preview(path).doubts == (doubt,)
    columns = "subject=package,relation=kind,object=other"
    assert lkge.preview(path, columns=columns).doubts == ()
    for first in ("package,r1,other\n", "e7,kind,other\n", "package,kind,e7\n"):
        path.write_text(first + "".join(lines), encoding="utf-8")
        assert lkge.preview(path).doubts == ()
    path.write_text("package,kind,other\na,r,b\n", encoding="utf-8")
    assert lkge.preview(path).doubts == ()


def test_how_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"from;to;relation\nx;y;r\n")
    (tmp_path / "b.ttl").write_bytes(b'<x:a> <x:r> <x:b> ; <x:l> "text", 5 .')
    table, rdf = lkge.preview([tmp_path / "a.csv", tmp_path / "b.ttl"]).files
    assert (table.facts, table.header) == (1, ("from", "to", "relation"))
    assert table.columns == {"subject": "from", "relation": "relation", "object": "to"}
    assert (rdf.header, rdf.columns) == ((), None)
    assert rdf.warnings == (f"{tmp_path / 'b.ttl'}: left out 2 facts: 2 with literals",)


def test_what_add_would_refuse_is_refused(kg: lkge.LivingGraph) -> None:
    with pytest.raises(DataError, match="marks inverse relations"):
        kg.preview([("a", "r⁻¹", "b")])
    with pytest.raises(DataError, match="not a fact"):
        kg.preview([("a", "b")])


def test_a_table_of_names_is_read_once(
    kg: lkge.LivingGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of looking for twins does not depend on the number of new names."""
    calls = []
    monkeypatch.setattr(NameTable, "starting_with", lambda *_: calls.append(1))
    assert kg.preview([(f"n{n}", "knows", "ada") for n in range(100)]).num_doubts == 1
    assert calls == []
