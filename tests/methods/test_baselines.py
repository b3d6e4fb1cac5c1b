"""Fine-tune goes on, Snapshot starts over, Re-train starts over on all facts."""

from __future__ import annotations

import torch
from tests.methods.hand_made import FIRST, NEW, PAST, SECOND

from lkge.methods.baselines import FineTune, Retrain, SnapshotOnly
from lkge.models.model import Model
from lkge.testing import paper_config

CONFIG = paper_config(dim=4)


def test_fine_tune_inherits_old_rows_and_draws_new_ones() -> None:
    method, model = FineTune(CONFIG), Model(CONFIG)
    method.grow(model, FIRST)
    old = model.tables.clone()
    method.end(model, FIRST)
    method.grow(model, SECOND)
    method.begin(model, SECOND)
    assert torch.equal(model.tables.entity[:5], old.entity)
    assert torch.equal(model.tables.entity[5:], model.drawn(SECOND).entity[5:])
    assert method.facts(SECOND).tolist() == SECOND.train.tolist()
    assert method.validation(SECOND).tolist() == SECOND.valid.tolist()
    assert method.carried_bytes() == 0


def test_snapshot_starts_over_on_its_own_facts() -> None:
    method, model = SnapshotOnly(CONFIG), Model(CONFIG)
    for snapshot in (FIRST, SECOND):
        method.grow(model, snapshot)
        method.begin(model, snapshot)
        assert torch.equal(model.tables.entity, model.drawn(snapshot).entity)
        assert method.facts(snapshot).tolist() == snapshot.train.tolist()
        method.end(model, snapshot)
    assert method.carried_bytes() == 0


def test_before_snapshot_starts_over_it_answers_with_what_it_has() -> None:
    method, model = SnapshotOnly(CONFIG), Model(CONFIG)
    method.grow(model, FIRST)
    method.begin(model, FIRST)
    old = model.tables.entity + 1
    model.tables.entity = old.clone()
    method.grow(model, SECOND)
    assert torch.equal(model.tables.entity[:5], old)


def learned_first() -> tuple[Retrain, Model]:
    method, model = Retrain(CONFIG), Model(CONFIG)
    method.grow(model, FIRST)
    method.begin(model, FIRST)
    method.end(model, FIRST)
    return method, model


def test_retrain_trains_and_validates_on_all_facts_so_far() -> None:
    method, _ = learned_first()
    assert [tuple(fact) for fact in method.facts(SECOND).tolist()] == PAST + NEW
    assert method.validation(SECOND).tolist() == [[1, 2, 4], [8, 0, 2]]
    assert method.facts(SECOND).dtype == FIRST.train.dtype


def test_what_retrain_keeps_is_declared() -> None:
    method, _ = learned_first()
    assert {name: tuple(kept.shape) for name, kept in method.state().items()} == {
        "train": (5, 3),
        "valid": (1, 3),
    }
    assert method.carried_bytes() == 6 * 3 * 4
    other = Retrain(CONFIG)
    other.load_state(method.state())
    assert other.facts(SECOND).tolist() == method.facts(SECOND).tolist()
    assert other.validation(SECOND).tolist() == method.validation(SECOND).tolist()


def test_retrain_starts_over_for_every_snapshot() -> None:
    method, model = learned_first()
    method.grow(model, SECOND)
    method.begin(model, SECOND)
    assert torch.equal(model.tables.entity, model.drawn(SECOND).entity)
    assert torch.equal(model.tables.relation, model.drawn(SECOND).relation)
