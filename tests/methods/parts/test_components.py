"""What a relation sees of an entity, and the loss on it, against plain Python."""

from __future__ import annotations

import math

import numba
import pytest
import torch
from hypothesis import config, given
from hypothesis import strategies as st
from tests.backends.made import BACKENDS, TORCH, bytes_of, gradient_of, made_batch, made_tables
from torch import Tensor

from lkge.backends import Backend
from lkge.methods.dicgrl import (
    ATTENTION,
    DividedEncoder,
    DividedMargin,
    Division,
    FusedDividedMargin,
)
from lkge.models.parameters import Parameters
from lkge.models.scores import ComplEx, TransE, score_named

DIVISION = Division(components=4, active=2)
Kind = type[DividedMargin] | type[FusedDividedMargin]
KINDS = pytest.mark.parametrize("kind", [DividedMargin, FusedDividedMargin])


def made(seed: int = 0) -> Parameters:
    tables = made_tables(seed, 9, 3, 8)
    generator = torch.Generator().manual_seed(seed)
    tables.extra = {ATTENTION: torch.randn(6, 4, generator=generator)}
    return tables


def unit(row: list[float]) -> list[float]:
    norm = math.sqrt(sum(x * x for x in row))
    return [x / norm for x in row]


def alphas(attention: list[float]) -> list[float]:
    total = sum(math.exp(a) for a in attention)
    return [math.exp(a) / total for a in attention]


def top(attention: list[float]) -> list[int]:
    return sorted(sorted(range(4), key=lambda k: -attention[k])[:2])


def distance(tables: Parameters, s: int, r: int, o: int) -> float:
    """‖ŝ_r + r̂ - ô_r‖₁ with what r sees of s and o."""
    attention = tables.extra[ATTENTION][r].tolist()
    weights, chosen = alphas(attention), top(attention)

    def parts(row: Tensor, weighted: bool) -> list[float]:
        return [
            row[2 * k + i].item() * (weights[k] if weighted else 1) for k in chosen for i in (0, 1)
        ]

    head, tail = (unit(parts(tables.entity[e], True)) for e in (s, o))
    translation = unit(parts(tables.relation[r], False))
    return sum(abs(a + b - c) for a, b, c in zip(head, translation, tail, strict=True))


@KINDS
def test_the_loss_is_margin_on_what_is_seen_and_attention_off_the_top(kind: Kind) -> None:
    tables, batch = made(), made_batch(1, 5, 3, 9, 3)
    losses, spreads = [], []
    for (s, r, o), put_in, on_object in zip(
        batch.facts.tolist(), batch.corruptions.tolist(), batch.corrupt_object.tolist(), strict=True
    ):
        others = [
            distance(tables, *((s, r, e) if side else (e, r, o)))
            for e, side in zip(put_in, on_object, strict=True)
        ]
        losses.append(max(0.0, 8.0 + distance(tables, s, r, o) - sum(others) / 3))
        attention = tables.extra[ATTENTION][r].tolist()
        spreads.append(1 - sum(alphas(attention)[k] for k in top(attention)))
    found, _ = gradient_of(kind(DIVISION, TransE(), 8.0), tables, batch)
    assert found == pytest.approx(sum(losses) / 5 + sum(spreads) / 5, rel=1e-5)


@KINDS
def test_components_out_of_use_have_no_gradient(kind: Kind) -> None:
    tables, batch = made(), made_batch(2, 6, 2, 9, 3)
    _, gradient = gradient_of(kind(DIVISION, TransE(), 8.0), tables, batch)
    for entity in range(9):
        involved = (batch.facts[:, [0, 2]] == entity).any(1) | (batch.corruptions == entity).any(1)
        used = {
            k
            for r in batch.facts[involved, 1].tolist()
            for k in top(tables.extra[ATTENTION][r].tolist())
        }
        for k in set(range(4)) - used:
            assert not gradient.entity.values[entity, 2 * k : 2 * k + 2].any()
    assert gradient.entity.values.any()
    assert gradient.extra[ATTENTION].values.any()


@config(max_examples=25, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    size=st.integers(1, 30),
    negatives=st.integers(1, 5),
    entities=st.integers(1, 20),
    part=st.integers(1, 9),
    score=st.sampled_from(["transe", "complex"]),
)
def test_twins_agree(
    seed: int, size: int, negatives: int, entities: int, part: int, score: str
) -> None:
    base = score_named(score)
    tables = made_tables(seed, entities, 3, 4 * base.reals * part)
    tables.extra = {ATTENTION: torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))}
    batch, division = made_batch(seed, size, negatives, entities, 3), Division(4, 2, base.reals)
    loss, gradient = gradient_of(FusedDividedMargin(division, base, 2.0), tables, batch)
    twin_loss, twin = gradient_of(DividedMargin(division, base, 2.0), tables, batch)
    assert loss == pytest.approx(twin_loss, rel=1e-5, abs=1e-6)
    for mine, other in zip(gradient, twin, strict=True):
        assert torch.equal(mine.touched, other.touched)
        torch.testing.assert_close(mine.values, other.values, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread only")
def test_the_number_of_threads_changes_no_byte_of_the_gradient() -> None:
    tables, batch = made(), made_batch(3, 400, 5, 9, 3)
    before, outcomes = numba.get_num_threads(), []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            outcomes.append(gradient_of(FusedDividedMargin(DIVISION, TransE(), 8.0), tables, batch))
    finally:
        numba.set_num_threads(before)
    assert bytes_of(outcomes[0][1]) == bytes_of(outcomes[1][1])


@BACKENDS
def test_ranking_sees_what_training_sees(backend: Backend) -> None:
    tables = made()
    encoder = DividedEncoder.of(DIVISION, tables, TransE(), backend)
    for r in range(6):
        predictor = encoder.at(r)
        for s, o in ((0, 1), (2, 2), (8, 3)):
            score = TransE().score(predictor.entity[s], predictor.relation[r], predictor.entity[o])
            assert -float(score) == pytest.approx(distance(tables, s, r, o), rel=1e-5)


def test_a_complex_component_has_real_and_imaginary_parts() -> None:
    division = Division(components=3, active=2, reals=2)
    rows = torch.arange(12.0)[None]
    chosen, alphas = torch.tensor([[0, 2]]), torch.tensor([[10.0, 100.0]])
    assert division.seen(rows, chosen).tolist() == [[0, 1, 4, 5, 6, 7, 10, 11]]
    weighted = [[0, 10, 400, 500, 60, 70, 1000, 1100]]
    assert division.weighted(rows, chosen, alphas).tolist() == weighted


def test_what_is_seen_of_complex_rows_scores_as_the_sum_over_chosen_components() -> None:
    """With all components chosen and weight one, everything is seen."""
    score, tables = ComplEx(), made_tables(0, 9, 3, 8)
    tables.extra = {ATTENTION: torch.zeros(6, 4)}
    predictor = DividedEncoder.of(Division(4, 4, reals=2), tables, score, backend=TORCH).at(2)
    seen = score.score(predictor.entity[1], predictor.relation[2], predictor.entity[5])
    whole = score.score(tables.entity[1], tables.relation[2], tables.entity[5])
    torch.testing.assert_close(16 * seen, whole)
