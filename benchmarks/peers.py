"""One epoch and its validation against PyKEEN's TransE: same facts, batch, dimension, negatives."""

from __future__ import annotations

from itertools import pairwise

import torch

from benchmarks.comparison import Comparison, once
from lkge.data.snapshots import GrowingGraph
from lkge.evaluation.ranking import Validator
from lkge.methods import method_named
from lkge.models.model import Model
from lkge.testing import paper_config
from lkge.training.events import EpochFinished, Event
from lkge.training.trainer import Trainer

EPOCHS = 3


def epoch(graph: GrowingGraph) -> list[Comparison]:
    """Training, validation, and both, on the first snapshot; each the best of three epochs."""
    train, valid = _our_epoch(graph)
    peer_train, peer_valid = _peer_epoch(graph)
    facts, queries = 2 * len(graph.snapshots[0].train), 2 * len(graph.snapshots[0].valid)
    peer = "PyKEEN's TransE"
    return [
        Comparison(f"an LKGE epoch of {facts:,} facts", train, peer_train, peer, 1.0),
        Comparison(f"validation with {queries:,} queries", valid, peer_valid, peer, 1.0),
        Comparison("both together", train + valid, peer_train + peer_valid, peer, 20.0),
    ]


def _our_epoch(graph: GrowingGraph) -> tuple[float, float]:
    config = paper_config(method="lkge", max_epochs=EPOCHS + 1, patience=EPOCHS + 1)
    first = graph.snapshots[0]
    model, method = Model(config), method_named("lkge")(config)
    times: list[tuple[float, float]] = []

    def listen(event: Event) -> None:
        if isinstance(event, EpochFinished):
            times.append((trainer.progress.seconds, trainer.progress.validation_seconds))

    trainer = Trainer(model, method, first, Validator([first]), listener=listen)
    trainer.run()
    steps = [
        (after[0] - before[0] - (after[1] - before[1]), after[1] - before[1])
        for before, after in pairwise(times)
    ]
    return min(step[0] for step in steps), min(step[1] for step in steps)


def _peer_epoch(graph: GrowingGraph) -> tuple[float, float]:
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.losses import MarginRankingLoss
    from pykeen.models import TransE
    from pykeen.training import SLCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    config, first = paper_config(), graph.snapshots[0]

    def plain_ids(facts: object) -> torch.Tensor:
        ids = torch.as_tensor(facts).long()
        return torch.stack([ids[:, 0], ids[:, 1] // 2, ids[:, 2]], dim=1)

    training = CoreTriplesFactory(
        mapped_triples=plain_ids(first.train),
        num_entities=first.num_entities,
        num_relations=first.num_relations,
        create_inverse_triples=True,
    )
    model = TransE(
        triples_factory=training,
        embedding_dim=config.model.dim,
        scoring_fct_norm=1,
        loss=MarginRankingLoss(margin=config.training.margin),
        random_seed=config.training.seed,
    )
    loop = SLCWATrainingLoop(
        model=model,
        triples_factory=training,
        optimizer=torch.optim.Adam(model.parameters(), lr=config.training.learning_rate),
        negative_sampler_kwargs={"num_negs_per_pos": config.training.negatives},
    )

    def train() -> None:
        loop.train(training, num_epochs=1, batch_size=config.training.batch_size, use_tqdm=False)

    def validate() -> None:
        RankBasedEvaluator(filtered=True).evaluate(
            model,
            plain_ids(first.valid),
            additional_filter_triples=[training.mapped_triples],
            batch_size=256,
            use_tqdm=False,
        )

    train()
    return min(once(train) for _ in range(EPOCHS)), once(validate)
