"""Answers from arrays, without torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lkge.data.array_types import Doubles, Floats
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts
from lkge.models.array_scores import ArrayScore
from lkge.models.predictor import Predictor, TablePredictor, View


@dataclass(frozen=True)
class ArrayPredictor(Predictor):
    """The twin of `TablePredictor`: prepared rows of entities (n, d) and of relations, and a
    score."""

    entity: Floats
    relation: Floats
    score: ArrayScore

    @property
    def is_product(self) -> bool:
        return self.score.is_bilinear

    def tables(self) -> tuple[Floats, Floats]:
        return self.entity, self.relation

    def ranks(self, facts: Facts, views: Sequence[View], answers: KnownFacts) -> Doubles:
        return self._in_torch.ranks(facts, views, answers)

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
