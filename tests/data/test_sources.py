"""Facts of files, folders and streams, and of objects of other libraries."""

from __future__ import annotations

import gzip
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lkge
from lkge.data.snapshots import GrowingGraph
from lkge.data.sources import joined, read_source
from lkge.errors import DataError, DataWarning, SettingsError

FACTS = [("a", "r", "b"), ("b", "r", "c")]
CHOSEN = "subject=source,relation=type,object=target"


class Frame:
    """As much of a data frame as is used."""

    def __init__(self, columns: dict[Any, list[Any]]) -> None:
        self.content = columns
        self.columns = list(columns)
        self.shape = (0, len(columns))

    def __getitem__(self, name: Any) -> list[Any]:
        return self.content[name]


class TestFiles:
    def test_several_files_and_folders(self, tmp_path: Path) -> None:
        (tmp_path / "in" / "deep").mkdir(parents=True)
        (tmp_path / "in" / ".hidden").mkdir()
        (tmp_path / "in" / ".hidden" / "x.tsv").write_bytes(b"x\tx\tx\n")
        (tmp_path / "in" / "README.md").write_bytes(b"Read me.")
        (tmp_path / "in" / "b.csv").write_bytes(b"b,r,c\n")
        (tmp_path / "in" / "deep" / "c.nt.gz").write_bytes(gzip.compress(b"<x:a> <x:r> <x:b> ."))
        (tmp_path / "a.tsv").write_bytes(b"a\tr\tb\n")
        parts = read_source([tmp_path / "a.tsv", str(tmp_path / "in")])
        assert [list(part) for part in parts] == [
            FACTS[:1],
            FACTS[1:],
            [("x:a", "x:r", "x:b")],
        ]
        note = f"{tmp_path / 'in'}: left out 1 other files, such as {tmp_path}/in/README.md"
        assert [part.warnings for part in parts] == [(), (note,), ()]

    def test_a_folder_without_facts(self, tmp_path: Path) -> None:
        (tmp_path / "notes.md").touch()
        with pytest.raises(DataError, match="holds no file of facts"):
            read_source(tmp_path)

    def test_a_pipe_in_a_folder_is_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "f.tsv")
        with pytest.raises(DataError, match="not a regular file"):
            read_source(tmp_path)

    def test_a_format_for_files_without_a_suffix(self, tmp_path: Path) -> None:
        (tmp_path / "facts").write_bytes(b"a,r,b\n")
        assert list(read_source(tmp_path / "facts", format="csv")[0]) == FACTS[:1]
        with pytest.raises(DataError, match=r"unknown suffix ''.*or say --format"):
            read_source(tmp_path / "facts")
        with pytest.raises(DataError, match="unknown format 'doc'"):
            read_source(tmp_path / "facts", format="doc")

    def test_streams_and_bytes_need_a_format(self) -> None:
        packed = gzip.compress(b"a\tr\tb\n")
        for source in (io.BytesIO(packed), packed):
            assert list(read_source(source, format=".tsv.gz")[0]) == FACTS[:1]
        with pytest.raises(DataError, match="standard input: say in which format"):
            read_source(io.BytesIO(packed))


class TestFrames:
    @pytest.mark.parametrize(
        "frame",
        [
            Frame({"subject": ["a", "b"], "relation": ["r", "r"], "object": ["b", "c"]}),
            Frame({"w": [1, 2], "to": ["b", "c"], "from": ["a", "b"], "predicate": ["r"] * 2}),
        ],
    )
    def test_columns_by_name(self, frame: Frame) -> None:
        assert list(joined(frame)) == FACTS

    def test_given_columns(self) -> None:
        frame = Frame({"source": ["a", "b"], "target": ["b", "c"], "type": ["r", "r"]})
        assert list(joined(frame, CHOSEN)) == FACTS
        with pytest.raises(DataError, match=f"Frame: it is not clear .*--columns {CHOSEN}"):
            joined(frame)
        numbered = Frame({0: ["a", "b"], 1: ["r", "r"], 2: ["b", "c"]})
        assert list(joined(numbered, "subject=0,relation=1,object=2")) == FACTS

    def test_whole_numbers_are_names_and_nothing_else_is(self) -> None:
        subjects: list[Any] = [np.int64(5), np.str_("b")]
        frame = Frame({"s": subjects, "p": ["r", "r"], "o": ["b", 7]})
        assert list(joined(frame)) == [("5", "r", "b"), ("b", "r", "7")]
        for odd in (None, float("nan"), True, ["x"], "\ud800", " "):
            frame = Frame({"s": ["a", odd], "p": ["r", "r"], "o": ["b", "c"]})
            with pytest.raises(DataError, match=r"Frame:2: the subject (is|has)"):
                joined(frame)

    def test_repeats_are_counted(self) -> None:
        frame = Frame({"s": ["a", "a"], "p": ["r", "r"], "o": ["b", "b"]})
        with pytest.warns(DataWarning, match="Frame:2: a fact stands here for the second time"):
            assert list(joined(frame)) == FACTS[:1]

    def test_a_table_of_pyarrow(self) -> None:
        table = pa.table(
            {"object": ["b", "c"], "relation": ["r", "r"], "n": [1, 2], "s": ["a", "b"]}
        )
        assert list(joined(table)) == FACTS

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_frames_of_libraries(self, library: str) -> None:
        frames = pytest.importorskip(library)
        frame = frames.DataFrame({"object": ["b", "c"], "relation": ["r"] * 2, "subject": [*"ab"]})
        assert list(joined(frame)) == FACTS


class TestNetworkx:
    networkx = pytest.importorskip("networkx")

    def test_a_directed_graph_with_an_attribute(self) -> None:
        graph = self.networkx.DiGraph()
        for subject, relation, object_ in FACTS:
            graph.add_edge(subject, object_, relation=relation, weight=2)
        assert list(joined(graph)) == FACTS

    def test_a_multigraph_with_relations_as_keys(self) -> None:
        graph = self.networkx.MultiDiGraph()
        graph.add_edge(1, 2, key="r")
        graph.add_edge(1, 2, key="q", weight=1)
        assert list(joined(graph)) == [("1", "r", "2"), ("1", "q", "2")]

    def test_an_attribute_that_is_given(self) -> None:
        graph = self.networkx.MultiDiGraph()
        graph.add_edge("a", "b", kind="r")
        with pytest.raises(DataError, match=r"MultiDiGraph: it is not clear .*subject, object"):
            joined(graph)
        assert list(joined(graph, "subject=subject,relation=kind,object=object")) == FACTS[:1]
        graph.add_edge("b", "c")
        with pytest.raises(DataError, match="MultiDiGraph:2: the relation is no text but None"):
            joined(graph, "subject=subject,relation=kind,object=object")

    def test_edges_need_a_direction(self) -> None:
        with pytest.raises(DataError, match="give a DiGraph"):
            joined(self.networkx.Graph([("a", "b")]))

    def test_an_empty_graph_has_no_facts(self) -> None:
        assert len(joined(self.networkx.DiGraph())) == 0


class URIRef(str):
    pass


class Literal(str):
    pass


class BNode(str):
    pass


class Graph:
    """As much of a graph of rdflib as is used."""

    statements = (
        (URIRef("x:a"), URIRef("x:r"), URIRef("x:b")),
        (URIRef("x:a"), URIRef("x:l"), Literal("text")),
        (BNode("n1"), URIRef("x:r"), URIRef("x:b")),
    )

    def triples(self, pattern: tuple[None, None, None]) -> Iterator[tuple[str, ...]]:
        assert pattern == (None, None, None)
        return iter(self.statements)


class Dataset(Graph):
    def quads(self, pattern: tuple[None, None, None, None]) -> Iterator[tuple[Any, ...]]:
        assert pattern == (None, None, None, None)
        return ((*statement, None) for statement in self.statements)


class TestRdflib:
    @pytest.mark.parametrize("kind", [Graph, Dataset])
    def test_facts_between_iris(self, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kind, "__module__", "rdflib.graph")
        note = f"{kind.__name__}: left out 2 facts: 1 with blank nodes, 1 with literals"
        with pytest.warns(DataWarning, match=note):
            assert list(joined(kind())) == [("x:a", "x:r", "x:b")]
        with pytest.raises(DataError, match="RDF has no columns"):
            joined(kind(), CHOSEN)
        monkeypatch.setattr(URIRef, "__module__", "rdflib.term")
        with pytest.warns(DataWarning, match="facts: left out 2 facts"):
            assert list(joined(kind().triples((None,) * 3))) == [("x:a", "x:r", "x:b")]

    def test_a_graph_of_the_library(self) -> None:
        rdflib: ModuleType = pytest.importorskip("rdflib")
        for kind in (rdflib.Graph, rdflib.Dataset):
            graph = kind()
            graph.parse(data='<x:a> <x:r> <x:b> ; <x:l> "text" .', format="turtle")
            with pytest.warns(DataWarning, match="1 with literals"):
                assert list(joined(graph)) == [("x:a", "x:r", "x:b")]


def test_no_library_is_imported() -> None:
    joined(FACTS)
    assert not {"pandas", "rdflib", "polars"} & set(sys.modules)


class TestGraphs:
    def test_a_file_is_a_graph_of_one_snapshot(self, tmp_path: Path) -> None:
        path = tmp_path / "facts.csv"
        path.write_bytes(b"source,target,type\na,b,r\nb,c,r\n")
        with pytest.raises(DataError, match="--columns"):
            lkge.load(path)
        graph = lkge.load(str(path), columns=CHOSEN)
        assert (graph.name, len(graph), graph.snapshots[0].num_facts) == ("facts.csv", 1, 2)

    def test_literals_are_counted(self, tmp_path: Path) -> None:
        (tmp_path / "f.ttl").write_bytes(b"<x:a> <x:r> <x:b> ; <x:l> 5 .")
        assert "1 with literals" in lkge.load(tmp_path / "f.ttl").warnings[0]

    def test_facts_of_any_kind(self) -> None:
        frame = Frame({"s": ["a", "b"], "p": ["r", "r"], "o": ["b", "c"]})
        for source in (FACTS, iter(FACTS), frame):
            assert lkge.load(source).vocabulary.entities == ["a", "b", "c"]

    def test_snapshots_that_grow(self) -> None:
        facts = [(f"e{n}", "r", f"e{n * n % 17}") for n in range(60)]
        graph = GrowingGraph.from_facts(facts, growth="entity", snapshots=3, seed=1, name="mine")
        assert (graph.name, len(graph)) == ("mine", 3)
        assert sum(snapshot.num_facts for snapshot in graph.snapshots) == 60
        again = GrowingGraph.from_facts(facts, growth="entity", snapshots=3, seed=1, name="mine")
        assert again.digest() == graph.digest()

    def test_a_dataset_has_no_columns(self) -> None:
        with pytest.raises(DataError, match="brick: has no columns"):
            lkge.load("brick", columns=CHOSEN)


class TestLivingGraphs:
    def test_begin_and_add(self, tmp_path: Path) -> None:
        frame = Frame({"source": ["a", "b"], "target": ["b", "c"], "type": ["r", "r"]})
        settings: dict[str, Any] = {"dim": 2, "max_epochs": 1, "backend": "torch"}
        kg = lkge.init(tmp_path / "KG", facts=frame, columns=CHOSEN, **settings)
        assert (kg.version, kg.reader.num_facts) == (1, 2)
        (tmp_path / "f.dat").write_bytes(b'<x:a> <x:r> <x:b> ; <x:l> "text" .')
        with pytest.warns(DataWarning, match="1 with literals"):
            record = kg.add(tmp_path / "f.dat", format="ttl")
        assert (record.facts, kg.reader.num_facts) == (1, 3)

    def test_no_fact_is_an_error_before_the_folder_is_made(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="no fact to begin with"):
            lkge.init(tmp_path / "KG", facts=[])
        with pytest.raises(SettingsError, match="name all three"):
            lkge.init(tmp_path / "KG", facts=Frame({"s": []}), columns="s")
        assert not (tmp_path / "KG").exists()
