"""A growing knowledge graph: one vocabulary and a sequence of snapshots with new facts."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lkge.data.columns import GivenColumns
from lkge.data.fact_list import FactList
from lkge.data.rows import html_table
from lkge.data.vocabulary import Vocabulary

Facts = npt.NDArray[np.int32]
"""Facts as ids, shape (n, 3): subject, relation, object. Relation ids of stored facts are even."""


def inverse_of(relation: int) -> int:
    """The id of r⁻¹; a relation and its inverse have the ids 2k and 2k + 1."""
    return relation ^ 1


def with_inverses(facts: Facts) -> Facts:
    """The n facts (s, r, o), then their inverses (o, r⁻¹, s) in the same order; shape (2n, 3)."""
    inverses = facts[:, ::-1].copy()
    inverses[:, 1] ^= 1
    return np.concatenate([facts, inverses])


def among(facts: Facts, others: Facts) -> npt.NDArray[np.bool_]:
    """For each of `facts` (n, 3) whether it is one of `others`; shape (n,)."""
    row = np.dtype([("subject", np.int32), ("relation", np.int32), ("object", np.int32)])
    mine, theirs = (np.ascontiguousarray(each).view(row)[:, 0] for each in (facts, others))
    return np.isin(mine, theirs)


def numbered(vocabulary: Vocabulary, named: Iterable[tuple[str, str, str]]) -> Facts:
    """Facts by name as ids, shape (n, 3); new names are added to the vocabulary."""
    facts = FactList.of(named)
    relations = [vocabulary.add_relation(name) for name in facts.relations]
    entities = [vocabulary.add_entity(name) for name in facts.entities]
    return facts.numbered(entities, relations)


def no_facts() -> Facts:
    """An empty fact array, shape (0, 3)."""
    return np.empty((0, 3), dtype=np.int32)


@dataclass(frozen=True)
class Snapshot:
    """The new facts of one snapshot, and how many entities and relations exist by then: all ids
    below `num_entities`, and below 2 · `num_relations`."""

    index: int
    train: Facts
    valid: Facts
    test: Facts
    num_entities: int
    num_relations: int

    @property
    def parts(self) -> tuple[Facts, Facts, Facts]:
        """The facts to train on, to validate and to test with."""
        return self.train, self.valid, self.test

    @property
    def num_facts(self) -> int:
        """The number of new facts in all three splits."""
        return sum(map(len, self.parts))


@dataclass(frozen=True, repr=False)
class GrowingGraph:
    """Snapshots with a common vocabulary, and the warnings of the reader."""

    name: str
    vocabulary: Vocabulary
    snapshots: tuple[Snapshot, ...]
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_facts(
        cls,
        facts: Any,
        *,
        growth: Literal["entity", "relation", "fact", "hybrid"] = "fact",
        snapshots: int = 1,
        seed: int = 0,
        name: str = "facts",
        columns: GivenColumns = None,
        format: str | None = None,
    ) -> "GrowingGraph":
        """A graph from facts of any source (`lkge.data.sources`), cut into snapshots that grow
        evenly in `growth`; of each snapshot three fifths are for training."""
        from lkge.data.growth import build_growing_graph
        from lkge.data.sources import read_source

        parts = read_source(facts, columns, format)
        whole = FactList.joined(parts)
        graph = build_growing_graph(
            *whole.columns, growth=growth, snapshots=snapshots, seed=seed, name=name
        )
        warnings = tuple(text for part in parts for text in part.warnings)
        return replace(graph, warnings=(*warnings, *graph.warnings))

    def __len__(self) -> int:
        return len(self.snapshots)

    def __repr__(self) -> str:
        return f"<GrowingGraph {self.name}: {self._sizes()}>"

    def _sizes(self) -> str:
        facts, last = sum(each.num_facts for each in self.snapshots), self.snapshots[-1:]
        entities, relations = (last[0].num_entities, last[0].num_relations) if last else (0, 0)
        return (
            f"{len(self.snapshots):,} snapshots, {entities:,} entities, {relations:,} relations, "
            f"{facts:,} facts"
        )

    def _repr_html_(self) -> str:
        columns = ("snapshot", "entities", "relations", "train", "valid", "test")
        rows = [
            (each.index + 1, each.num_entities, each.num_relations, *map(len, each.parts))
            for each in self.snapshots
        ]
        return html_table(f"{self.name}: {self._sizes()}", columns, rows)

    def digest(self) -> str:
        """SHA-256 of all names and all facts, in their order."""
        digest = hashlib.sha256()
        for names in self.vocabulary.to_json().values():
            digest.update("\n".join(names).encode())
        for snapshot in self.snapshots:
            for facts in (snapshot.train, snapshot.valid, snapshot.test):
                digest.update(len(facts).to_bytes(8, "little"))
                digest.update(facts.tobytes())
        return digest.hexdigest()
