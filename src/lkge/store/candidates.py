"""Which entities may answer a query: limits that leave scores and plausibilities as they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lkge.data.names import MappedNames
from lkge.data.snapshots import inverse_of
from lkge.errors import DataError
from lkge.store.judging import Judge

Mask = NDArray[np.bool_]
Query = tuple[int, int]
"""An entity and a relation, or the inverse of one."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an answer must be.

    new_only   not a known answer
    in_range   an entity that a known fact of the relation has in the same place
    unlinked   in no known fact with the entity of the query, whatever the relation
    among      one of these entities; None: any
    where      of each (relation, object) here the subject of that known fact
    """

    new_only: bool = False
    in_range: bool = False
    unlinked: bool = False
    among: Sequence[str] | None = None
    where: Sequence[Sequence[str]] = ()

    def __post_init__(self) -> None:
        if isinstance(self.among, str):
            raise DataError(f"among = {self.among!r} must be a list of names")
        for pair in self.where:
            if isinstance(pair, str) or len(pair) != 2:
                raise DataError(f"where has {pair!r}; give pairs of a relation and an object")


@dataclass(frozen=True)
class CandidateFilter:
    """The names and known facts of a version, by which candidates are chosen."""

    names: MappedNames
    judge: Judge
    version: int

    def __call__(self, query: Query, limits: Limits) -> Mask:
        """For each entity whether it may be an answer, (n,). A removed entity is none, and the
        entity of the query only if that is known."""
        answers = self.judge.answers
        known = answers.of(*query, self.version)
        left = self._named(limits)
        if not np.isin(query[0], known):
            left[query[0]] = False
        if limits.in_range:
            left &= self._only(self.judge.range_of(query[1]))
        for relation, object_ in limits.where:
            left &= self._only(self._subjects(relation, object_))
        if limits.new_only:
            left[known] = False
        if limits.unlinked:
            self._require_known("an unlinked answer")
            left[answers.around(query[0])[0][:, 2]] = False
        left[self.names.removed] = False
        return left

    def _named(self, limits: Limits) -> Mask:
        if limits.among is None:
            return np.ones(self.names.num_entities, np.bool_)
        ids = [self.names.entity_id(name) for name in limits.among]
        return self._only(np.array(ids, dtype=np.int64))

    def _subjects(self, relation: str, object_: str) -> NDArray[np.int32]:
        """The entities that have a given fact."""
        self._require_known("a condition on facts")
        inverse = inverse_of(self.names.relation_id(relation))
        return self.judge.answers.of(self.names.entity_id(object_), inverse, self.version)

    def _only(self, ids: NDArray[np.integer]) -> Mask:
        mask = np.zeros(self.names.num_entities, np.bool_)
        mask[ids] = True
        return mask

    def _require_known(self, what: str) -> None:
        if not self.judge.keeps_known:
            raise DataError(f"{what} needs the known facts, which this graph does not keep")
