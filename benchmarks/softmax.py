"""The softmax over all entities, ComplEx with 64 complex coordinates, batches of 1,500: against
bare matrix products, against its plain twin, and an epoch against PyKEEN's ComplEx.

PyKEEN learns the same facts and inverses with the same loss and Adagrad, over all entities (LCWA)
and over as many sampled ones (sLCWA). With LCWA its batches are questions (h, r, ?), each with all
its answers as the target, where ours are facts. With sLCWA it draws negatives for each fact alone,
of subjects and objects, where ours are shared by facts in a row and replace objects.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import torch

from benchmarks.comparison import Comparison, once, seconds
from lkge.config import RunConfig
from lkge.data.batches import Batch, batches
from lkge.data.snapshots import GrowingGraph, Snapshot, no_facts, with_inverses
from lkge.evaluation.ranking import Validator
from lkge.methods.base import Method
from lkge.models.model import Model, stream
from lkge.models.parameters import Gradient
from lkge.testing import paper_config
from lkge.training.events import EpochFinished, Event
from lkge.training.trainer import Trainer

CONFIG = paper_config(
    method="fine-tune",
    score="complex",
    dim=128,
    batch_size=1500,
    loss="softmax",
    optimizer="adagrad",
    learning_rate=0.1,
)
SAMPLED = {"loss": "sampled", "negatives": 256, "negatives_shared_by": 50}
EPOCHS = 3
SQUARE = 2048
"""Size of the matrices whose product is the measure."""
WANTED_SHARE = 0.6


def step(graph: GrowingGraph) -> list[Comparison]:
    """Loss and gradient of one batch. It takes three products of (B × d × n), two operations for
    each number: that is what bare products need 6·B·n·d / rate for."""
    last = _alone(graph)
    ours, twin = (_gradient_seconds(last, backend) for backend in ("numba", "torch"))
    rate = _product_rate()
    size = min(CONFIG.training.batch_size, 2 * len(last.train))
    bare = 6 * size * last.num_entities * CONFIG.model.dim / rate
    what = f"softmax of {size:,} facts over {last.num_entities:,} entities, d = {CONFIG.model.dim}"
    peer = f"bare products, {rate / 1e9:,.0f} GFLOP/s"
    return [
        Comparison(what, ours, bare, peer, WANTED_SHARE),
        Comparison(what, ours, twin, "the plain torch twin", 1.0),
    ]


def epoch(graph: GrowingGraph) -> list[Comparison]:
    """An epoch over the facts of the last snapshot, both directions, and all entities; the best of
    three."""
    last = _alone(graph)
    epoch_of = f"ComplEx epoch of {2 * len(last.train):,} facts over"
    sampled = CONFIG.with_changes(SAMPLED)
    negatives, shared_by = sampled.training.negatives, sampled.training.negatives_shared_by
    return [
        Comparison(
            f"{epoch_of} {last.num_entities:,} entities",
            *(_our_epoch(last, CONFIG), _over_all(last)),
            *("PyKEEN's ComplEx, LCWA", 3.0),
        ),
        Comparison(
            f"{epoch_of} {negatives} negatives each, shared by {shared_by} facts",
            *(_our_epoch(last, sampled), _over_samples(last, negatives)),
            *("PyKEEN's ComplEx, sLCWA", 3.0),
        ),
    ]


def _alone(graph: GrowingGraph) -> Snapshot:
    """The last snapshot as if it were the first; all entities, and nothing to validate."""
    return dataclasses.replace(graph.snapshots[-1], index=0, valid=no_facts(), test=no_facts())


def _product_rate() -> float:
    """Operations a second of a large product."""
    one, other = torch.randn(SQUARE, SQUARE), torch.randn(SQUARE, SQUARE)
    out = torch.empty(SQUARE, SQUARE)
    return 2 * SQUARE**3 / seconds(lambda: torch.mm(one, other, out=out), repeats=10)


def _gradient_seconds(snapshot: Snapshot, backend: str) -> float:
    model = Model(CONFIG.with_changes({"backend": backend}))
    model.grow(snapshot)
    gradient, batch = Gradient.like(model.tables), _first_batch(snapshot)
    return seconds(lambda: model.loss.add_gradient(model.tables, batch, gradient), repeats=10)


def _first_batch(snapshot: Snapshot) -> Batch:
    generator = stream(CONFIG.training.seed, 1)
    edges, size = with_inverses(snapshot.train), CONFIG.training.batch_size
    return next(batches(edges, size, 0, snapshot.num_entities, generator))


def _our_epoch(snapshot: Snapshot, config: RunConfig) -> float:
    config = config.with_changes({"max_epochs": EPOCHS + 1, "patience": EPOCHS + 1})
    model = Model(config)
    times: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, EpochFinished):
            times.append(trainer.progress.seconds)

    validator = Validator([snapshot])
    trainer = Trainer(model, Method(config), snapshot, validator, listener=listen)
    trainer.run()
    return min(after - before for before, after in pairwise(times))


def _over_all(snapshot: Snapshot) -> float:
    from pykeen.losses import CrossEntropyLoss
    from pykeen.training import LCWATrainingLoop

    return _peer_epoch(snapshot, CrossEntropyLoss(), LCWATrainingLoop)


def _over_samples(snapshot: Snapshot, negatives: int) -> float:
    """The cross-entropy of a fact among its negatives: InfoNCE without margin or temperature."""
    from pykeen.losses import InfoNCELoss
    from pykeen.training import SLCWATrainingLoop

    loss = InfoNCELoss(margin=0.0, log_adversarial_temperature=0.0)
    drawn = {"num_negs_per_pos": negatives}
    return _peer_epoch(snapshot, loss, SLCWATrainingLoop, negative_sampler_kwargs=drawn)


def _peer_epoch(snapshot: Snapshot, loss: Any, kind: Any, **options: Any) -> float:
    from pykeen.models import ComplEx
    from pykeen.triples import CoreTriplesFactory

    ids = torch.as_tensor(snapshot.train).long()
    training = CoreTriplesFactory(
        mapped_triples=torch.stack([ids[:, 0], ids[:, 1] // 2, ids[:, 2]], dim=1),
        num_entities=snapshot.num_entities,
        num_relations=snapshot.num_relations,
        create_inverse_triples=True,
    )
    model = ComplEx(
        triples_factory=training,
        embedding_dim=CONFIG.model.dim // 2,
        regularizer=None,
        loss=loss,
        random_seed=CONFIG.training.seed,
    )
    optimizer = torch.optim.Adagrad(model.parameters(), lr=CONFIG.training.learning_rate)
    loop = kind(model=model, triples_factory=training, optimizer=optimizer, **options)

    def train() -> None:
        loop.train(training, num_epochs=1, batch_size=CONFIG.training.batch_size, use_tqdm=False)

    train()
    return min(once(train) for _ in range(EPOCHS))
