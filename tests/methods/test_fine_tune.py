"""Fine-tune inherits all rows and trains on the new facts."""

from __future__ import annotations

import torch
from tests.methods.hand_made import FIRST, SECOND

from lkge.methods.baselines import FineTune
from lkge.models.model import Model
from lkge.testing import paper_config


def test_old_rows_are_inherited_and_new_ones_drawn() -> None:
    config = paper_config(dim=4)
    method, model = FineTune(config), Model(config)
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
