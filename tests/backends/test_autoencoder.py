"""Reconstruction row by row. The loss and its gradient are tested with LKGE and with the kernel."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from tests.backends.made import BACKENDS, NUMBA, TORCH, built, made_tables
from tests.methods import plain_python as paper
from tests.methods.hand_made import FIRST, NEW, PAST, SECOND, as_facts, plain

from lkge.backends import Backend
from lkge.backends.torch_autoencoder import Autoencoder
from lkge.methods.counts import fact_counts, padded
from lkge.models.parameters import Gradient, Parameters, no_parameters
from lkge.models.scores import SCORES, TransE, score_named


def made_autoencoder(old: Parameters) -> Autoencoder:
    past = padded(fact_counts(as_facts(PAST), FIRST), fact_counts(as_facts(NEW), SECOND))
    weight = Parameters(torch.tensor(0.1), torch.tensor(0.1))
    return Autoencoder(TransE(), as_facts(NEW), old, past, weight)


class Rebuilt(NamedTuple):
    entity: dict[int, torch.Tensor]
    relation: dict[int, torch.Tensor]


def reconstructed(autoencoder: Autoencoder, tables: Parameters) -> Rebuilt:
    """The reconstruction of each member."""
    rows = autoencoder.reconstruct(tables.map(lambda t, own: t[own], autoencoder.members))
    return Rebuilt(
        *(
            dict(zip(members.tolist(), mean, strict=True))
            for members, mean in zip(autoencoder.members, rows, strict=True)
        )
    )


def test_every_row_is_rebuilt_from_its_facts_and_its_past() -> None:
    """Eqs. (5) and (6) with the term of x_{i-1}."""
    tables, old = made_tables(1, 10, 3, 4), made_tables(2, 5, 2, 4)
    mean = reconstructed(made_autoencoder(old), tables)
    case = (plain(tables), plain(old), PAST, NEW)
    for entity, row in mean.entity.items():
        torch.testing.assert_close(row, torch.tensor(paper.rebuilt_entity(entity, *case)))
    for relation, row in mean.relation.items():
        torch.testing.assert_close(row, torch.tensor(paper.rebuilt_relation(relation, *case)))
    assert sorted(mean.entity) == sorted({x for s, _, o in NEW for x in (s, o)})


def test_the_past_has_its_weight() -> None:
    """Entity 5 has no past and follows its neighbours; entity 2 has three old facts and one new."""
    tables = Parameters(torch.ones(10, 1), torch.zeros(6, 1))
    old = Parameters(torch.full((5, 1), 5.0), torch.zeros(4, 1))
    mean = reconstructed(made_autoencoder(old), tables)
    assert mean.entity[5].item() == 1.0
    assert mean.entity[2].item() == (3 * 5.0 + 1.0) / 4


@BACKENDS
@pytest.mark.parametrize("name", sorted(SCORES))
def test_a_step_against_its_gradient_brings_rows_nearer_to_their_reconstruction(
    name: str, backend: Backend
) -> None:
    facts = as_facts([(0, 0, 1), (1, 2, 2), (2, 0, 3), (3, 2, 0)])
    past = Parameters(torch.zeros(4), torch.zeros(4))
    weight = Parameters(torch.tensor(0.5), torch.tensor(0.5))
    rebuilt = built(
        "autoencoder", backend, score_named(name), facts, no_parameters(8), past, weight
    )
    tables, gradient = made_tables(1, 4, 2, 8), None
    losses = []
    for _ in range(20):
        gradient = Gradient.like(tables)
        losses.append(rebuilt.add_gradient(tables, gradient))
        for table, part in zip(tables, gradient, strict=True):
            table -= 0.02 * part.values
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("name", ["transe", "transe-l2"])
@pytest.mark.parametrize("dim", [2, 8, 34])
def test_kernels_and_autograd_agree(name: str, dim: int) -> None:
    tables, old = made_tables(1, 10, 3, dim, scale=1.0), made_tables(2, 5, 2, dim, scale=1.0)
    past = padded(fact_counts(as_facts(PAST), FIRST), fact_counts(as_facts(NEW), SECOND))
    weight = Parameters(torch.tensor(0.7), torch.tensor(0.4))
    gradients = []
    for backend in (NUMBA, TORCH):
        rebuilt = built("autoencoder", backend, score_named(name), as_facts(NEW), old, past, weight)
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
    past = Parameters(torch.zeros(10), torch.zeros(6))
    weight = Parameters(torch.tensor(0.7), torch.tensor(0.4))
    rebuilt = Autoencoder(score_named(name), as_facts(NEW), no_parameters(8), past, weight)
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
    past = Parameters(torch.zeros(2), torch.zeros(2))
    weight = Parameters(torch.tensor(1.0), torch.tensor(1.0))
    rebuilt = Autoencoder(score, as_facts([(0, 0, 1)]), no_parameters(8), past, weight)
    assert rebuilt.add_gradient(tables, Gradient.like(tables)) == pytest.approx(0, abs=1e-10)
