"""Kernels against their plain twins, at the paper's size: 2,048 facts, 10 negatives, d = 200."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.comparison import Comparison, seconds
from lkge.backends import backend_for
from lkge.config import RunConfig
from lkge.data.batches import Batch, batches
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import GrowingGraph, Snapshot, no_facts, with_inverses
from lkge.methods import method_named
from lkge.models.model import Model, stream
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import TablePredictor, View
from lkge.models.scores import TransE
from lkge.testing import paper_config
from lkge.training.loop import Loop
from lkge.training.optimizers import RowAdam


def step(graph: GrowingGraph) -> Comparison:
    """One LKGE step on the first snapshot: margin loss, autoencoder, Adam."""
    first = graph.snapshots[0]
    ours, twin = (_step_seconds(first, backend) for backend in ("numba", "torch"))
    edges = 2 * len(first.train)
    return Comparison(
        f"LKGE step, 2,048 facts × 10 negatives, d = 200, autoencoder over {edges:,} edges",
        ours, twin, "the plain torch twin", 5.0,
    )  # fmt: skip


def _step_seconds(snapshot: Snapshot, backend: str) -> float:
    config = paper_config(method="lkge", backend=backend)
    model, method = Model(config), method_named("lkge")(config)
    method.grow(model, snapshot)
    method.begin(model, snapshot)
    batch = _first_batch(snapshot, config)
    loss = method.loss(model)
    optimizer = RowAdam(model.tables, config.training.learning_rate, model.backend)
    gradient = Gradient.like(model.tables)

    def work() -> None:
        loss.add_gradient(model.tables, batch, gradient)
        method.penalty(model, gradient)
        optimizer.apply(model.tables, gradient)
        model.backend.clear(gradient)

    return seconds(work, repeats=20)


def _first_batch(snapshot: Snapshot, config: RunConfig) -> Batch:
    return next(
        batches(
            with_inverses(snapshot.train),
            config.training.batch_size,
            config.training.negatives,
            snapshot.num_entities,
            stream(config.training.seed, 1),
        )
    )


def ranking(graph: GrowingGraph, queries: int = 4096) -> list[Comparison]:
    """Exact filtered ranks of validation facts among all entities, on tables that have learned."""
    last = graph.snapshots[-1]
    tables = _learned(graph)
    answers = KnownFacts.build([np.concatenate([s.train, s.valid]) for s in graph.snapshots])
    facts = with_inverses(last.valid)[:: max(1, 2 * len(last.valid) // queries)]
    view = [View(last.num_entities, last.index)]
    kernel, twin = (
        TablePredictor.of(tables, TransE(), backend_for(name, "cpu")) for name in ("numba", "torch")
    )
    vectors = kernel.queries(facts)

    def distances_alone() -> None:
        for start in range(0, len(vectors), 256):
            torch.cdist(vectors[start : start + 256], kernel.entity, p=1)

    if np.abs(kernel.ranks(facts, view, answers) - twin.ranks(facts, view, answers)).max() > 1:
        raise AssertionError("kernel and twin differ by more than a rounding of near ties")
    ours = seconds(lambda: kernel.ranks(facts, view, answers), repeats=5)
    what = f"exact ranks of {len(facts):,} queries among {last.num_entities:,} entities, d = 200"
    return [
        Comparison(what, ours, seconds(distances_alone, 2), "torch.cdist(p=1) alone", 5.0),
        Comparison(
            what, ours, seconds(lambda: twin.ranks(facts, view, answers), 1), "the plain twin", 5.0
        ),
    ]


def _learned(graph: GrowingGraph) -> Parameters:
    """Parameters after a few quick epochs on all training facts."""
    last = graph.snapshots[-1]
    everything = Snapshot(
        index=0,
        train=np.concatenate([snapshot.train for snapshot in graph.snapshots]),
        valid=no_facts(),
        test=no_facts(),
        num_entities=last.num_entities,
        num_relations=last.num_relations,
    )
    config = paper_config(method="fine-tune", learning_rate=1e-3, max_epochs=8)
    whole = GrowingGraph(graph.name, graph.vocabulary, (everything,))
    return Loop(whole, config).run().tables
