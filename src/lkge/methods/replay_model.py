"""The generator of replayed facts: parameters trained to reproduce the old facts.

A model that generalises was stopped early and has not fitted every fact: up to a fifth of what it
would replay is wrong. So a copy of its parameters is trained on when a snapshot is learned, until
each query (h, r, ?) ranks its facts above all other entities A(r) that ever answered r:

    L = Σ over (h, r, t) of  -log softmax over e ∈ A(r) of f(h, r, e), at t.

A(r) is small beside all entities, and so is the time this takes. The score need not be the model's,
as long as it is a matrix product; separate parameters begin at random then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from lkge.backends import Backend
from lkge.backends.torch_softmax import blocks_of
from lkge.data.known_facts import pack
from lkge.data.snapshots import Facts, among, with_inverses
from lkge.methods.replay import Entities, answers_by_relation, generate
from lkge.methods.replay_model_settings import ReplayModelConfig
from lkge.methods.replay_queries import QueryCounts
from lkge.models.parameters import Parameters, index, placed
from lkge.models.predictor import TablePredictor
from lkge.models.scores import Bilinear


@dataclass(frozen=True)
class ReplayModel:
    """Parameters that reproduce the facts of query counts. `separate`: the score is not the
    model's."""

    score: Bilinear
    tables: Parameters
    config: ReplayModelConfig
    backend: Backend
    separate: bool = False

    def predictor(self) -> TablePredictor:
        """The generator of facts."""
        return TablePredictor.of(self.tables, self.score, self.backend)

    def generate(self, queries: QueryCounts, places: Entities) -> Facts:
        """The facts (k, 3) of the queries at these places, as far as they are fitted."""
        candidates = answers_by_relation(queries, len(self.tables.relation))
        return generate(self.predictor(), queries, places, candidates)

    def with_facts(
        self, facts: Facts, tables: Parameters, queries: QueryCounts, generator: np.random.Generator
    ) -> ReplayModel:
        """The replay model of these facts too. Its new rows begin as those of `tables`, the
        model's, or at random. Some old queries, which are in `queries`, are trained again, so that
        they stay fitted."""
        new, known = with_inverses(facts), len(queries.counts)
        again = min(known, round(self.config.replay_model_old_per_new * len(new)))
        places = generator.choice(known, again, replace=False)
        all_facts = np.concatenate([self.generate(queries, np.sort(places)), new])
        begun = self.tables.grown_to(self._random(tables, generator) if self.separate else tables)
        return self._fit(all_facts, begun, queries.with_facts(facts), generator)

    def without(
        self, facts: Facts, queries: QueryCounts, generator: np.random.Generator
    ) -> ReplayModel:
        """The replay model that no longer generates these facts: their queries are trained again
        with the answers that are left."""
        gone = with_inverses(facts)
        known, changed = (pack(each[:, 0], each[:, 1]) for each in (queries.queries, gone))
        left = self.generate(queries, np.flatnonzero(np.isin(known, changed)))
        return self._fit(left[~among(left, gone)], self.tables, queries, generator)

    def _fit(
        self, facts: Facts, tables: Parameters, queries: QueryCounts, generator: np.random.Generator
    ) -> ReplayModel:
        """A copy of `tables` trained on facts (k, 3), inverses among them, each contrasted with the
        entities that ever answered its relation in `queries`. A block whose queries are all fitted
        is left out of the next pass."""
        fitted, sums, config = tables.clone(), tables.map(torch.zeros_like), self.config
        candidates = answers_by_relation(queries, len(tables.relation))
        blocks = query_blocks(facts, candidates, tables.device)
        passes = (
            config.replay_model_separate_passes if self.separate else config.replay_model_passes
        )
        done: set[int] = set()
        for _ in range(max(passes, math.ceil(config.replay_model_min_steps / max(1, len(blocks))))):
            due = [place for place in generator.permutation(len(blocks)) if place not in done]
            done = {place for place in due if not self._step(fitted, sums, blocks[place])}
        return replace(self, tables=fitted)

    def _step(self, tables: Parameters, sums: Parameters, block: QueryBlock) -> bool:
        """One step of Adagrad on the queries that are not fitted yet; whether there are any.

        With c(h, r) facts each, ∂L/∂f(h, r, e) = c(h, r)·p(e | h, r) - [e is an answer].
        """
        score, heads = self.score, block.heads
        relation = heads.new_full((1,), block.relation)
        head, between = tables.entity.index_select(0, heads), tables.relation[relation]
        rows = tables.entity.index_select(0, block.candidates)
        queries = score.compose(head, between)
        slopes = score.candidates(queries, rows).softmax(dim=1).mul_(block.counts)
        slopes[block.rows, block.columns] -= 1
        lowest, highest = slopes.aminmax(dim=1)
        off = torch.maximum(highest, -lowest).gt(self.config.replay_model_tolerance)
        off = off.nonzero().squeeze(1)
        if not len(off):
            return False
        slopes, head, queries = (each.index_select(0, off) for each in (slopes, head, queries))
        flow = slopes @ rows
        on_relation = score.towards(head, flow).sum(dim=0, keepdim=True)
        self._adagrad(tables.entity, sums.entity, block.candidates, slopes.T @ queries)
        self._adagrad(tables.entity, sums.entity, heads[off], score.towards(between, flow))
        self._adagrad(tables.relation, sums.relation, relation, on_relation)
        return True

    def _adagrad(self, table: Tensor, sums: Tensor, rows: Tensor, gradient: Tensor) -> None:
        """θ -= η·g / √(Σg² + ε) on the rows."""
        rate, damping = self.config.replay_model_learning_rate, self.config.replay_model_damping
        self.backend.adagrad_rows(table, gradient, sums, rows, rate, damping)

    def _random(self, like: Parameters, generator: np.random.Generator) -> Parameters:
        """As many random rows, as wide as these parameters."""
        width = self.tables.entity.shape[1]

        def draw(table: Tensor) -> Tensor:
            rows = generator.standard_normal((len(table), width), dtype=np.float32)
            return torch.from_numpy(self.config.replay_model_init_std * rows).to(table.device)

        return like.map(draw)


@dataclass(frozen=True)
class QueryBlock:
    """Queries of one relation: heads (q,), candidates (a,), the places of the facts in that matrix,
    rows (k,) and columns (k,), and how many are in each row, (q, 1)."""

    relation: int
    heads: Tensor
    candidates: Tensor
    rows: Tensor
    columns: Tensor
    counts: Tensor


def query_blocks(
    facts: Facts, candidates: Sequence[Entities], device: torch.device | str = "cpu"
) -> list[QueryBlock]:
    """The queries that facts answer, by relation, in blocks; a repeated fact counts once."""
    ordered = np.unique(facts[:, (1, 0, 2)], axis=0)
    relations, firsts = np.unique(ordered[:, 0], return_index=True)
    blocks = []
    for relation, part in zip(relations.tolist(), np.split(ordered, firsts)[1:], strict=True):
        answers, answers_placed = candidates[relation], placed(candidates[relation], device)
        heads, rows = np.unique(part[:, 1], return_inverse=True)
        columns = np.searchsorted(answers, part[:, 2])
        for block in blocks_of(len(heads), len(answers)):
            first, last = np.searchsorted(rows, (block.start, block.stop))
            numbers = placed(rows[first:last] - block.start, device)
            blocks.append(
                QueryBlock(
                    relation,
                    index(heads[block], device),
                    answers_placed,
                    numbers,
                    placed(columns[first:last], device),
                    torch.bincount(numbers)[:, None].float(),
                )
            )
    return blocks
