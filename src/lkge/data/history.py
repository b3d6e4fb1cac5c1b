"""History: the facts of earlier snapshots, read-only, to sample from.

A sample takes time and memory in proportion to its size, not to the number of known facts: the
arrays of `KnownFacts` may be mapped from a file, and only the pages of the sample are read.
"""

from functools import cached_property

import numpy as np
import numpy.typing as npt

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, among, no_facts

BYTES_PER_FACT = 12
"""A fact as three 32-bit ids."""

_LAST_RELATION = (1 << 32) - 1


class History:
    """Known facts to sample from, all but `excluded` (k, 3), such as facts held out for evaluation.

    Samples are facts (n, 3) without inverse facts: relation ids are even. `known` may itself be a
    sample, of `total` facts.
    """

    def __init__(
        self, known: KnownFacts, excluded: Facts | None = None, total: int | None = None
    ) -> None:
        self._known = known
        self._excluded = no_facts() if excluded is None else excluded
        self._total = known.num_facts if total is None else total

    def __len__(self) -> int:
        """The number of facts, the excluded ones among them."""
        return self._total

    @property
    def nbytes(self) -> int:
        """The size of all facts as ids."""
        return BYTES_PER_FACT * len(self)

    def sample(self, size: int, generator: np.random.Generator) -> Facts:
        """Facts drawn uniformly, with replacement, then each once; at most `size`."""
        edges = self._known.num_answers
        if not edges:
            return no_facts()
        return self._facts(np.unique(generator.integers(0, edges, size)))

    def all(self) -> Facts:
        """Every fact, at the cost of a pass over all."""
        return self._facts(np.arange(self._known.num_answers))

    def of_entities(
        self, entities: npt.NDArray[np.integer], most: int, generator: np.random.Generator
    ) -> Facts:
        """Facts of each of the given entities, at most `most` for one: all, or drawn uniformly."""
        ids = np.unique(entities).astype(np.int64)
        starts, stops = self._known.spans_of(ids)
        return self._facts(_places(starts, stops, most, generator))

    def of_relations(
        self, relations: npt.NDArray[np.integer], most: int, generator: np.random.Generator
    ) -> Facts:
        """Facts of each of the given relations, at most `most` for one. The first call sorts the
        queries of all facts by relation."""
        order, sorted_relations = self._by_relation
        ids = np.unique(relations)
        first = np.searchsorted(sorted_relations, ids)
        behind = np.searchsorted(sorted_relations, ids, side="right")
        queries = order[_places(first, behind, most, generator)]
        starts, stops = self._known.offsets[queries], self._known.offsets[queries + 1]
        return self._facts(_places(starts, stops, 1, generator))

    @cached_property
    def _by_relation(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The places of the queries by relation, and their relations."""
        relations = self._known.keys & _LAST_RELATION
        order = np.argsort(relations, kind="stable")
        return order, relations[order]

    def _facts(self, places: npt.NDArray[np.int64]) -> Facts:
        """The facts at places of `answers`, each once, without excluded ones."""
        keys, objects, _ = self._known.entries(places)
        subjects, relations = keys >> 32, keys & _LAST_RELATION
        is_inverse = relations % 2 == 1
        columns = [
            np.where(is_inverse, objects, subjects),
            relations - is_inverse,
            np.where(is_inverse, subjects, objects),
        ]
        distinct = np.unique(np.column_stack(columns).astype(np.int32), axis=0)
        return distinct[~among(distinct, self._excluded)]


NO_HISTORY = History(KnownFacts.build([]))
"""Before the first snapshot, and for methods that keep no facts."""


def _places(
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    most: int,
    generator: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """The numbers from each start to its stop; of a longer range `most` of them, drawn uniformly
    with replacement and then each once."""
    sizes = np.minimum(stops - starts, most)
    offsets = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    lengths = np.repeat(stops - starts, sizes)
    drawn = generator.integers(0, np.maximum(lengths, 1))
    places = np.repeat(starts, sizes) + np.where(lengths > most, drawn, offsets)
    return np.unique(places)
