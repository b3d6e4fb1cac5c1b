"""A graph of three snapshots for systems that learn from the first alone, and what they owe.

Entities 0 to 4 are there first, 5 to 9 come second and 10 third. Relations 0 and 2 are trained; 4
is seen in validation alone, and 6 comes second.

4  seen in validation alone            5  has old neighbours
8  new, seen in validation alone       6  is reached through 5, and 7 through 6
9  new, its one fact has relation 6   10  is reached through 7
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from tests.backends.made import made_batch
from tests.methods.hand_made import as_facts, moved
from tests.methods.plain_python import Table

from lkge.config import RunConfig
from lkge.data.batches import Batch
from lkge.data.snapshots import Snapshot, no_facts
from lkge.methods import method_named
from lkge.methods.inductive import Inductive
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.testing import paper_config

PAST = [(0, 0, 1), (1, 0, 2), (0, 2, 2), (2, 0, 3), (3, 2, 3), (1, 2, 0), (3, 0, 0)]
SECOND = [(5, 0, 1), (2, 2, 5), (5, 6, 3), (6, 0, 5), (7, 2, 6), (6, 2, 7), (9, 6, 1), (0, 0, 3)]
THIRD = [(10, 0, 7), (10, 4, 0), (8, 0, 1)]
FACTS_OF_NEW = {
    5: {(0, 1), (3, 2)},
    6: {(0, 5)},
    7: {(2, 6), (3, 6)},
}
"""The neighbours that each new entity is encoded from."""
SNAPSHOTS = (
    Snapshot(0, as_facts(PAST), as_facts([(1, 4, 4)]), no_facts(), 5, 3),
    Snapshot(1, as_facts(SECOND), as_facts([(8, 0, 2)]), no_facts(), 10, 4),
    Snapshot(2, as_facts(THIRD), no_facts(), no_facts(), 11, 4),
)


def small_config(name: str, **changes: object) -> RunConfig:
    """The config of a method for this graph."""
    config = paper_config(
        method=name, dim=6, margin=2.0, batch_size=8, negatives=3, learning_rate=0.01
    )
    return config.with_changes(changes)


def begun(name: str, **changes: object) -> tuple[Inductive, Model]:
    """Before its first step, with rows that are not as small as drawn ones."""
    config = small_config(name, **changes)
    method, model = method_named(name)(config), Model(config)
    assert isinstance(method, Inductive)
    method.grow(model, SNAPSHOTS[0])
    method.begin(model, SNAPSHOTS[0])
    model.tables = moved(model.tables, 1)
    return method, model


def course(name: str, **changes: object) -> Iterator[tuple[Inductive, Model]]:
    """After each snapshot; the first has made learning in place of steps."""
    method, model = begun(name, **changes)
    method.end(model, SNAPSHOTS[0])
    yield method, model
    for snapshot in SNAPSHOTS[1:]:
        method.grow(model, snapshot)
        method.begin(model, snapshot)
        method.end(model, snapshot)
        yield method, model


def as_lists(tables: Parameters) -> dict[str, Table]:
    """All tables by name."""
    named = {"entity": tables.entity, "relation": tables.relation, **tables.extra}
    return {name: table.tolist() for name, table in named.items()}


def some_batch(entities: int = 4) -> Batch:
    """Facts over the trained relations and the first so many entities."""
    return made_batch(5, 6, 3, entities, 2)


def assert_differences(
    tables: Parameters, gradient: Gradient, loss: Callable[[dict[str, Table]], float]
) -> None:
    """The gradient is what central differences of a plain loss are, at some places of each row."""
    step = 1e-6
    values = {"entity": gradient.entity, "relation": gradient.relation, **gradient.extra}
    rows = as_lists(tables)
    for name, part in values.items():
        for k, row in enumerate(rows[name]):
            i, before = k % len(row), row[k % len(row)]
            losses = []
            for row[i] in (before + step, before - step):
                losses.append(loss(rows))
            row[i] = before
            expected = (losses[0] - losses[1]) / (2 * step)
            assert float(part.values[k, i]) == pytest.approx(expected, rel=1e-4, abs=1e-7), name
        assert part.values.any(), name


def exact(tables: Parameters) -> Parameters:
    """The tables in double precision."""
    return tables.map(lambda table: table.to(torch.float64))
