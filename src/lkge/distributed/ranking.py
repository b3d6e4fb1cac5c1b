"""Exact ranks among entities in shards: each worker counts in its shards, and the counts are added.

The rows of queries and of targets go to all workers, as they are few.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lkge.backends import Backend
from lkge.data.array_types import Doubles, Floats, Places
from lkge.data.known_facts import KnownFacts, ranges
from lkge.data.snapshots import Facts
from lkge.distributed.shards import Shards
from lkge.models.parameters import index
from lkge.models.predictor import CHUNK, Predictor, View
from lkge.models.queries import Candidates, GroupedQueries
from lkge.models.scores import Score


@dataclass(frozen=True, kw_only=True)
class ShardedPredictor(Predictor):
    """Ranks as `TablePredictor` does; all workers call it with the same facts. `name` is that of
    the rows which answer."""

    shards: Shards
    name: str
    relation: Tensor
    score: Score
    backend: Backend

    def ranks(self, facts: Facts, views: Sequence[View], answers: KnownFacts) -> Doubles:
        ranks = np.empty((len(facts), len(views)), dtype=np.float64)
        for start in range(0, len(facts), CHUNK):
            part = slice(start, start + CHUNK)
            grouped = GroupedQueries.of(facts[part])
            counts = torch.zeros(2, len(grouped.facts), len(views), dtype=torch.int64)
            asked = grouped.distinct
            heads = self.score.prepare_entities(self.shards.rows_of(asked[:, 0], self.name))
            relation = self.score.prepare_relations(self.relation)
            queries = self.score.compose(heads, relation[index(asked[:, 1], heads.device)])
            objects, numbers = np.unique(grouped.targets, return_inverse=True)
            targets = self.score.prepare_entities(self.shards.rows_of(objects, self.name))
            known = Candidates.of(views, asked, answers)
            for shard in self.shards.here:
                counts += self._counts(shard, grouped, queries, targets, numbers, known)
            self.shards.workers.add_up(counts)
            above, equal = counts.numpy()
            ranks[part] = grouped.as_given(above + (equal + 1) / 2)
        return ranks

    def _counts(
        self, shard: int, grouped: GroupedQueries, queries: Tensor, targets: Tensor,
        numbers: Places, known: Candidates,
    ) -> Tensor:  # fmt: skip
        """How many entities of a shard are above each target, and how many beside it; (2, b, p). A
        target in the shard is one of its rows; others stand behind its rows and count for none."""
        partition, objects = self.shards.partition, grouped.targets
        rows = self.shards.here[shard][self.name].to(targets.device)
        rows = self.score.prepare_entities(rows)
        places = np.where(
            partition.shard(objects) == shard, partition.row(objects), len(rows) + numbers
        ).astype(np.int32)
        facts = grouped.facts.copy()
        facts[:, 2] = places
        above, equal = self.backend.rank_counts(
            self.score, torch.cat([rows, targets]), queries, grouped._replace(facts=facts),
            self._within(shard, known),
        )  # fmt: skip
        return torch.from_numpy(np.stack([above, equal]))

    def _within(self, shard: int, known: Candidates) -> Candidates:
        """The candidates that are in a shard, by their rows."""
        partition = self.shards.partition
        items, sizes = ranges(known.starts, known.stops), known.stops - known.starts
        query = np.repeat(np.arange(len(sizes)), sizes)
        objects, since = known.answers[items], known.since[items]
        inside = objects < self.shards.entities
        objects, since, query = objects[inside], since[inside], query[inside]
        mine = partition.shard(objects) == shard
        bounds = np.searchsorted(query[mine], np.arange(len(sizes) + 1))
        limits = [partition.rows(shard, int(limit)) for limit in known.limits]
        return Candidates(
            np.array(limits, dtype=np.int32), bounds[:-1], bounds[1:],
            partition.row(objects[mine]), since[mine], known.until,
        )  # fmt: skip

    def candidate_scores(self, subject: int, relation: int) -> Floats:
        raise NotImplementedError("shards rank; the finished run answers")

    def query_scores(self, queries: Facts) -> Floats:
        raise NotImplementedError("shards rank; the finished run answers")

    def fact_scores(self, facts: Facts) -> Floats:
        raise NotImplementedError("shards rank; the finished run answers")
