"""How rows are drawn, and that growth leaves the old ones alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lkge.backends import backend_for
from lkge.backends.numba.backend import NumbaBackend
from lkge.backends.torch_backend import TorchBackend
from lkge.data.snapshots import Snapshot, no_facts
from lkge.errors import SettingsError, UnknownName
from lkge.models.model import INITIALISE, TRAIN, Model, stream, xavier_parameters
from lkge.testing import paper_config

SETTINGS = paper_config(dim=8, seed=3)


def snapshot(index: int, entities: int, relations: int) -> Snapshot:
    return Snapshot(index, no_facts(), no_facts(), no_facts(), entities, relations)


def test_a_model_starts_without_rows() -> None:
    assert [tuple(table.shape) for table in Model(SETTINGS).tables] == [(0, 8), (0, 8)]


def test_relations_have_rows_for_their_inverses() -> None:
    model = Model(SETTINGS)
    model.grow(snapshot(0, 5, 3))
    assert [tuple(table.shape) for table in model.tables] == [(5, 8), (6, 8)]


def test_growth_keeps_old_rows_and_draws_the_new_ones() -> None:
    model = Model(SETTINGS)
    model.grow(snapshot(0, 5, 3))
    before, then = model.tables.clone(), snapshot(1, 9, 4)
    model.grow(then)
    assert torch.equal(model.tables.entity[:5], before.entity)
    assert torch.equal(model.tables.relation[:6], before.relation)
    assert torch.equal(model.tables.entity[5:], model.drawn(then).entity[5:])
    assert len(model.tables.relation) == 8


def test_growth_by_nothing_changes_nothing() -> None:
    model = Model(SETTINGS)
    model.grow(snapshot(0, 5, 3))
    before = model.tables.clone()
    model.grow(snapshot(1, 5, 3))
    assert torch.equal(model.tables.entity, before.entity)
    assert torch.equal(model.tables.relation, before.relation)


def test_a_restart_replaces_every_row() -> None:
    model = Model(SETTINGS)
    model.grow(snapshot(0, 5, 3))
    before = model.tables.clone()
    model.restart(snapshot(1, 6, 3))
    assert len(model.tables.entity) == 6
    assert not (model.tables.entity[:5] == before.entity).any()


def test_draws_follow_seed_and_snapshot() -> None:
    def drawn(seed: int, index: int) -> bytes:
        model = Model(paper_config(dim=8, seed=seed))
        return model.drawn(snapshot(index, 5, 3)).entity.numpy().tobytes()

    assert drawn(1, 0) == drawn(1, 0)
    assert len({drawn(1, 0), drawn(2, 0), drawn(1, 1)}) == 3


def test_rows_have_the_deviation_of_xavier() -> None:
    tables = xavier_parameters(4000, 300, 100, np.random.default_rng(0))
    assert tables.entity.std().item() == pytest.approx(math.sqrt(2 / 4100), rel=0.01)
    assert tables.relation.std().item() == pytest.approx(math.sqrt(2 / 700), rel=0.02)
    assert tables.entity.mean().item() == pytest.approx(0, abs=1e-3)
    assert tables.entity.dtype == torch.float32


def test_each_purpose_has_its_own_numbers() -> None:
    firsts = {stream(1, *purpose).random() for purpose in [(INITIALISE, 0), (TRAIN, 0), (TRAIN, 1)]}
    assert len(firsts) == 3
    assert stream(5, TRAIN, 2, 3).random() == stream(5, TRAIN, 2, 3).random()


@pytest.mark.parametrize(
    ("backend", "device", "kind"),
    [
        ("auto", "cpu", NumbaBackend),
        ("numba", "cpu", NumbaBackend),
        ("torch", "cpu", TorchBackend),
    ],
)
def test_kernels_serve_the_cpu_unless_torch_is_wanted(
    backend: str, device: str, kind: type
) -> None:
    assert type(backend_for(backend, device)) is kind


def test_kernels_on_another_device_are_refused() -> None:
    with pytest.raises(SettingsError, match="backend = 'torch'"):
        backend_for("numba", "cuda")


@pytest.mark.parametrize("device", ["cuda", "meta", "nonsense"])
def test_a_device_that_is_not_there_is_refused_with_a_remedy(device: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(SettingsError, match=f"{device}.*--device cpu") as refused:
        Model(paper_config(device=device))
    assert "\n" not in str(refused.value)


def test_an_unknown_score_is_refused() -> None:
    with pytest.raises(UnknownName):
        Model(paper_config(score="no such score"))
