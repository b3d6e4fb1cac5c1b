"""An update: a version and a batch of facts make the next version.

The steps, in order (`Update.run`):

    1 split      the batch into training, validation, hold-out and retracted facts
    2 choose     known facts to replay, and the subgraph: the rows that training needs
    3 train      the subgraph
    4 merge      the trained rows into the tables of the whole graph
    5 evaluate   the hold-out facts; the last version ranked them among the same entities
    6 calibrate  places in lists to plausibilities, if enough facts are new
    7 record     the line of the log and the manifest
"""

import dataclasses
import time
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from lkge.config import RunConfig
from lkge.data.history import History
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, Snapshot, no_facts
from lkge.errors import DamagedFile, LearningFailed
from lkge.evaluation.ranking import Validator
from lkge.methods import method_named
from lkge.models.model import EVALUATE, HISTORY, HOLD_OUT, SUBGRAPH, stream
from lkge.models.parameters import host, placed
from lkge.models.predictor import Predictor, TablePredictor
from lkge.provenance import provenance
from lkge.sizing import Size, sized
from lkge.store import health, quality, records, versions
from lkge.store.arrays import Array, Arrays, taken
from lkge.store.calibration import Calibration
from lkge.store.composed import changed_facts, changed_names
from lkge.store.content import Change, Content
from lkge.store.editing import split_edit
from lkge.store.held_out_lists import calibrated
from lkge.store.holdout import mean_drift, sample_candidates
from lkge.store.inbox import FactBatch
from lkge.store.overlay import table_delta
from lkge.store.reader import Reader, inference_tables
from lkge.store.subgraph import Subgraph, choose_subgraph, whole_graph
from lkge.store.update_split import UpdateSplit, split_batch
from lkge.store.versions import ENTITY
from lkge.training.checkpoint import Checkpoints, CheckpointSaver
from lkge.training.events import Evaluating, Listener
from lkge.training.trainer import Trainer, learned_tensors, restored


@dataclasses.dataclass(frozen=True)
class Start:
    """What training begins with: arrays of the model and of inference, and their entities."""

    model: Mapping[str, Array]
    inference: Mapping[str, Array]
    num_entities: int


@dataclasses.dataclass(frozen=True)
class UpdateResult:
    """What was trained: tensors of the subgraph, and the predictor over it."""

    subgraph: Subgraph
    tensors: dict[str, torch.Tensor]
    predictor: Predictor
    epochs: int
    seconds: float
    full: bool
    """Whether all known facts were trained on."""
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Update:
    """From a version and a batch to the next version; the same two give the same bytes."""

    reader: Reader
    batch: FactBatch
    store_config: records.StoreConfig
    listener: Listener
    checkpoints: Checkpoints

    kind: ClassVar[str] = records.ADD
    review: ClassVar[bool] = False
    """Whether the facts were learned before; see `Trainer`."""

    def run(self, split: UpdateSplit | None = None) -> tuple[dict[str, Content], records.Manifest]:
        """All steps: what changes by kind, and the manifest without the new files. `split` is
        step 1, if it is done."""
        reader = self.reader
        split = split or self.split()
        pool = self.replay_pool(split)
        result = self.train(split, pool, self.choose(split, pool))
        subgraph, start = result.subgraph, self.start()
        model = subgraph.merged_arrays(start.model, result.tensors, start.num_entities)
        tables = inference_tables(result.predictor) or {}  # the predictor may have no tables
        inference = subgraph.merged_arrays(start.inference, tables, start.num_entities)
        known = self.known_answers(split)
        measured = self.evaluate(split, result, inference, known)
        since = self.facts_since_calibration(split)
        contents: dict[str, Content] = {
            versions.MODEL: self.changed(versions.MODEL, model),
            versions.NAMES: changed_names(
                reader.names, split.names, partial(reader.verify, versions.NAMES)
            ),
            versions.KNOWN: changed_facts(
                reader.answers, known, partial(reader.verify, versions.KNOWN)
            ),
            versions.HOLD_OUT_FILE: measured.arrays(),
        }
        if inference:
            contents[versions.INFERENCE] = self.changed(versions.INFERENCE, inference)
        record = self.record(split, result, known, measured)
        manifest = reader.manifest.next(
            self.judged(record, measured),
            files={kind: f for kind, f in reader.manifest.files.items() if kind in contents},
            updates=split.index + 1,
            last_batch=self.batch.number,
            calibration=self.calibration(split, measured, result, inference, known),
            facts_since_calibration=since if self.keeps_calibration(split) else 0,
            provenance=provenance(),
        )
        return contents, manifest

    def changed(self, kind: str, after: Mapping[str, Array]) -> Content:
        """Tables as what differs from the last version. What is copied instead is verified."""
        delta = table_delta(self.reader.tables.get(kind, {}), after)

        def whole() -> Arrays:
            self.reader.verify(kind)
            return after

        return after if delta is None else Change(whole, delta)

    def start(self) -> Start:
        """What training begins with: the last version."""
        reader = self.reader
        tables = reader.tables
        inference = tables.get(versions.INFERENCE, {})
        return Start(tables[versions.MODEL], inference, reader.num_entities)

    def split(self) -> UpdateSplit:
        """Step 1: the batch by id, in four parts."""
        updates, generator = self.reader.manifest.updates, self._stream(HOLD_OUT)
        least = self.store_config.min_validation_facts
        if self.batch.edit:
            return split_edit(self.batch, self.batch.edit, updates, self.reader, generator, least)
        return split_batch(
            self.batch, updates, self.reader.names, self.reader.answers, generator, least
        )

    def replay_pool(self, split: UpdateSplit) -> Facts:
        """Step 2: known facts (n, 3) to replay, if the method uses them; none that is held out."""
        method = method_named(self.reader.config.method.name)(self.reader.config)
        if not method.uses_history:
            return no_facts()
        history = self._history(split)
        return method.replay_pool(history, split.train, split.retracted, self._stream(HISTORY))

    def _history(self, split: UpdateSplit) -> History:
        """The known facts of the last version that may be trained on."""
        return History(self.reader.answers, self._excluded(split))

    def _excluded(self, split: UpdateSplit) -> Facts:
        """Known facts that must not be trained on."""
        return np.concatenate([self.reader.hold_out.facts, split.retracted])

    def choose(self, split: UpdateSplit, pool: Facts) -> Subgraph:
        """Step 2: the rows to train; all rows if the method does not support partial updates."""
        old, total, config = self.reader.num_entities, split.names.num_entities, self.reader.config
        if not method_named(config.method.name)(config).supports_partial_updates:
            return whole_graph(old, total)
        facts = np.concatenate([split.train, split.valid, split.retracted])
        per_fact = self.store_config.subgraph_entities_per_fact
        sample = max(self.store_config.subgraph_entities, per_fact * len(facts))
        facts = np.concatenate([facts, pool])
        return choose_subgraph(facts, old, total, self._stream(SUBGRAPH), sample)

    def train(self, split: UpdateSplit, pool: Facts, subgraph: Subgraph) -> UpdateResult:
        """Step 3: train the subgraph."""
        started, warnings = time.perf_counter(), list[str]()
        self.verify(subgraph)
        trainer = self._begun(split, pool, subgraph, warnings)
        trainer.train()
        model, method = trainer.model, trainer.method
        if not all(bool(table.isfinite().all()) for table in model.tables):
            raise LearningFailed(
                "the embeddings are no longer finite; lower training.learning_rate"
            )
        epochs = trainer.finish().epochs
        del trainer  # its gradient and copies are as large as the tables
        seconds = time.perf_counter() - started
        tensors = learned_tensors(model, method)
        trainable = self.reader.num_facts - len(self._excluded(split))
        full = self.review or len(pool) >= trainable
        predictor = method.predictor(model)
        return UpdateResult(subgraph, tensors, predictor, epochs, seconds, full, tuple(warnings))

    def _begun(
        self, split: UpdateSplit, pool: Facts, subgraph: Subgraph, warnings: list[str]
    ) -> Trainer:
        """The trainer, ready for its next epoch: the first one, if the checkpoint is unfit."""
        trainer = self._trainer(split, pool, subgraph)
        trainer.prepare()
        try:
            trainer.begin(self.checkpoints.load_or_remove(warnings.append))
        except DamagedFile as error:
            self.checkpoints.remove_unfit(error, warnings.append)
            trainer = self._trainer(split, pool, subgraph)
            trainer.prepare()
            trainer.begin(None)
        return trainer

    def _trainer(self, split: UpdateSplit, pool: Facts, subgraph: Subgraph) -> Trainer:
        config = self.training_config(split)
        model, method = restored(config, subgraph.rows(self.start().model))
        snapshot = Snapshot(
            index=split.index,
            train=subgraph.local(split.train),
            valid=subgraph.local(split.valid),
            test=no_facts(),
            num_entities=len(subgraph),
            num_relations=split.names.num_relations,
        )
        known = subgraph.known_facts(self.reader.answers, split.valid)
        known = np.concatenate([snapshot.train, snapshot.valid, known])
        interval = self.store_config.seconds_between_checkpoints
        return Trainer(
            model,
            method,
            snapshot,
            Validator([snapshot], KnownFacts.build([known])),
            retracted=subgraph.local(split.retracted),
            listener=self.listener,
            saver=CheckpointSaver(self.checkpoints, interval),
            num_entities=split.names.num_entities,
            review=self.review,
            history=self.history(pool, subgraph),
        )

    def verify(self, subgraph: Subgraph) -> None:
        """DamagedFile if rows that are trained are not as they were written."""
        old = subgraph.ids[: subgraph.num_old]
        self.reader.verify_rows(versions.MODEL, old)
        self.reader.verify_rows(versions.INFERENCE, old)

    def history(self, pool: Facts, subgraph: Subgraph) -> History:
        """The earlier facts that the method sees in training, with ids of the subgraph."""
        pooled = KnownFacts.build([subgraph.local(pool)])
        return History(pooled, total=self.reader.answers.num_facts)

    def training_config(self, split: UpdateSplit) -> RunConfig:
        """The settings of the graph, adapted to its size if it has grown large since they were
        chosen; without validation facts all epochs are trained."""
        size = Size(split.names.num_entities, self.reader.num_facts + len(split.new_facts))
        config = sized(self.reader.config, size)
        if len(split.valid):
            return config
        return config.with_changes({"patience": config.training.max_epochs})

    def known_answers(self, split: UpdateSplit) -> KnownFacts:
        """The known answers of the new version, if the store keeps them."""
        known = self.reader.answers
        if not self.reader.store.options.known:
            return known
        if len(split.retracted):
            known = known.without(split.retracted)
        return known.merged(split.new_facts, self.reader.version + 1)

    def named(self, split: UpdateSplit) -> NDArray[np.int64]:
        """The entities whose facts are added or retracted."""
        facts = np.concatenate([split.new_facts, split.retracted])
        return np.unique(facts[:, (0, 2)]).astype(np.int64)

    def evaluate(
        self, split: UpdateSplit, result: UpdateResult, inference: Arrays, known: KnownFacts
    ) -> quality.Quality:
        """Step 5: the hold-out set with the facts of this batch, ranked."""
        reader, version, config = self.reader, self.reader.version + 1, self.store_config
        named = self.named(split)
        no_longer = np.concatenate([split.retracted, split.train, split.valid])
        hold_out = reader.hold_out.without(no_longer).grown(
            split.hold_out, version, self._stream(EVALUATE, 0), config.hold_out_facts, named
        )
        retracted = quality.tracked(
            reader.retracted,
            split.retracted,
            split.new_facts,
            version,
            self._stream(EVALUATE, 3),
            config.tracked_retractions,
        )
        rows = reader.tables.get(versions.INFERENCE, {}).get(ENTITY)
        last = _Model(reader.torch_predictor, rows, reader.num_entities)
        new = _Model(result.predictor, inference.get(ENTITY), split.names.num_entities)
        self.listener(Evaluating(split.index, 2 * len(hold_out)))
        return quality.measured(
            hold_out,
            retracted,
            version,
            named,
            (last, new),
            (reader.answers, known),
            config,
            full=result.full,
            new_baseline=self.kind == records.RELEARN,
        )

    def facts_since_calibration(self, split: UpdateSplit) -> int:
        """Facts added and retracted since the calibration of the last version was fitted."""
        changed = len(split.new_facts) + len(split.retracted)
        return self.reader.manifest.facts_since_calibration + changed

    def keeps_calibration(self, split: UpdateSplit) -> bool:
        """Whether the calibration of the last version is still good: it is fitted, and few facts
        changed since."""
        most = self.store_config.calibrate_after * self.reader.num_facts
        few = self.facts_since_calibration(split) < most
        return self.kind == records.ADD and self.reader.calibration.is_known and few

    def calibration(
        self,
        split: UpdateSplit,
        measured: quality.Quality,
        result: UpdateResult,
        inference: Arrays,
        known: KnownFacts,
    ) -> Calibration:
        """Step 6: the calibration by the lists of the hold-out facts, or that of the last
        version."""
        if self.keeps_calibration(split):
            return self.reader.calibration
        facts, config = measured.hold_out.facts, self.store_config
        chosen = self._stream(EVALUATE, 2).permutation(len(facts))[: config.calibration_facts]
        facts, total = facts[np.sort(chosen)], split.names.num_entities
        candidates = whole_graph(total, total)
        if inference:
            size, generator = config.evaluation_candidates, self._stream(EVALUATE, 1)
            candidates = sample_candidates(facts, total, generator, size, split.names.removed)
        new = _Model(result.predictor, inference.get(ENTITY), total)
        return calibrated(new.over(candidates), candidates, facts, known, total)

    def record(
        self,
        split: UpdateSplit,
        result: UpdateResult,
        known: KnownFacts,
        measured: quality.Quality,
    ) -> records.VersionRecord:
        """Step 7: the line of the log."""
        names, before = split.names, self.reader.names
        touched, drift = self._drift(result)
        return records.VersionRecord(
            version=self.reader.version + 1,
            kind=records.EDIT if self.batch.edit else self.kind,
            created=self.batch.accepted,
            facts=len(split.new_facts),
            retracted=len(split.retracted),
            new_entities=names.num_entities - before.num_entities,
            new_relations=names.num_relations - before.num_relations,
            entities=names.num_entities,
            relations=names.num_relations,
            known_facts=known.num_facts,
            mrr_new=measured.mrr_new,
            mrr_old_before=measured.last_update.mrr_before,
            mrr_old=measured.last_update.mrr,
            candidates=measured.candidates,
            full=result.full,
            drift=drift,
            touched=touched,
            epochs=result.epochs,
            seconds=result.seconds,
            warnings=(*split.warnings, *result.warnings),
            source=self.batch.source,
            batch=self.batch.number,
            removed=len(names.removed),
        )

    def _drift(self, result: UpdateResult) -> tuple[int, float]:
        """How many old rows changed, and their mean drift."""
        old = result.subgraph.ids[: result.subgraph.num_old]
        before = taken(self.reader.tables[versions.MODEL][versions.TABLE], old)
        after = host(result.tensors[versions.TABLE])[: len(old)]
        changed = np.flatnonzero((before != after).any(axis=1))
        rows = (torch.from_numpy(table[changed]) for table in (before, after))
        return len(changed), mean_drift(*rows)

    def judged(
        self, record: records.VersionRecord, measured: quality.Quality
    ) -> records.VersionRecord:
        """Step 7, second part: the quality, the verdict and its warnings."""
        remedy = health.remedy_for("KG", self.reader.store.options.known, self.kind)
        return health.recorded(record, measured, self.reader.record, self.store_config, remedy)

    def _stream(self, purpose: int, *part: int) -> np.random.Generator:
        return stream(self.reader.config.training.seed, purpose, self.reader.version + 1, *part)


@dataclasses.dataclass(frozen=True)
class _Model:
    """A predictor, and its inference rows of all entities, if it has such."""

    predictor: Predictor
    entity: Array | None
    num_entities: int

    @property
    def has_rows(self) -> bool:
        """Whether there are such rows."""
        return self.entity is not None

    def over(self, candidates: Subgraph) -> Predictor:
        """The predictor of some entities, under their local ids; of all, if there are no rows."""
        if self.entity is None:
            return self.predictor
        assert isinstance(self.predictor, TablePredictor)
        table = placed(taken(self.entity, candidates.ids), self.predictor.entity.device)
        return dataclasses.replace(self.predictor, entity=table, names=None)
