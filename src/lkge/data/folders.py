"""A growing graph to and from a folder `0/train.txt, 0/valid.txt, 0/test.txt, 1/train.txt, …`.

Ids follow the order of first appearance: snapshot by snapshot, train, valid, test, and in each fact
subject before object. So the ids below `Snapshot.num_entities` are those known by then.
"""

from __future__ import annotations

from itertools import chain, compress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lkge.data.facts import NamedFacts, read_facts, write_facts
from lkge.data.files import as_data_error, unfinished
from lkge.data.formats import Triple
from lkge.data.layouts import SPLITS, Layout, Source, opened
from lkge.data.snapshots import Facts, GrowingGraph, Snapshot, no_facts
from lkge.data.vocabulary import Vocabulary
from lkge.errors import DataError


def dataset_names(path: Path | str) -> list[str]:
    """The datasets that a folder or archive holds."""
    with opened(path) as source:
        return sorted(source.layouts())


def read_growing_graph(path: Path | str, name: str | None = None) -> GrowingGraph:
    """The dataset `name` of a folder or zip archive; no name is needed where there is only one.

    A fact that stood before, in an earlier snapshot or split, is left out with a warning.
    """
    with opened(path) as source:
        return _Reading(source, source.layout(name)).graph()


def write_growing_graph(graph: GrowingGraph, folder: Path | str) -> None:
    """Write the folder that `read_growing_graph` reads; it must be new or empty."""
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise DataError("exists and is not an empty folder; choose another", file=folder)
    with as_data_error(folder), unfinished(folder) as temporary:
        for snapshot in graph.snapshots:
            place = temporary / str(snapshot.index)
            place.mkdir(parents=True)
            for split in SPLITS:
                names = _names(graph.vocabulary, getattr(snapshot, split))
                write_facts(place / f"{split}.txt", names)


class _Reading:
    """What is known so far while snapshots are read one after the other."""

    def __init__(self, source: Source, layout: Layout) -> None:
        self.source = source
        self.layout = layout
        self.vocabulary = Vocabulary()
        self.warnings: list[str] = []
        self.first_places: dict[tuple[int, int, int], str] = {}
        self.trained_entities = np.empty(0, dtype=np.int32)
        self.trained_relations = np.empty(0, dtype=np.int32)

    def graph(self) -> GrowingGraph:
        """All snapshots."""
        snapshots = tuple(self._snapshot(index) for index in range(len(self.layout.snapshots)))
        return GrowingGraph(self.layout.name, self.vocabulary, snapshots, tuple(self.warnings))

    def _snapshot(self, index: int) -> Snapshot:
        train = self._split(index, "train")
        if not len(train):
            raise DataError(
                f"snapshot {index} has no training facts; give it a train file with new facts",
                file=self.layout.folder_of(index),
            )
        self.trained_entities = np.union1d(self.trained_entities, train[:, [0, 2]])
        self.trained_relations = np.union1d(self.trained_relations, train[:, 1])
        valid, test = self._split(index, "valid"), self._split(index, "test")
        known = self.vocabulary
        return Snapshot(index, train, valid, test, known.num_entities, known.num_relations)

    def _split(self, index: int, split: str) -> Facts:
        path = self.layout.snapshots[index].get(split)
        if path is None:
            return no_facts()
        named = read_facts(self.source.read(path), name=self.layout.place(path))
        self.warnings.extend(named.warnings)
        facts = self._numbered(named)
        kept = self._new(facts, named)
        if split != "train":
            self._warn_of_untrained(facts, kept, named)
        return facts[kept]

    def _numbered(self, named: NamedFacts) -> Facts:
        """Names to ids, new names appended; shape (n, 3)."""
        pairs = zip(named.subjects, named.objects, strict=True)
        try:
            self.vocabulary.add_entities(chain.from_iterable(pairs))
            self.vocabulary.add_relations(named.relations)
        except DataError as error:
            raise DataError(str(error), file=named.source) from error
        columns = (
            self.vocabulary.entity_ids(named.subjects),
            self.vocabulary.relation_ids(named.relations),
            self.vocabulary.entity_ids(named.objects),
        )
        return np.array(columns, dtype=np.int32).T.copy()

    def _new(self, facts: Facts, named: NamedFacts) -> npt.NDArray[np.bool_]:
        """Which facts have not stood in any file so far, shape (n,); from now on they have."""
        triples = list(zip(*facts.T.tolist(), strict=True))
        new = [triple not in self.first_places for triple in triples]
        if not all(new):
            first = new.index(False)
            earlier = self.first_places[triples[first]]
            self.warnings.append(
                f"{named.place_of(first)}: this fact already stood in {earlier}; "
                f"such facts here, left out: {new.count(False)}"
            )
        self.first_places.update(dict.fromkeys(compress(triples, new), named.source))
        return np.array(new, dtype=np.bool_)

    def _warn_of_untrained(
        self, facts: Facts, kept: npt.NDArray[np.bool_], named: NamedFacts
    ) -> None:
        known_entities = np.isin(facts[:, [0, 2]], self.trained_entities).all(axis=1)
        known_relation = np.isin(facts[:, 1], self.trained_relations)
        untrained = np.flatnonzero(kept & ~(known_entities & known_relation))
        if len(untrained):
            self.warnings.append(
                f"{named.place_of(int(untrained[0]))}: this fact names an entity or relation that "
                f"no training fact has shown by then; such facts here: {len(untrained)}"
            )


def _names(vocabulary: Vocabulary, facts: Facts) -> list[Triple]:
    entities, relations = vocabulary.entities, vocabulary.relations
    return [
        (entities[subject], relations[relation // 2], entities[obj])
        for subject, relation, obj in facts.tolist()
    ]
