"""The trainer of a model whose entity rows are in shards.

An epoch goes through all pairs of shards, in rounds (`lkge.distributed.partition`). A pair is
trained as one table, with candidates from its two shards; relations begin in each pair with the
values that they had at the start of the round. At the end of a round the changes of all its pairs
are combined in the order of the pairs, by all workers alike. So the bytes depend on the seed and on
the number of shards, and not on the number of workers.
"""

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.snapshots import Facts, Snapshot
from lkge.distributed.checkpoint import ShardedCheckpoints
from lkge.distributed.partition import Pair
from lkge.distributed.ranking import ShardedPredictor
from lkge.distributed.shards import MEAN, SUMS, TABLE, Rows, Shards
from lkge.errors import LearningFailed
from lkge.methods.base import State
from lkge.models.model import TRAIN, Model, stream
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import TablePredictor
from lkge.training import interrupt
from lkge.training.optimizers import AVERAGED_STEPS, RowAdagrad
from lkge.training.trainer import Trainer

TINY = 1e-30
"""Below every sum of squares that is not zero."""


class ShardedModel(Model):
    """A model without entity rows: these are in `shards`, and `tables` has the relations."""

    def __init__(self, config: RunConfig, shards: Shards) -> None:
        super().__init__(config)
        self.shards = shards

    def drawn(self, snapshot: Snapshot) -> Parameters:
        """Random relations."""
        none = Snapshot(snapshot.index, *snapshot.parts, 0, snapshot.num_relations)
        return super().drawn(none)

    def grow(self, snapshot: Snapshot) -> None:
        super().grow(snapshot)
        self.shards.grow(snapshot)

    def restart(self, snapshot: Snapshot) -> None:
        super().restart(snapshot)
        self.shards.grow(snapshot, anew=True)

    def predictor(self, relation: Tensor | None = None) -> ShardedPredictor:
        """What ranks with the rows that would be used for inference now."""
        return ShardedPredictor(
            shards=self.shards,
            name=self.shards.inference,
            relation=self.tables.relation if relation is None else relation,
            score=self.score,
            backend=self.backend,
        )


class PartitionedTrainer(Trainer):
    """`Trainer`, a pair of shards at a time. What it has itself is of relations."""

    model: ShardedModel
    _optimizer: RowAdagrad

    def __init__(self, *parts: Any, checkpoints: ShardedCheckpoints, **more: Any) -> None:
        super().__init__(*parts, **more)
        self._checkpoints, self._shards = checkpoints, checkpoints.shards
        self._workers = checkpoints.workers

    def load_state(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Each worker reads the shards whose home it is."""
        self._checkpoints.load_shards("epoch", self.snapshot.num_entities)
        super().load_state(tensors, progress)

    def _begin_optimizer(self) -> None:
        super()._begin_optimizer()
        averages = self._average is not None
        self._shards.begin(carries_sums=self._carries_optimizer, averages=averages)

    def _restore_best(self) -> None:
        super()._restore_best()
        self._shards.end()

    def _copies(self) -> State:
        self._shards.keep_best(with_sums=self._carries_optimizer)
        return super()._copies()

    def _require_rows(self, facts: Facts) -> None:
        if len(facts):
            entities, relations = facts[:, (0, 2)].max(), facts[:, 1].max()
            known = entities < self.snapshot.num_entities
            if not (known and relations < len(self.model.tables.relation) and facts.min() >= 0):
                raise IndexError("a fact has an id without a row")

    def _train_epoch(self) -> float:
        """All rounds; the mean loss of a fact."""
        edges, shards, total = self._epoch_edges(), self._shards, 0.0
        self._num_edges = len(edges)
        shards.deal(self.snapshot.index, self.progress.epochs)
        parts = shards.partition.by_pair(edges, self.progress.epochs)
        for turn, facts in enumerate(parts):
            relation, own = self.model.tables.relation, shards.pairs_of_worker
            changes = relation.new_zeros(own, 2, *relation.shape)
            losses = torch.zeros(own, dtype=torch.float64)
            for place, (number, pair) in enumerate(shards.pairs(turn)):
                losses[place] = self._train_pair(pair, facts[number], changes[place])
            self._combine(torch.cat(self._workers.gather(changes)))
            total += sum(torch.cat(self._workers.gather(losses)).tolist())
            self.progress.steps += 1
            shards.move((turn + 1) % len(shards.partition.rounds))
        return total / max(1, self._num_edges)

    def _train_pair(self, pair: Pair, edges: Facts, changes: Tensor) -> float:
        """The sum of the losses of the facts of a pair; `changes` (2, m, d) become those of
        relations and of their sums."""
        epoch, seed = self.progress.epochs, self._config.training.seed
        generator = stream(seed, TRAIN, self.snapshot.index, epoch, *pair)
        hand = self._shards.hand(pair)
        before = self.model.tables.relation, self._optimizer.sums.relation
        tables, sums = (
            Parameters(hand[name], rows.clone())
            for name, rows in zip((TABLE, SUMS), before, strict=True)
        )
        optimizer, gradient = copy.copy(self._optimizer), Gradient.like(tables)
        optimizer.sums = sums
        total, done, averaged = 0.0, 0, 0.0
        facts = self._shards.local(pair, edges)
        for batch in self._fact_batches(facts, len(tables.entity), generator):
            loss = self._loss.add_gradient(tables, batch, gradient)
            optimizer.apply(tables, gradient)
            self.model.backend.clear(gradient)
            if not math.isfinite(loss):
                raise LearningFailed("the loss is no longer finite; lower training.learning_rate")
            total, done = total + loss * len(batch), done + len(batch)
            averaged = self._average_rows(hand, averaged, done / len(edges))
            interrupt.check()
        self._average_rows(hand, averaged, 1.0)
        self._shards.put_back(pair, hand)
        for change, now, old in zip(changes, (tables, sums), before, strict=True):
            torch.sub(now.relation, old, out=change)
        return total

    def _average_rows(self, hand: Rows, since: float, share: float) -> float:
        """Take the rows into their mean, if a further part of this round is done since they were
        last taken; up to where they are now."""
        parts = -(-AVERAGED_STEPS // len(self._shards.partition.rounds))
        share = int(share * parts) / parts
        if MEAN in hand and share > since:
            hand[MEAN].lerp_(hand[TABLE], self._weight(since, share))
        return share

    def _weight(self, since: float, until: float) -> float:
        """The weight of the rows of the time from `since` to `until`, parts of this round, in a
        mean in which time t counts as t^η."""
        rounds, decay = self.progress.steps, self._config.training.averaging_decay
        return float(1 - ((rounds + since) / (rounds + until)) ** (1 + decay))

    def _combine(self, changes: Tensor) -> None:
        """Add the changes (pairs, 2, m, d) of relations and of their sums of squares. Each pair
        took its steps as if there were no other; they become as small as with the sums of all:

            r += Σ_p Δr_p · √((s + Δs_p) / (s + Σ_q Δs_q)).
        """
        relation, before = self.model.tables.relation, self._optimizer.sums.relation
        after = before.clone()
        for _, squares in changes:
            after += squares
        for change, squares in changes:
            shares = ((before + squares) / after.clamp(min=TINY)).sqrt_()
            relation += change * shares
        self._optimizer.sums.relation = after
        if self._average is not None:
            self._average.tables.relation.lerp_(relation, self._weight(0.0, 1.0))

    def _validate(self) -> float:
        """The first worker's value, so that all stop at the same epoch."""
        model, relation, sample = self.model, self._inference_tables.relation, self._sample
        if sample is None:
            predictor = model.predictor(relation)
            mrr = self._validator.mrr(predictor, self._valid, self.snapshot)
        else:
            rows = self._shards.rows_of(sample.entities, self._shards.inference)
            tables = Parameters(rows, relation)
            mrr = sample.mrr(TablePredictor.of(tables, model.score, model.backend))
        return self._workers.agree(mrr)
