"""A run by partitions: the snapshots of a graph, learned by all workers together. At the end the
first worker assembles the shards: the run folder is that of an ordinary run."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.reading import memory_of_machine
from lkge.data.snapshots import GrowingGraph, Snapshot
from lkge.distributed.checkpoint import ShardedCheckpoints
from lkge.distributed.group import Workers
from lkge.distributed.partition import MOST
from lkge.distributed.shards import SUMS, TABLE, Shards, mapped
from lkge.distributed.training import PartitionedTrainer, ShardedModel
from lkge.errors import SettingsError
from lkge.evaluation.ranking import Validator
from lkge.methods import method_named
from lkge.models.parameters import Parameters
from lkge.models.predictor import Predictor, TablePredictor
from lkge.sizing import Size, bytes_of_tables, partitions
from lkge.training.checkpoint import Saved
from lkge.training.events import Listener
from lkge.training.loop import Learned, Loop
from lkge.training.trainer import Trainer


def with_partitions(
    config: RunConfig, graph: GrowingGraph, size: Size, workers: Workers
) -> RunConfig:
    """The config with the number of partitions that a run has, given or by size; 0: none."""
    number = partitions(config, size, workers.size)
    if not number:
        return config
    method = method_named(config.method.name)(config)
    obstacle = method.partition_obstacle(len(graph))
    if config.training.optimizer != "adagrad":
        obstacle = "training.optimizer = 'adam'; it has adagrad"
    if obstacle and workers.size == 1 and not config.training.partitions:
        return config
    if obstacle:
        raise SettingsError(f"cannot train by partitions: {obstacle}")
    if number % 2 or not 2 * workers.size <= number <= MOST:
        raise SettingsError(
            f"training.partitions = {number} must be even, at least twice the number of workers, "
            f"{workers.size}, and at most {MOST}"
        )
    return config.with_changes({"training.partitions": number})


@dataclass(frozen=True)
class Assembled(Learned):
    """A finished run, whose tables may be larger than the memory: no copy is made."""

    @property
    def predictor(self) -> TablePredictor:
        model, tables = self.model, self.tables
        entity = model.score.prepare_entities(tables.entity)
        relation = model.score.prepare_relations(tables.relation)
        return TablePredictor(entity, relation, model.score, model.backend)


class PartitionedLoop(Loop):
    """`Loop` with `training.partitions` shards, whose checkpoints and files are in `folder`. All
    workers run it with the same graph."""

    _checkpoints: ShardedCheckpoints
    _model: ShardedModel

    def __init__(
        self,
        graph: GrowingGraph,
        config: RunConfig,
        folder: Path,
        listener: Listener,
        workers: Workers,
        seconds_between_checkpoints: float = 2.0,
    ) -> None:
        entities = [snapshot.num_entities for snapshot in graph.snapshots]
        held = bytes_of_tables(config, entities[-1]) // workers.size
        self._folder = folder if held > memory_of_machine() // 2 else None
        self.shards = Shards(config, entities, workers, self._folder)
        checkpoints = ShardedCheckpoints(folder / "checkpoint", self.shards)
        super().__init__(graph, config, checkpoints, listener, seconds_between_checkpoints)

    def run(self) -> Learned:
        """All snapshots. The first worker gets whole tables, in the memory or mapped from the
        folder; the others none."""
        super().run()
        model, method, first = self._model, self._method, self.shards.workers.is_first
        entity = self._assembled(TABLE)
        carried = method.optimizer_state()
        sums = None if carried is None else self._assembled(SUMS)
        if first:
            model.tables = Parameters(entity, model.tables.relation)
            if carried and sums is not None:
                method.keep_optimizer({**carried, "sums.entity": sums})
        return Assembled(self.results, model, method)

    def _assembled(self, name: str) -> Tensor:
        """The rows of all shards in one table on the first worker."""
        shape = self.shards.entities, self.config.model.dim
        if not self.shards.workers.is_first:
            shape = 0, shape[1]
        whole = torch.empty(shape) if self._folder is None else mapped(self._folder, shape)
        self.shards.assemble(name, whole)
        return whole

    def _new_model(self) -> ShardedModel:
        return ShardedModel(self.config, self.shards)

    def _predictor(self) -> Predictor:
        return self._model.predictor()

    def _restore(self, saved: Saved) -> None:
        super()._restore(saved)
        done = len(self.results.snapshots)
        entities = self.graph.snapshots[done - 1].num_entities if done else 0
        self._checkpoints.load_shards("start", entities)

    def _trainer(self, snapshot: Snapshot, validator: Validator) -> Trainer:
        parts = self._model, self._method, snapshot, validator
        history, saver = self._history(snapshot.index), self._saver()
        return PartitionedTrainer(
            *parts, checkpoints=self._checkpoints, listener=self.listener, saver=saver,
            history=history,
        )  # fmt: skip
