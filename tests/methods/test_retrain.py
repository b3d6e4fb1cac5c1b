"""Re-train keeps every fact and starts over."""

from __future__ import annotations

import torch
from tests.methods.hand_made import FIRST, NEW, PAST, SECOND

from lkge.methods.baselines import Retrain
from lkge.models.model import Model
from lkge.testing import paper_config

SETTINGS = paper_config(dim=4)


def learned_first() -> tuple[Retrain, Model]:
    method, model = Retrain(SETTINGS), Model(SETTINGS)
    method.grow(model, FIRST)
    method.begin(model, FIRST)
    method.end(model, FIRST)
    return method, model


def test_all_facts_so_far_are_trained_and_validated() -> None:
    method, _ = learned_first()
    assert [tuple(fact) for fact in method.facts(SECOND).tolist()] == PAST + NEW
    assert method.validation(SECOND).tolist() == [[1, 2, 4], [8, 0, 2]]
    assert method.facts(SECOND).dtype == FIRST.train.dtype


def test_what_is_kept_is_declared() -> None:
    method, _ = learned_first()
    assert {name: tuple(kept.shape) for name, kept in method.state().items()} == {
        "train": (5, 3),
        "valid": (1, 3),
    }
    assert method.carried_bytes() == 6 * 3 * 4
    other = Retrain(SETTINGS)
    other.load_state(method.state())
    assert other.facts(SECOND).tolist() == method.facts(SECOND).tolist()
    assert other.validation(SECOND).tolist() == method.validation(SECOND).tolist()


def test_every_snapshot_starts_over() -> None:
    method, model = learned_first()
    method.grow(model, SECOND)
    method.begin(model, SECOND)
    assert torch.equal(model.tables.entity, model.drawn(SECOND).entity)
    assert torch.equal(model.tables.relation, model.drawn(SECOND).relation)
