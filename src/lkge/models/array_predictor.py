"""Answers from arrays, without torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lkge.data.array_types import Doubles, Flags, Floats
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts
from lkge.models.array_scores import ArrayScore, exact_cosines, exact_products
from lkge.models.best import Best, best_of
from lkge.models.predictor import Predictor, TablePredictor, View


@dataclass(frozen=True)
class ArrayPredictor(Predictor):
    """The twin of `TablePredictor`: prepared rows of entities (n, d) and of relations, and a
    score."""

    entity: Floats
    relation: Floats
    score: ArrayScore

    def tables(self) -> tuple[Floats, Floats]:
        return self.entity, self.relation

    def ranks(self, facts: Facts, views: Sequence[View], answers: KnownFacts) -> Doubles:
        return self._in_torch.ranks(facts, views, answers)

    def best(self, subject: int, relation: int, k: int, left: Flags) -> Best:
        query = self._composed(np.array([[subject, relation, 0]], dtype=np.int32))
        if not self.score.is_bilinear:
            return best_of(self.score.candidates(query, self.entity)[0], k, left)
        return best_of(exact_products(query[0], self.entity), k, left)

    def nearest(self, entity: int, k: int, left: Flags) -> Best:
        return best_of(exact_cosines(self.entity[entity], self.entity), k, left)

    def candidate_scores(self, subject: int, relation: int) -> Floats:
        scores: Floats = self.query_scores(np.array([[subject, relation]], dtype=np.int32))[0]
        return scores

    def query_scores(self, queries: Facts) -> Floats:
        return self.score.candidates(self._composed(queries), self.entity)

    def fact_scores(self, facts: Facts) -> Floats:
        return self.score.pairs(self._composed(facts), self.entity[facts[:, 2]])

    @cached_property
    def _in_torch(self) -> TablePredictor:
        """The same tables, which rank; torch is imported."""
        from lkge.backends import backend_for
        from lkge.models.parameters import placed
        from lkge.models.scores import score_named

        tables = placed(self.entity, "cpu"), placed(self.relation, "cpu")
        return TablePredictor(*tables, score_named(self.score.name), backend_for("auto", "cpu"))

    def _composed(self, queries: Facts) -> Floats:
        return self.score.compose(self.entity[queries[:, 0]], self.relation[queries[:, 1]])
