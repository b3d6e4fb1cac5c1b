"""Transitions, segments and attention against loops over lists."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lkge.models import encoders
from lkge.models.encoders import (
    EPSILON,
    Moments,
    additive_attention,
    project,
    ranges,
    segment_means,
    segment_of,
    segment_shares,
    segment_softmax,
    segment_sums,
    standardise,
)

STARTS = torch.tensor([0, 3, 3, 5, 6])
PLACES = torch.tensor([4, 0, 4, 1, 2, 3])
SEGMENTS = [range(3), range(3, 3), range(3, 5), range(5, 6)]


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_a_projection_is_orthogonal_and_leaves_the_rest() -> None:
    rows = made(7, 5)
    directions = torch.nn.functional.normalize(made(7, 5, seed=1), dim=-1)
    projected = project(rows, directions)
    torch.testing.assert_close((projected * directions).sum(-1), torch.zeros(7))
    torch.testing.assert_close(project(projected, directions), projected)
    along = (rows - projected) / directions
    torch.testing.assert_close(along, (rows * directions).sum(-1, keepdim=True).expand(7, 5))


def test_a_zero_direction_projects_nothing_away() -> None:
    assert torch.equal(project(made(2, 3), torch.zeros(2, 3)), made(2, 3))


@pytest.mark.parametrize("given", [False, True], ids=["own moments", "given moments"])
def test_batch_normalisation_by_its_formula(given: bool) -> None:
    rows, scale, shift = made(6, 3), made(3, seed=1), made(3, seed=2)
    other = Moments(made(3, seed=3), made(3, seed=4).square())
    outcome = standardise(rows, other if given else None, scale, shift)
    for i in range(3):
        column = rows[:, i].tolist()
        mean = float(other.mean[i]) if given else sum(column) / 6
        variance = float(other.variance[i]) if given else sum((x - mean) ** 2 for x in column) / 6
        for row, x in enumerate(column):
            expected = (x - mean) / math.sqrt(variance + EPSILON) * scale[i] + shift[i]
            assert float(outcome[row, i]) == pytest.approx(float(expected), rel=1e-4, abs=1e-5)


def test_the_moments_of_rows_normalise_them_alike() -> None:
    rows, scale, shift = made(6, 3), made(3, seed=1), made(3, seed=2)
    alike = standardise(rows, Moments.of(rows), scale, shift)
    torch.testing.assert_close(alike, standardise(rows, None, scale, shift))


def test_no_rows_have_moments_that_change_nothing() -> None:
    moments = Moments.of(torch.empty(0, 2))
    assert moments.mean.tolist() == [0, 0]
    assert moments.variance.tolist() == [1, 1]


def test_ranges_are_the_items_of_the_segments_asked_for() -> None:
    items, starts = ranges(STARTS, torch.tensor([2, 1, 0, 2]))
    assert items.tolist() == [3, 4, 0, 1, 2, 3, 4]
    assert starts.tolist() == [0, 2, 2, 5, 7]
    assert segment_of(STARTS).tolist() == [0, 0, 0, 2, 2, 3]
    nothing, starts = ranges(STARTS, torch.empty(0, dtype=torch.int64))
    assert nothing.tolist() == []
    assert starts.tolist() == [0]


def test_means_and_weighted_sums_of_segments() -> None:
    rows, weights = made(5, 4), made(6, seed=1)
    means = segment_means(rows, PLACES, STARTS)
    sums = segment_sums(rows, PLACES, STARTS, weights)
    for k, segment in enumerate(SEGMENTS):
        mean, total = torch.zeros(4), torch.zeros(4)
        for item in segment:
            mean += rows[PLACES[item]] / len(segment)
            total += weights[item] * rows[PLACES[item]]
        torch.testing.assert_close(means[k], mean)
        torch.testing.assert_close(sums[k], total)


def test_softmax_of_segments_sums_to_one_whatever_the_size_of_its_logits() -> None:
    logits = torch.tensor([1000.0, 999.0, 998.0, -2000.0, -2000.0, 3.0])
    weights = segment_softmax(logits, segment_of(STARTS), 4)
    total = 1 + math.exp(-1) + math.exp(-2)
    expected = [1 / total, math.exp(-1) / total, math.exp(-2) / total, 0.5, 0.5, 1.0]
    torch.testing.assert_close(weights, torch.tensor(expected))


def test_shares_of_a_segment_without_any_value_are_zero() -> None:
    values = torch.tensor([1.0, 3.0, 0.0, 0.0, 0.0, 5.0])
    shares = segment_shares(values, segment_of(STARTS), 4)
    assert shares.tolist() == [0.25, 0.75, 0, 0, 0, 1]


def test_attention_in_chunks_is_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, keys, vector = made(3, 4), made(5, 4, seed=1), made(4, seed=2)
    asked = torch.tensor([0, 0, 2, 1, 1, 2])
    expected = [
        sum(float(vector[i]) * math.tanh(float(queries[a, i] + keys[b, i])) for i in range(4))
        for a, b in zip(asked.tolist(), PLACES.tolist(), strict=True)
    ]
    for size in (encoders.CHUNK, 4, 1):
        monkeypatch.setattr(encoders, "CHUNK", size)
        logits = additive_attention(queries, asked, keys, PLACES, vector)
        torch.testing.assert_close(logits, torch.tensor(expected))
