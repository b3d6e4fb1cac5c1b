"""Reconstruction row by row. The loss and its gradient are tested with LKGE and with the kernel."""

from __future__ import annotations

import pytest
import torch
from tests.kernels.made import made_tables
from tests.methods import plain_python as paper
from tests.methods.hand_made import FIRST, NEW, PAST, SECOND, as_facts, plain

from lkge.methods.parts.autoencoder import Autoencoder
from lkge.methods.parts.counts import fact_counts, padded
from lkge.models.scores import SCORES, TransE, score_named
from lkge.models.tables import Gradient, Tables, no_tables


def made_autoencoder(old: Tables) -> Autoencoder:
    past = padded(fact_counts(as_facts(PAST), FIRST), fact_counts(as_facts(NEW), SECOND))
    weight = Tables(torch.tensor(0.1), torch.tensor(0.1))
    return Autoencoder(TransE(), as_facts(NEW), old, past, weight, fused=False)


def test_every_row_is_rebuilt_from_its_facts_and_its_past() -> None:
    """Eqs. (5) and (6) with the term of x_{i-1}."""
    tables, old = made_tables(1, 10, 3, 4), made_tables(2, 5, 2, 4)
    mean = made_autoencoder(old).reconstruct(tables)
    case = (plain(tables), plain(old), PAST, NEW)
    for entity in (0, 1, 2, 3, 5, 6, 7, 9):
        expected = paper.rebuilt_entity(entity, *case)
        torch.testing.assert_close(mean.entity[entity], torch.tensor(expected))
    for relation in range(6):
        expected = paper.rebuilt_relation(relation, *case)
        torch.testing.assert_close(mean.relation[relation], torch.tensor(expected))


def test_a_row_without_new_facts_is_rebuilt_as_it_was() -> None:
    tables, old = made_tables(1, 10, 3, 4), made_tables(2, 5, 2, 4)
    mean = made_autoencoder(old).reconstruct(tables)
    torch.testing.assert_close(mean.entity[3], old.entity[3])
    torch.testing.assert_close(mean.relation[2], old.relation[2])


def test_a_row_without_any_fact_has_no_reconstruction() -> None:
    mean = made_autoencoder(made_tables(2, 5, 2, 4)).reconstruct(made_tables(1, 10, 3, 4))
    assert not mean.entity[[4, 8]].any()


def test_the_past_has_its_weight() -> None:
    """Entity 5 has no past and follows its neighbours; entity 2 has three old facts and one new."""
    tables = Tables(torch.ones(10, 1), torch.zeros(6, 1))
    old = Tables(torch.full((5, 1), 5.0), torch.zeros(4, 1))
    mean = made_autoencoder(old).reconstruct(tables)
    assert mean.entity[5].item() == 1.0
    assert mean.entity[2].item() == (3 * 5.0 + 1.0) / 4


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("name", sorted(SCORES))
def test_a_step_against_its_gradient_brings_rows_nearer_to_their_reconstruction(
    name: str, fused: bool
) -> None:
    facts = as_facts([(0, 0, 1), (1, 2, 2), (2, 0, 3), (3, 2, 0)])
    past = Tables(torch.zeros(4), torch.zeros(4))
    weight = Tables(torch.tensor(0.5), torch.tensor(0.5))
    rebuilt = Autoencoder(score_named(name), facts, no_tables(8), past, weight, fused)
    tables, gradient = made_tables(1, 4, 2, 8), None
    losses = []
    for _ in range(20):
        gradient = Gradient.like(tables)
        losses.append(rebuilt.add_gradient(tables, gradient))
        for table, part in zip(tables, gradient, strict=True):
            table -= 0.02 * part.values
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("name", sorted(SCORES))
@pytest.mark.parametrize("dim", [2, 8, 34])
def test_kernels_and_autograd_agree(name: str, dim: int) -> None:
    tables, old = made_tables(1, 10, 3, dim, scale=1.0), made_tables(2, 5, 2, dim, scale=1.0)
    past = padded(fact_counts(as_facts(PAST), FIRST), fact_counts(as_facts(NEW), SECOND))
    weight = Tables(torch.tensor(0.7), torch.tensor(0.4))
    gradients = []
    for fused in (True, False):
        rebuilt = Autoencoder(score_named(name), as_facts(NEW), old, past, weight, fused)
        gradient = Gradient.like(tables)
        for part in gradient:
            part.values.fill_(0.5)
        gradients.append((rebuilt.add_gradient(tables, gradient), gradient))
    (mine, fused_gradient), (theirs, twin) = gradients
    assert mine == pytest.approx(theirs, rel=1e-5)
    for one, other in zip(fused_gradient, twin, strict=True):
        torch.testing.assert_close(one.values, other.values, rtol=1e-4, atol=1e-5)
        assert torch.equal(one.touched, other.touched)


@pytest.mark.parametrize("name", ["complex", "distmult", "rotate"])
def test_a_row_of_zeros_is_rebuilt_without_dividing_by_its_length(name: str) -> None:
    tables = made_tables(1, 10, 3, 8).map(torch.zeros_like)
    tables.relation.fill_(1.0)
    past = Tables(torch.zeros(10), torch.zeros(6))
    weight = Tables(torch.tensor(0.7), torch.tensor(0.4))
    rebuilt = Autoencoder(score_named(name), as_facts(NEW), no_tables(8), past, weight, fused=True)
    gradient = Gradient.like(tables)
    rebuilt.add_gradient(tables, gradient)
    assert all(part.values.isfinite().all() for part in gradient)


@pytest.mark.parametrize("name", ["rotate", "transe", "transe-l2"])
def test_a_perfect_fact_has_nothing_to_rebuild(name: str) -> None:
    score = score_named(name)
    tables = made_tables(1, 2, 1, 8)
    forward = score.prepare_relations(tables.relation[0])
    tables.entity[1] = score.compose(tables.entity[0], forward)
    tables.relation[0] = forward
    tables.relation[1] = score.relate(tables.entity[1], tables.entity[0])
    past = Tables(torch.zeros(2), torch.zeros(2))
    weight = Tables(torch.tensor(1.0), torch.tensor(1.0))
    rebuilt = Autoencoder(score, as_facts([(0, 0, 1)]), no_tables(8), past, weight, fused=False)
    assert rebuilt.add_gradient(tables, Gradient.like(tables)) == pytest.approx(0, abs=1e-10)
