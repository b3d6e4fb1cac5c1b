"""Snapshot starts over and trains on the new facts alone."""

from __future__ import annotations

import torch
from tests.methods.hand_made import FIRST, SECOND

from lkge.methods.baselines import SnapshotOnly
from lkge.models.model import Model
from lkge.testing import paper_config


def test_every_snapshot_starts_over_on_its_own_facts() -> None:
    config = paper_config(dim=4)
    method, model = SnapshotOnly(config), Model(config)
    for snapshot in (FIRST, SECOND):
        method.grow(model, snapshot)
        method.begin(model, snapshot)
        assert torch.equal(model.tables.entity, model.drawn(snapshot).entity)
        assert method.facts(snapshot).tolist() == snapshot.train.tolist()
        method.end(model, snapshot)
    assert method.carried_bytes() == 0


def test_before_it_starts_over_it_answers_with_what_it_has() -> None:
    config = paper_config(dim=4)
    method, model = SnapshotOnly(config), Model(config)
    method.grow(model, FIRST)
    method.begin(model, FIRST)
    old = model.tables.entity + 1
    model.tables.entity = old.clone()
    method.grow(model, SECOND)
    assert torch.equal(model.tables.entity[:5], old)
