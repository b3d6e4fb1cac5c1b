"""Evergreen: replay of old facts together with new ones.

    L = (1 - λ) · L_new + λ · (κ · L_replay + (1 - κ) · L_distill),
    λ = δ·|D_old| / (δ·|D_old| + |D_i|).

With memory = "facts" the known facts are replayed (`lkge.methods.fact_replay`), and L is the mean
loss of new and replayed facts.

Otherwise old facts are not kept. Query counts say how often each (h, r, ?) was answered, and a
replay model, trained to reproduce the facts, generates the answers again: L_replay is the loss of
these replayed facts. With a replay model nothing else is needed, κ = 1. With memory = "none",
pseudo-queries are drawn and nobody knows how many answers they had: L_distill is the cross-entropy
between the last model's softmax and the current one. Where the loss is not a softmax over all
entities by matrix products, the last model's best answer of each pseudo-query is replayed instead.
Adagrad's sums of squared gradients stay with the rows: rows with much evidence move little, new
rows move fast.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from lkge.backends import backend_for, implementation
from lkge.config import RunConfig
from lkge.data.history import History
from lkge.data.snapshots import Facts, Snapshot, no_facts, with_inverses
from lkge.methods.base import State, register
from lkge.methods.counts import CountingMethod, nothing_new, num_facts
from lkge.methods.evergreen_settings import EvergreenConfig
from lkge.methods.fact_replay import FactReplay
from lkge.methods.lkge import transfer
from lkge.methods.new_entities import NewEntityNegatives
from lkge.methods.replay import Replay, answers_by_relation
from lkge.methods.replay_model import ReplayModel
from lkge.methods.replay_queries import QueryCounts, pseudo_queries
from lkge.models import model as purposes
from lkge.models.losses import Distillation
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters, no_parameters
from lkge.models.predictor import TablePredictor
from lkge.models.scores import Bilinear, ComplEx, score_of

OPTIMIZER, REPLAY_STATE = "optimizer.", "replay_model"
NAMES_OF_0_1 = {
    "heart": REPLAY_STATE,
    "profile.questions": "query_counts.queries",
    "profile.counts": "query_counts.counts",
}
"""How the names of state tensors began in files of release 0.1, and how they begin now."""


@register
class Evergreen(CountingMethod):
    """Made for bilinear scores and the softmax, preset `evergreen`; it runs on any."""

    name = "evergreen"

    Config = EvergreenConfig
    config: EvergreenConfig

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self.supports_partial_updates = self.config.memory != "generative"
        self.uses_history = self.config.memory == "facts"
        self._fact_replay: FactReplay | None = None
        self.min_epochs = self.config.min_epochs
        self._counts = self._queries = QueryCounts()
        self._retracted = no_facts()
        self._optimizer: State = {}
        self._old = no_parameters(run.model.dim, self.device)
        self._replay_model = self._empty_replay_model()
        self._distillation: Distillation | None = None
        self._replay: Replay | None = None
        self._old_share = self._replay_share = 0.0
        self._batch_share = 1.0
        self._negatives: NewEntityNegatives | None = None
        self._num_old = self._snapshot = self._steps = 0

    def partition_obstacle(self, snapshots: int) -> str:
        """Only known facts can be replayed without whole tables."""
        if snapshots == 1 or (self.uses_history and not self.config.transfer):
            return ""
        return "evergreen needs method.memory = 'facts' and method.transfer = false for that"

    def retract(self, facts: Facts) -> None:
        """Remove the facts from the counts and from the replay model."""
        if self._replay_model is not None:
            generator = self.stream(purposes.REPLAY_MODEL, self._snapshot, len(facts))
            self._replay_model = self._replay_model.without(facts, self._counts, generator)
        self._counts = self._counts.without(facts)
        super().retract(facts)
        self._retracted = facts

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Keep the last parameters, where they are used, and add new rows."""
        self._num_old = len(model.tables.entity)
        if self.config.transfer or not self.uses_history:
            self._old = model.tables.clone()
        super().grow(model, snapshot)
        if self.config.transfer:
            model.tables = transfer(model.score, snapshot.train, model.tables, self._old)

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Choose the queries to replay or distil, and the share λ of old facts."""
        self._snapshot, self._steps = snapshot.index, 0
        if self.uses_history:
            parts = self.history, snapshot.train, self._retracted
            self._fact_replay = replay = FactReplay(self.config, *parts)
            epochs = self.max_epochs(snapshot) if replay.small else self.config.update_epochs
            size = self.batch_size(replay.num_edges)
            self.retraction_batch_size = replay.retraction_batch_size(size, epochs)
            self._negatives = self._of_new_entities(model, replay) if replay.small else None
            return
        old = self._weight(snapshot) * num_facts(self._past)
        new = len(snapshot.train) + self.config.retraction_weight * len(self._retracted)
        self._old_share = old / max(1, old + new)
        if self._old_share:
            self._queries = (
                self._counts if self._counts_queries else self._pseudo_queries(model, new)
            )
        if len(self._queries.counts) and self._old_share:
            self._prepare_replay(model, 2 * len(snapshot.train))

    def _prepare_replay(self, model: Model, edges: int) -> None:
        """L_replay and L_distill beside so many new facts an epoch, inverses among them. κ is 1
        where distillation is not possible, 0 for pseudo-queries, which have no counts."""
        config = self.config
        share = config.replay_share if self._counts_queries else 0.0
        if isinstance(model.score, Bilinear) and self.run.training.loss == "softmax":
            self._batch_share = (
                share * config.replay_batch_share + (1 - share) * config.distillation_batch_share
            )
        else:
            share = 1.0
        self._replay_share = share
        if share < 1:
            kind = implementation(model.backend, "distillation", model.score)
            self._distillation = kind(model.score, self._old)
        if share > 0:
            self._replay = self._make_replay(model, edges)

    def _of_new_entities(self, model: Model, replay: FactReplay) -> NewEntityNegatives | None:
        """Known facts as negatives of new entities, in a small update with a softmax."""
        config, size = self.config, self.batch_size(replay.num_edges)
        some = config.negative_queries and 0 < self._num_old < len(model.tables.entity)
        if not some or self.run.training.loss != "softmax":
            return None
        new = len(model.tables.entity) - self._num_old
        return NewEntityNegatives(
            model.score,
            self.history,
            first_new=self._num_old,
            num_old=self.num_entities - new,
            facts=config.negative_queries,
            candidates=config.negative_candidates,
            weight=replay.facts_of_a_step(size),
        )

    def _weight(self, snapshot: Snapshot) -> float:
        """δ. What exceeds 1 counts only for the share of new facts that name nothing new, as others
        are learned in rows of their own, and less in a dense graph, where queries have many
        answers."""
        given = self.config.replay_weight
        if given <= 1:
            return given
        degree = self.facts_per_entity(with_inverses(snapshot.train), snapshot)
        known = nothing_new(snapshot.train, self._past)
        return 1 + (given - 1) * known * min(1.0, self.config.dense_degree / max(1.0, degree))

    @property
    def _counts_queries(self) -> bool:
        return self.config.memory == "generative"

    @property
    def _is_small_update(self) -> bool:
        return self._fact_replay is not None and self._fact_replay.small

    def replayed_facts(self, snapshot: Snapshot, epoch: int) -> Facts:
        """A sample of the known facts; all of them in a large update."""
        if self._fact_replay is None:
            return no_facts()
        return self._fact_replay.facts(self.stream(purposes.HISTORY, snapshot.index, epoch))

    def replay_pool(
        self, history: History, new: Facts, retracted: Facts, generator: np.random.Generator
    ) -> Facts:
        """See `FactReplay.pool`."""
        self._fact_replay = FactReplay(self.config, history, new, retracted)
        return self._fact_replay.pool(self.batch_size(2 * len(new)), generator)

    def consolidation_epochs(self, new: int, known: int) -> int:
        """Due when the facts of small updates are more than a share of the known ones."""
        share = self.config.consolidate_after if self.uses_history else 0.0
        return self.config.consolidation_epochs if 0 < share * known <= new else 0

    def max_epochs(self, snapshot: Snapshot) -> int:
        """Few in a small update."""
        if self._fact_replay is None or not self._fact_replay.small:
            return super().max_epochs(snapshot)
        return self._fact_replay.epochs(self.batch_size(2 * len(snapshot.train)))

    def learning_rate(self, snapshot: Snapshot) -> float:
        """Smaller in a small update."""
        share = self.config.update_step_size if self._is_small_update else 1.0
        return share * super().learning_rate(snapshot)

    def facts_per_entity(self, edges: Facts, snapshot: Snapshot) -> float:
        """Old facts count, too."""
        return (2 * num_facts(self._past) + len(edges)) / max(1, snapshot.num_entities)

    def batch_size(self, facts: int) -> int:
        """Smaller beside old queries, and where an epoch would have few steps."""
        wanted = math.ceil(self._batch_share * self.run.training.batch_size)
        config = self.config
        steps = config.min_steps_per_epoch
        if self._is_small_update:
            steps = config.update_steps_per_epoch
        return min(wanted, max(config.min_batch_size, facts // steps))

    def patience(self, snapshot: Snapshot) -> int:
        """More where epochs are short; but not in an update of a few rows."""
        given, edges = self.run.training.patience, 2 * len(snapshot.train)
        if self._fact_replay is not None and not len(self.validation(snapshot)):
            return self.max_epochs(snapshot)
        if not edges or (self.config.memory == "none" and num_facts(self._past)):
            return given
        needed = math.ceil(self.config.patience_steps * self.batch_size(edges) / edges)
        return max(given, min(self.config.max_patience, needed))

    def validation(self, snapshot: Snapshot) -> Facts:
        """A sample of the validation facts, the same in every epoch."""
        facts, most = super().validation(snapshot), self.config.max_validation_facts
        few = len(facts) < self.config.min_stopping_facts
        if self._is_small_update or (self.uses_history and few):
            return no_facts()
        if len(facts) <= most:
            return facts
        generator = self.stream(purposes.VALIDATE, snapshot.index)
        return facts[np.sort(generator.choice(len(facts), most, replace=False))]

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """Scale the gradient of L_new by 1 - λ, add that of L_replay and L_distill; or that of
        known facts on new entities, which does not count as loss."""
        generator = self.stream(purposes.REPLAY_STEP, self._snapshot, self._steps)
        if self._negatives is not None:
            self._negatives.add_gradient(model.tables, gradient, generator)
        if self._replay is None and self._distillation is None:
            return 0.0
        for part in gradient:
            part.scale(1 - self._old_share)
        replayed, loss = self._replay_share * self._old_share, 0.0
        if self._replay is not None:
            loss += self._replay.add_gradient(model, replayed, self._steps, gradient, generator)
        if self._distillation is not None:
            size = math.ceil((1 - self._replay_share) * self.config.replay_queries)
            queries, shares = self._queries.draw(size, generator)
            weights = (self._old_share - replayed) * shares
            loss += self._distillation.add_gradient(model.tables, queries, weights, gradient)
        return loss

    def after_step(self, model: Model, gradient: Gradient) -> None:
        """Count the steps: each has its own random numbers."""
        self._steps += 1

    def optimizer_state(self) -> State | None:
        """The sums of the last snapshot."""
        return self._optimizer if self.config.carry_optimizer_state else None

    def keep_optimizer(self, state: State) -> None:
        self._optimizer = state

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Count the queries, and train the replay model on the facts. Where no table is at hand
        (`partition_obstacle`), no other snapshot follows, and nothing is replayed."""
        if not len(model.tables.entity):
            self._replay_model = None
        if self._replay_model is not None:
            generator = self.stream(purposes.REPLAY_MODEL, snapshot.index)
            self._replay_model = self._replay_model.with_facts(
                snapshot.train, model.tables, self._counts, generator
            )
        if self._counts_queries:
            self._counts = self._counts.with_facts(snapshot.train)
        super().end(model, snapshot)
        self._retracted = no_facts()
        self._distillation = self._replay = self._fact_replay = self._negatives = None
        self._batch_share = 1.0

    def state(self) -> State:
        """Facts of each row, query counts, the replay model, and the optimizer's sums."""
        queries = self._counts.named() if self._counts_queries else {}
        model = self._replay_model.tables.named(REPLAY_STATE) if self._replay_model else {}
        sums = {OPTIMIZER + name: tensor for name, tensor in self._optimizer.items()}
        return super().state() | queries | model | sums

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`. A state without a replay model goes on without one."""
        state = {_current_name(name): tensor for name, tensor in state.items()}
        super().load_state(state)
        if self._counts_queries:
            self._counts = QueryCounts.from_named(state)
        if self._replay_model is not None and f"{REPLAY_STATE}.entity" in state:
            tables = Parameters.from_named(state, REPLAY_STATE).to(self.device)
            self._replay_model = replace(self._replay_model, tables=tables)
        else:
            self._replay_model = None
        self._optimizer = {
            name.removeprefix(OPTIMIZER): tensor.to(self.device)
            for name, tensor in state.items()
            if name.startswith(OPTIMIZER)
        }

    def working_state(self) -> State:
        """The number of steps so far."""
        return {"steps": torch.tensor([self._steps])}

    def load_working_state(self, state: Mapping[str, Tensor]) -> None:
        self._steps = int(state["steps"])

    def _pseudo_queries(self, model: Model, facts: int) -> QueryCounts:
        """Pseudo-queries to distil beside so many new facts; none of a retracted fact."""
        size = min(self.config.max_pseudo_queries, max(self.config.replay_queries, facts // 2))
        evidence = self._old.map(torch.ones_like)
        for name in ("sums", "second"):
            if f"{name}.entity" in self._optimizer:
                evidence = Parameters.from_named(self._optimizer, name)
        generator = self.stream(purposes.PSEUDO_QUERIES, self._snapshot)
        drawn = pseudo_queries(model.score, self._old, evidence, size, self.config, generator)
        return drawn.without(self._retracted)

    def _make_replay(self, model: Model, edges: int) -> Replay:
        """Replay by the replay model, or else by the last model. The candidates of a relation are
        the entities that ever answered it, as far as query counts tell, or else all."""
        config, num_relations = self.config, len(self._old.relation)
        if self._replay_model is not None:
            predictor = self._replay_model.predictor()
        else:
            predictor = TablePredictor.of(self._old, model.score, model.backend)
        candidates = [np.arange(len(self._old.entity))] * num_relations
        if self._counts_queries:
            candidates = answers_by_relation(self._queries, num_relations)
        queries = self._replay_share * config.replayed_per_query * config.replay_queries
        return Replay(
            predictor,
            self._queries,
            candidates,
            partial(self.stream, purposes.REPLAYED_FACTS, self._snapshot),
            queries_per_step=math.ceil(queries),
            steps_per_epoch=max(1, math.ceil(edges / self.batch_size(edges))),
            candidate_fraction=config.replay_candidate_fraction,
            importance_power=config.replay_importance_power,
        )

    def _empty_replay_model(self) -> ReplayModel | None:
        """A replay model of no facts; of ComplEx where the score is not a matrix product."""
        config, dim, device = self.config, self.run.model.dim, self.device
        if not (config.replay_model and self._counts_queries and config.replay_share):
            return None
        score, backend = score_of(self.run), backend_for(self.run.training.backend, device)
        if isinstance(score, Bilinear):
            return ReplayModel(score, no_parameters(dim, device), config, backend)
        wide = no_parameters(dim + dim % 2, device)
        return ReplayModel(ComplEx(), wide, config, backend, separate=True)


def _current_name(name: str) -> str:
    """The name of a state tensor that release 0.1 may have written."""
    for old, now in NAMES_OF_0_1.items():
        if name.startswith(old):
            return now + name.removeprefix(old)
    return name
