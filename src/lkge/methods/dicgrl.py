"""DiCGRL: vectors in components, and replay of what new facts concern (Kou et al., 2020)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from lkge.config import RunConfig, setting
from lkge.data.snapshots import Facts, Snapshot, with_inverses
from lkge.errors import SettingsError
from lkge.methods.base import register
from lkge.methods.memory import MemoryMethod
from lkge.methods.parts.components import (
    ATTENTION,
    DividedEncoder,
    DividedMargin,
    Division,
)
from lkge.models.losses import Loss
from lkge.models.model import ATTEND, Model, stream
from lkge.models.parameters import host
from lkge.models.predictor import Predictor, RelationPredictor
from lkge.models.scores import score_of


@register
class Dicgrl(MemoryMethod):
    """A relation uses the `active_components` of its `components` that it attends to most.

    Only components in use have a gradient; the others of a row stay as they are, bit for bit. With
    a single component there is nothing to attend to, and it is EMR on related facts.
    """

    name: ClassVar[str] = "dicgrl"
    summary: ClassVar[str] = "vectors in components; replay old facts that share them"

    class Config(MemoryMethod.Config):
        """The settings of DiCGRL."""

        also_uses: ClassVar[frozenset[str]] = frozenset({"negatives", "margin"})
        components: int = setting(8, "Parts that an entity's vector is divided into.", ge=1)
        active_components: int = setting(
            4, "How many of them a relation uses.", ge=1, grid=(2, 4, 8)
        )

    config: Config

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        reals = score_of(run).reals
        self.division = Division(self.config.components, self.config.active_components, reals)
        if run.model.dim % (reals * self.config.components):
            raise SettingsError(
                f"dicgrl divides dim = {run.model.dim} into components = {self.config.components}: "
                f"choose a dim that is a multiple of {reals * self.config.components}, or others"
            )
        if self.config.active_components > self.config.components:
            raise SettingsError(
                f"active_components = {self.config.active_components} is out of range: "
                f"there are components = {self.config.components}"
            )
        self._masks = np.empty(0, dtype=np.int64)

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Draw the attention of new relations."""
        super().grow(model, snapshot)
        known = model.tables.extra.get(ATTENTION, torch.empty(0, self.division.components))
        generator = stream(self.run.training.seed, ATTEND, snapshot.index)
        shape = (2 * snapshot.num_relations, self.division.components)
        drawn = torch.from_numpy(generator.standard_normal(shape, dtype=np.float32))
        model.tables.extra = {
            ATTENTION: torch.cat([known, drawn[len(known) :].to(known.device)]).to(
                self.run.training.device
            )
        }

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Fix which components each relation uses, to find related facts."""
        chosen, _ = self.division.top(model.tables.extra[ATTENTION])
        self._masks = host((1 << chosen).sum(-1))

    def facts(self, snapshot: Snapshot) -> Facts:
        """D_i and the remembered facts that it concerns."""
        related = concerned(self.memory.facts, snapshot.train, self._masks, snapshot.num_entities)
        return np.concatenate([snapshot.train, self.memory.facts[related]])

    def loss(self, model: Model) -> Loss:
        """The margin loss on what relations see."""
        if self.division.components == 1:
            return model.loss
        return DividedMargin(self.division, model.score, self.run.training.margin)

    def negatives(self, model: Model) -> int:
        """The margin loss needs some."""
        return model.negatives if self.division.components == 1 else self.run.training.negatives

    def predictor(self, model: Model) -> Predictor:
        """Every relation ranks entities as it sees them."""
        if self.division.components == 1:
            return super().predictor(model)
        encoder = DividedEncoder.of(self.division, model.tables, model.score, model.backend)
        return RelationPredictor(encoder)


def concerned(
    memory: Facts, new: Facts, masks: NDArray[np.int64], num_entities: int
) -> NDArray[np.bool_]:
    """Which remembered facts share an entity with a new fact, and with it a component, (k,).

    `masks` (2m,) has a bit for each component that a relation uses.
    """
    in_use = np.zeros(num_entities, dtype=np.int64)
    edges = with_inverses(new)
    np.bitwise_or.at(in_use, edges[:, 0], masks[edges[:, 1]])
    shared = in_use[memory[:, [0, 2]]] & masks[memory[:, 1]][:, None]
    return np.asarray(shared.any(axis=1))
