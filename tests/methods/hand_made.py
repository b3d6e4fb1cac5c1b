"""A graph of two snapshots with every special case, and LKGE set before its second snapshot.

Entities 0 to 4 are old and 5 to 9 new; relations 0 and 2 are old and 4 is new.

3  old, no new facts                    5  new, with old neighbours
4  old, seen in validation alone        6, 7  new, with new neighbours alone
9  new, its one fact has a new relation     8  new, seen in validation alone
2  (relation) unseen in the second snapshot  4  (relation) new, between old entities
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from tests.methods.plain_python import Fact, Rows

from lkge.config import RunConfig
from lkge.data.snapshots import Facts, Snapshot, no_facts
from lkge.methods.lkge import Lkge
from lkge.models.model import Model
from lkge.models.parameters import Parameters

PAST: list[Fact] = [(0, 0, 1), (1, 0, 2), (0, 2, 2), (2, 0, 3), (3, 2, 3)]
NEW: list[Fact] = [
    (0, 0, 5), (5, 0, 1), (1, 0, 0), (6, 0, 7), (0, 4, 2), (1, 4, 0), (9, 4, 1),
]  # fmt: skip


def as_facts(facts: list[Fact]) -> Facts:
    return np.array(facts, dtype=np.int32).reshape(-1, 3)


FIRST = Snapshot(0, as_facts(PAST), as_facts([(1, 2, 4)]), no_facts(), 5, 2)
SECOND = Snapshot(1, as_facts(NEW), as_facts([(8, 0, 2)]), no_facts(), 10, 3)


def plain(tables: Parameters) -> Rows:
    """The tables as lists."""
    return Rows(tables.entity.tolist(), tables.relation.tolist())


def moved(tables: Parameters, seed: int) -> Parameters:
    """The tables after some made learning."""
    generator = torch.Generator().manual_seed(seed)
    return tables.map(lambda table: table + 0.3 * torch.randn(table.shape, generator=generator))


@dataclass
class Scene:
    """LKGE in the middle of its second snapshot: `old` as the first left it, `model` moved on."""

    method: Lkge
    model: Model
    old: Parameters
    grown: Parameters


def second_snapshot(config: RunConfig) -> Scene:
    """Both snapshots begun; the first is ended."""
    method, model = Lkge(config), Model(config)
    method.grow(model, FIRST)
    method.begin(model, FIRST)
    model.tables = moved(model.tables, 1)
    method.end(model, FIRST)
    old = model.tables.clone()
    method.grow(model, SECOND)
    grown = model.tables.clone()
    method.begin(model, SECOND)
    model.tables = moved(model.tables, 2)
    return Scene(method, model, old, grown)
