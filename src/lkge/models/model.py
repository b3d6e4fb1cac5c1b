"""The model in training: parameters, score, loss, backend, and how rows are drawn."""

import math

import numpy as np
import torch

from lkge.backends import Backend, backend_for, loss_for
from lkge.config import RunConfig
from lkge.data.snapshots import Snapshot
from lkge.models.losses import PerFactLoss, n3_by_degree
from lkge.models.parameters import Parameters, no_parameters
from lkge.models.scores import Score, score_of

(
    INITIALISE, TRAIN, REMEMBER, REPLAY, INFORM, ATTEND, ENCODE, NEIGHBOURS,
    HOLD_OUT, SUBGRAPH, EVALUATE, REPLAY_STEP, PSEUDO_QUERIES, REPLAYED_FACTS,
    REPLAY_MODEL, VALIDATE, HISTORY, RANK, PARTITION,
) = range(19)  # fmt: skip
"""What a stream of random numbers is for; each purpose has its own."""


def stream(seed: int, *purpose: int) -> np.random.Generator:
    """The random numbers of a run for one purpose. Nothing of it needs to be saved: the same
    arguments give the same numbers."""
    return np.random.default_rng([seed, *purpose])


def xavier_parameters(
    num_entities: int, num_relations: int, dim: int, generator: np.random.Generator
) -> Parameters:
    """Rows from N(0, 2 / (rows + d)) for each table, as Xavier's rule has it; relations with
    their inverses."""

    entity = xavier_rows(num_entities, num_entities, dim, generator)
    relations = 2 * num_relations
    return Parameters(entity, xavier_rows(relations, relations, dim, generator))


def xavier_rows(rows: int, of: int, dim: int, generator: np.random.Generator) -> torch.Tensor:
    """Some rows of a table that has `of` rows."""
    deviation = np.float32(math.sqrt(2 / (of + dim)))
    values = generator.standard_normal((rows, dim), dtype=np.float32)
    return torch.from_numpy(values * deviation)


class Model:
    """Parameters that grow, and the settings that shape them."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.score: Score = score_of(config)
        self.backend: Backend = backend_for(config.training.backend, config.training.device)
        self.loss: PerFactLoss = loss_for(config, self.score, self.backend)
        self.tables = no_parameters(config.model.dim, config.training.device)

    @property
    def negatives(self) -> int:
        """The negatives that the loss wants for each fact."""
        return 0 if self.config.training.loss == "softmax" else self.config.training.negatives

    def drawn(self, snapshot: Snapshot) -> Parameters:
        """Random tables with a row for everything that exists in `snapshot`."""
        generator = stream(self.config.training.seed, INITIALISE, snapshot.index)
        return xavier_parameters(
            snapshot.num_entities, snapshot.num_relations, self.config.model.dim, generator
        ).to(self.config.training.device)

    def grow(self, snapshot: Snapshot) -> None:
        """Keep all rows and draw the missing ones."""
        self.tables = self.tables.grown_to(self.drawn(snapshot))

    def expect(self, facts: float) -> None:
        """Adapt `n3` to the mean number of facts of an entity, if the settings say so."""
        if self.config.training.n3_by_degree:
            n3 = n3_by_degree(self.config.training, facts)
            config = self.config.with_changes({"n3": n3})
            self.loss = loss_for(config, self.score, self.backend)

    def restart(self, snapshot: Snapshot) -> None:
        """Draw all rows anew."""
        self.tables = self.drawn(snapshot)
