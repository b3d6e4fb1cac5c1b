"""An update: a version and a batch of facts make the next version.

The steps, in order (`update_version`):

    1 split      the batch into training, validation, hold-out and retracted facts
    2 choose     the subgraph: the rows that training needs
    3 train      the subgraph
    4 merge      the trained rows into the tables of the whole graph
    5 evaluate   the hold-out facts, under the new version and under the last one
    6 calibrate  scores to plausibilities
    7 record     the line of the log and the manifest
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge import provenance
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Snapshot, no_facts, with_inverses
from lkge.evaluation.ranking import Validator
from lkge.methods import method_named
from lkge.models.model import EVALUATE, HOLD_OUT, SUBGRAPH, stream
from lkge.models.predictor import Predictor, TablePredictor
from lkge.store import holdout, versions
from lkge.store.arrays import Array, taken
from lkge.store.calibration import Curve, calibrated
from lkge.store.holdout import HoldOut, Reciprocals
from lkge.store.inbox import FactBatch
from lkge.store.reader import Reader, inference_tables
from lkge.store.records import ADD, Manifest, StoreConfig, VersionRecord
from lkge.store.subgraph import Subgraph, choose_subgraph, whole_graph
from lkge.store.update_split import UpdateSplit, split_batch
from lkge.store.versions import ENTITY, TABLE
from lkge.training.checkpoint import Checkpoints, CheckpointSaver
from lkge.training.events import Evaluating, Listener
from lkge.training.trainer import Trainer, learned_tensors, restored


@dataclass(frozen=True)
class UpdateResult:
    """What was trained: tensors of the subgraph, and the predictor over it."""

    subgraph: Subgraph
    tensors: dict[str, Tensor]
    predictor: Predictor
    epochs: int
    seconds: float


@dataclass(frozen=True)
class Evaluation:
    """The hold-out set, 1/rank of its facts (k,) among `candidates`, 1/rank of the older ones under
    the last version, and the new version's predictor over the candidates."""

    hold_out: HoldOut
    is_new: NDArray[np.bool_]
    candidates: Subgraph
    predictor: Predictor
    reciprocals: Reciprocals
    reciprocals_before: Reciprocals

    @property
    def mrr_new(self) -> float:
        """MRR of the facts of this batch."""
        return _mean(self.reciprocals[self.is_new])

    @property
    def mrr_old(self) -> float:
        """MRR of the older facts."""
        return _mean(self.reciprocals[~self.is_new])

    @property
    def mrr_old_before(self) -> float:
        """MRR of the older facts under the last version."""
        return _mean(self.reciprocals_before)


def update_version(
    reader: Reader,
    batch: FactBatch,
    store_config: StoreConfig,
    listener: Listener,
    checkpoints: Checkpoints,
) -> tuple[dict[str, dict[str, Array]], Manifest]:
    """All steps: arrays by file, and the manifest, whose checksums are added when the files are
    written. The same version and batch give the same bytes."""
    split = split_update(reader, batch, store_config)
    subgraph = subgraph_of(reader, split, store_config)
    result = train_update(reader, split, subgraph, store_config, listener, checkpoints)
    model = subgraph.merged_arrays(reader.model_arrays, result.tensors, reader.num_entities)
    inference: dict[str, Array] | None = None  # the predictor may have no tables
    if (tables := inference_tables(result.predictor)) is not None:
        inference = subgraph.merged_arrays(reader.inference_arrays, tables, reader.num_entities)
    known = _known_answers(reader, split)
    evaluation = evaluate_update(reader, split, result, inference, known, store_config, listener)
    curve = _calibrate(reader, evaluation)
    record = _record(reader, batch, split, result, known, evaluation, store_config)
    files: dict[str, dict[str, Array]] = {
        versions.MODEL: model,
        versions.NAMES: dict(split.names.arrays()),
        versions.KNOWN: dict(known.arrays()),
        versions.HOLD_OUT_FILE: dict(evaluation.hold_out.arrays()),
    }
    manifest = dataclasses.replace(
        reader.manifest,
        version=record.version,
        updates=split.index + 1,
        last_batch=batch.number,
        calibration=curve,
        provenance=provenance.provenance(),
        log=(*reader.log, record),
    )
    return files | ({versions.INFERENCE: inference} if inference else {}), manifest


def split_update(reader: Reader, batch: FactBatch, store_config: StoreConfig) -> UpdateSplit:
    """Step 1: the batch by id, in four parts."""
    return split_batch(
        batch,
        reader.manifest.updates,
        reader.names,
        reader.answers,
        _stream(reader, HOLD_OUT),
        store_config.min_validation_facts,
    )


def subgraph_of(reader: Reader, split: UpdateSplit, store_config: StoreConfig) -> Subgraph:
    """Step 2: the rows to train; all rows if the method does not support partial updates."""
    old, total, config = reader.num_entities, split.names.num_entities, reader.config
    if not method_named(config.method.name)(config).supports_partial_updates:
        return whole_graph(old, total)
    facts = np.concatenate([split.train, split.valid, split.retracted])
    sample = max(
        store_config.subgraph_entities, store_config.subgraph_entities_per_fact * len(facts)
    )
    return choose_subgraph(facts, old, total, _stream(reader, SUBGRAPH), sample)


def train_update(
    reader: Reader,
    split: UpdateSplit,
    subgraph: Subgraph,
    store_config: StoreConfig,
    listener: Listener,
    checkpoints: Checkpoints,
) -> UpdateResult:
    """Step 3: train the subgraph. Without validation facts all epochs are trained: the loss of a
    few facts is too noisy to stop by."""
    started = time.perf_counter()
    config = reader.config
    if not len(split.valid):
        config = config.with_changes({"patience": config.training.max_epochs})
    model, method = restored(config, subgraph.rows(reader.model_arrays))
    snapshot = Snapshot(
        index=split.index,
        train=subgraph.local(split.train),
        valid=subgraph.local(split.valid),
        test=no_facts(),
        num_entities=len(subgraph),
        num_relations=split.names.num_relations,
    )
    known = subgraph.known_facts(reader.answers, split.valid)
    known = np.concatenate([snapshot.train, snapshot.valid, known])
    trainer = Trainer(
        model,
        method,
        snapshot,
        Validator([snapshot], KnownFacts.build([known])),
        retracted=subgraph.local(split.retracted),
        listener=listener,
        saver=CheckpointSaver(checkpoints, store_config.seconds_between_checkpoints),
        num_entities=split.names.num_entities,
    )
    epochs = trainer.run(checkpoints.load()).epochs
    seconds = time.perf_counter() - started
    tensors = learned_tensors(model, method)
    return UpdateResult(subgraph, tensors, method.predictor(model), epochs, seconds)


def _known_answers(reader: Reader, split: UpdateSplit) -> KnownFacts:
    """The known answers of the new version, if the store keeps them."""
    known = reader.answers
    if not reader.store.options.known:
        return known
    if len(split.retracted):
        known = known.without(split.retracted)
    return known.merged(split.new_facts, reader.version + 1)


def evaluate_update(
    reader: Reader,
    split: UpdateSplit,
    result: UpdateResult,
    inference: dict[str, Array] | None,
    known: KnownFacts,
    store_config: StoreConfig,
    listener: Listener,
) -> Evaluation:
    """Step 5: ranks of the hold-out facts."""
    version, total = reader.version + 1, split.names.num_entities
    hold_out = reader.hold_out.without(split.retracted).grown(
        split.hold_out, version, _stream(reader, EVALUATE, 0), store_config.hold_out_facts
    )
    if inference is None:
        candidates, predictor = whole_graph(total, total), result.predictor
    else:
        candidates = holdout.sample_candidates(
            hold_out.facts, total, _stream(reader, EVALUATE, 1), store_config.evaluation_candidates
        )
        predictor = _over(candidates, result.predictor, inference[ENTITY])
    listener(Evaluating(split.index, 2 * len(hold_out)))
    is_new = hold_out.since == version
    return Evaluation(
        hold_out,
        is_new,
        candidates,
        predictor,
        holdout.reciprocal_ranks(predictor, candidates, hold_out.facts, known),
        _reciprocals_before(reader, candidates, hold_out.facts[~is_new]),
    )


def _reciprocals_before(reader: Reader, candidates: Subgraph, facts: NDArray[Any]) -> Reciprocals:
    """1/rank of facts under the last version, among those candidates that it has."""
    ids = candidates.ids[candidates.ids < reader.num_entities]
    old, predictor = Subgraph(ids, len(ids)), reader.predictor
    if reader.inference_arrays:
        predictor = _over(old, predictor, reader.inference_arrays[ENTITY])
    return holdout.reciprocal_ranks(predictor, old, facts, reader.answers)


def _calibrate(reader: Reader, evaluation: Evaluation) -> Curve:
    """Step 6: the calibration curve through hold-out facts and corrupted ones; that of the last
    version if there is no hold-out fact."""
    if not len(evaluation.hold_out):
        return reader.curve
    candidates, predictor = evaluation.candidates, evaluation.predictor
    true = with_inverses(candidates.local(evaluation.hold_out.facts))
    corrupted = true.copy()
    corrupted[:, 2] = _stream(reader, EVALUATE, 2).integers(0, len(candidates), len(true))
    return calibrated(predictor.fact_scores(true), predictor.fact_scores(corrupted))


def _record(
    reader: Reader,
    batch: FactBatch,
    split: UpdateSplit,
    result: UpdateResult,
    known: KnownFacts,
    evaluation: Evaluation,
    store_config: StoreConfig,
) -> VersionRecord:
    """Step 7: the line of the log."""
    names, before = split.names, reader.names
    touched, drift = _drift(reader, result)
    return VersionRecord(
        version=reader.version + 1,
        kind=ADD,
        created=batch.accepted,
        facts=len(split.new_facts),
        retracted=len(split.retracted),
        new_entities=names.num_entities - before.num_entities,
        new_relations=names.num_relations - before.num_relations,
        entities=names.num_entities,
        relations=names.num_relations,
        known_facts=known.num_facts,
        mrr_new=evaluation.mrr_new,
        mrr_old_before=evaluation.mrr_old_before,
        mrr_old=evaluation.mrr_old,
        row=holdout.mean_by_version(evaluation.hold_out, evaluation.reciprocals),
        candidates=len(evaluation.candidates),
        drift=drift,
        touched=touched,
        epochs=result.epochs,
        seconds=result.seconds,
        warnings=(*split.warnings, *_forgetting(evaluation, store_config)),
        source=batch.source,
        batch=batch.number,
    )


def _drift(reader: Reader, result: UpdateResult) -> tuple[int, float]:
    """How many old rows changed, and their mean drift."""
    subgraph, after = result.subgraph, result.tensors[TABLE].numpy()
    before = taken(reader.model_arrays[TABLE], subgraph.ids[: subgraph.num_old])
    after = after[: subgraph.num_old]
    changed = np.flatnonzero((before != after).any(axis=1))
    rows = (torch.from_numpy(table[changed]) for table in (before, after))
    return len(changed), holdout.mean_drift(*rows)


def _forgetting(evaluation: Evaluation, store_config: StoreConfig) -> list[str]:
    before, after = evaluation.mrr_old_before, evaluation.mrr_old
    if len(evaluation.reciprocals_before) < store_config.min_facts_for_warning:
        return []
    if after >= (1 - store_config.forgetting_warning) * before:
        return []
    return [
        f"old held-out facts fell from MRR {before:.3f} to {after:.3f}; "
        f"`lkge rollback` takes the last version back"
    ]


def _over(rows: Subgraph, predictor: Predictor, entity: Array) -> Predictor:
    """A predictor over the given rows of `entity` only, under their local ids."""
    assert isinstance(predictor, TablePredictor)
    return dataclasses.replace(
        predictor, entity=torch.from_numpy(taken(entity, rows.ids)), names=None
    )


def _stream(reader: Reader, purpose: int, *part: int) -> np.random.Generator:
    return stream(reader.config.training.seed, purpose, reader.version + 1, *part)


def _mean(values: Reciprocals) -> float:
    return float(values.mean()) if len(values) else math.nan
