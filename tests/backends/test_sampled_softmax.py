"""The softmax over a fact and its negatives: kernels against autograd."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from tests.backends.made import bytes_of, gradient_of, made_batch, made_shared_batch, made_tables

from lkge.backends.numba import sampled_softmax as kernel
from lkge.backends.numba.sampled_softmax import FusedSampledSoftmax
from lkge.backends.torch_losses import SampledSoftmaxLoss
from lkge.data.batches import Batch
from lkge.models.parameters import Parameters
from lkge.models.scores import Bilinear, score_named

BILINEAR = ("distmult", "complex")
KINDS = {
    "bare": {},
    "smooth": {"smoothing": 0.1},
    "weighted": {"adversarial": 2.0},
    "both": {"adversarial": 0.5, "smoothing": 0.2},
}

pytestmark = pytest.mark.usefixtures("one_thread")


def products(name: str, kind: str = "bare") -> FusedSampledSoftmax:
    score = score_named(name)
    assert isinstance(score, Bilinear)
    return FusedSampledSoftmax(score, **KINDS[kind])


def require_twin(name: str, kind: str, tables: Parameters, batch: Batch) -> None:
    mine, gradient = gradient_of(products(name, kind), tables, batch)
    plain = SampledSoftmaxLoss(score_named(name), **KINDS[kind])
    theirs, twin = gradient_of(plain, tables, batch)
    assert mine == pytest.approx(theirs, rel=1e-5)
    for one, other in zip(gradient, twin, strict=True):
        torch.testing.assert_close(one.values, other.values, rtol=1e-4, atol=1e-6)
        assert torch.equal(one.touched, other.touched)


@pytest.mark.parametrize("name", BILINEAR)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sharing", [1, 2, 5, 7, 20, 50])
@pytest.mark.parametrize("block_bytes", [1, 600, 4 << 20], ids=["groups", "few", "all at once"])
def test_products_and_autograd_agree(
    name: str, kind: str, sharing: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole groups, a last one that is smaller, a batch that is smaller than one; of so few
    entities that one is drawn twice, and others are the object or the subject of a fact."""
    monkeypatch.setattr(kernel, "BLOCK_BYTES", block_bytes)
    made = made_batch if sharing == 1 else partial(made_shared_batch, sharing=sharing)
    batch = made(2, 20, 4, 9, 2)
    require_twin(name, kind, made_tables(1, 9, 2, 8, scale=1.0), batch)


@pytest.mark.parametrize("kind", KINDS)
def test_untouched_rows_stay_so(kind: str) -> None:
    tables, batch = made_tables(1, 400, 9, 34), made_shared_batch(2, 30, 5, 400, 9, 8)
    require_twin("complex", kind, tables, batch)
    _, gradient = gradient_of(products("complex", kind), tables, batch)
    assert not gradient.entity.touched.all()
    assert not gradient.entity.values[gradient.entity.touched == 0].any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_corruption_that_is_the_fact_itself(kind: str) -> None:
    """Twice the object of every fact, and its subject."""
    facts = np.array([(0, 0, 1), (2, 1, 1), (3, 2, 1)], dtype=np.int32)
    corruptions = np.tile(np.array([1, 0, 1], dtype=np.int32), (3, 1))
    batch = Batch(facts, corruptions, np.ones((3, 3), np.bool_), 3)
    require_twin("complex", kind, made_tables(1, 6, 2, 4, scale=1.0), batch)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_any_size_give_finite_numbers(kind: str) -> None:
    tables, batch = made_tables(1, 9, 2, 8, scale=30.0), made_shared_batch(2, 20, 4, 9, 2, 6)
    loss, gradient = gradient_of(products("complex", kind), tables, batch)
    assert 1e3 < loss < float("inf")
    assert all(torch.isfinite(part.values).all() for part in gradient)


def test_the_gradient_is_added_to_what_is_there() -> None:
    tables, batch = made_tables(1, 9, 2, 8), made_shared_batch(2, 20, 4, 9, 2, 6)
    objective = products("complex")
    _, once = gradient_of(objective, tables, batch)
    _, twice = gradient_of(objective, tables, batch)
    objective.add_gradient(tables, batch, twice)
    for one, two in zip(once, twice, strict=True):
        torch.testing.assert_close(2 * one.values, two.values)


def test_squares_are_those_of_facts_alone() -> None:
    tables, batch = made_tables(1, 9, 2, 8, scale=1.0), made_shared_batch(2, 20, 4, 9, 2, 6)
    mine, theirs = tables.map(torch.zeros_like), tables.map(torch.zeros_like)
    products("complex").add_squares(tables, batch, mine)
    for one in batch.singly():
        products("complex").add_squares(tables, one, theirs)
    for found, expected in zip(mine, theirs, strict=True):
        assert expected.any()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_the_same_batch_gives_the_same_bytes() -> None:
    """With buffers that are new, and with those that another batch has left."""
    tables, batch = made_tables(1, 300, 2, 64), made_shared_batch(2, 230, 32, 300, 2, 25)
    objective = products("complex")
    _, once = gradient_of(objective, tables, batch)
    gradient_of(objective, tables, made_shared_batch(3, 310, 40, 300, 2, 50))
    _, again = gradient_of(objective, tables, batch)
    assert bytes_of(once) == bytes_of(again)
