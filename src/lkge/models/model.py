"""The model while it learns: its tables, its score, its loss, and how its rows are drawn."""

from __future__ import annotations

import math

import numpy as np
import torch

from lkge.config import RunConfig
from lkge.data.snapshots import Snapshot
from lkge.errors import SettingsError
from lkge.models.objectives import FactwiseObjective, negatives_of, objective_of
from lkge.models.objectives.rows import fitted
from lkge.models.scores import Score, score_of
from lkge.models.tables import Tables, no_tables

(
    INITIALISE, TRAIN, REMEMBER, REPLAY, INFORM, ATTEND, ENCODE, NEIGHBOURS,
    HOLD_OUT, POOL, EXAMINE, ASK, RECOLLECT, RETELL, HEART, VALIDATE,
) = range(16)  # fmt: skip
"""What a stream of random numbers is for; each purpose has its own."""


def stream(seed: int, *purpose: int) -> np.random.Generator:
    """The random numbers of a run for one purpose. Nothing of it needs to be saved: the same
    arguments give the same numbers."""
    return np.random.default_rng([seed, *purpose])


def xavier_tables(
    num_entities: int, num_relations: int, dim: int, generator: np.random.Generator
) -> Tables:
    """Rows from N(0, 2 / (rows + d)) for each table, as Xavier's rule has it; relations with
    their inverses."""

    def draw(rows: int) -> torch.Tensor:
        deviation = np.float32(math.sqrt(2 / (rows + dim)))
        values = generator.standard_normal((rows, dim), dtype=np.float32)
        return torch.from_numpy(values * deviation)

    return Tables(draw(num_entities), draw(2 * num_relations))


class Model:
    """Tables that grow, and the settings that shape them."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.score: Score = score_of(config)
        self.fused = uses_kernels(config)
        self.objective: FactwiseObjective = objective_of(config, self.score, self.fused)
        self.tables = no_tables(config.model.dim, config.training.device)

    @property
    def negatives(self) -> int:
        """The corruptions that the objective wants for each fact."""
        return negatives_of(self.config)

    def drawn(self, snapshot: Snapshot) -> Tables:
        """Random tables with a row for everything that exists in `snapshot`."""
        generator = stream(self.config.training.seed, INITIALISE, snapshot.index)
        return xavier_tables(
            snapshot.num_entities, snapshot.num_relations, self.config.model.dim, generator
        ).to(self.config.training.device)

    def grow(self, snapshot: Snapshot) -> None:
        """Keep all rows and draw the missing ones."""
        self.tables = self.tables.grown_to(self.drawn(snapshot))

    def expect(self, facts: float) -> None:
        """Go on with so many facts of an entity in the mean: few of them ask for more `n3`."""
        if self.config.training.n3_by_degree:
            n3 = fitted(self.config.training.n3, facts)
            config = self.config.with_changes({"n3": n3})
            self.objective = objective_of(config, self.score, self.fused)

    def restart(self, snapshot: Snapshot) -> None:
        """Draw all rows anew."""
        self.tables = self.drawn(snapshot)


def uses_kernels(config: RunConfig) -> bool:
    """Whether the fused CPU kernels serve these settings."""
    on_cpu = config.training.device == "cpu"
    if config.training.backend == "numba" and not on_cpu:
        raise SettingsError("backend = 'numba' needs device = 'cpu'; use backend = 'torch'")
    return on_cpu and config.training.backend != "torch"
