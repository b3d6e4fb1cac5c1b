"""Softmax over all candidates, block by block, and sums by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from lkge.backends.numba import softmax
from lkge.backends.numba.jit import Scratch
from lkge.backends.numba.softmax import score_blocks, softmax_gradient
from lkge.backends.numba.updates import scatter

pytestmark = pytest.mark.usefixtures("one_thread")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("queries", [1, 15, 16, 17, 50])
@pytest.mark.parametrize("candidates", [1, 16, 45])
def test_blocks_are_the_scores_of_all_queries(
    queries: int, candidates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax, "BLOCK_BYTES", 1)
    ours, others = drawn(queries, 6), drawn(candidates, 6, seed=1)
    expected, places = ours @ others.T, list[int]()
    for part, scores in score_blocks(ours, others, Scratch()):
        places += range(queries)[part]
        torch.testing.assert_close(scores, expected[part])
    assert places == list(range(queries))


def test_no_block_is_larger_than_the_cache_allows() -> None:
    sizes = {
        scores.numel() * 4
        for _, scores in score_blocks(drawn(3000, 2), drawn(5000, 2, seed=1), Scratch())
    }
    assert len(sizes) > 1
    assert softmax.BLOCK_BYTES / 2 < max(sizes) <= softmax.BLOCK_BYTES


def test_no_queries_have_no_loss() -> None:
    on_candidates = torch.zeros(5, 3)
    targets = torch.empty(0, dtype=torch.long)
    bounds = torch.zeros(1, dtype=torch.long)
    arrays = drawn(0, 3), drawn(5, 3), bounds, targets, 0.1, 1.0, torch.empty(0, 3), on_candidates
    assert softmax_gradient(*arrays, Scratch()) == 0
    assert not on_candidates.any()


def test_the_same_again_has_the_same_bytes() -> None:
    queries, candidates = drawn(40, 8), drawn(30, 8, seed=1)
    targets, outcomes = torch.arange(40) % 30, set()
    for _ in range(3):
        on_queries, on_candidates = torch.empty(40, 8), torch.zeros(30, 8)
        loss = softmax_gradient(
            queries,
            candidates,
            torch.arange(41),
            targets,
            0.1,
            0.5,
            on_queries,
            on_candidates,
            Scratch(),
        )
        outcomes.add((loss, on_queries.numpy().tobytes(), on_candidates.numpy().tobytes()))
    assert len(outcomes) == 1


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_targets_that_share_a_query_share_its_softmax(
    smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax, "BLOCK_BYTES", 1)
    queries, candidates = drawn(20, 8), drawn(30, 8, seed=1)
    counts = torch.arange(20) % 4
    bounds, numbers = counts.cumsum(0), torch.arange(20).repeat_interleave(counts)
    targets = torch.randperm(30, generator=torch.Generator().manual_seed(2))[: len(numbers)]
    together = torch.empty(20, 8), torch.zeros(30, 8)
    alone = torch.empty(len(numbers), 8), torch.zeros(30, 8)
    loss = softmax_gradient(
        queries, candidates, torch.cat([torch.zeros(1, dtype=torch.long), bounds]), targets,
        smoothing, 0.5, *together, Scratch(),
    )  # fmt: skip
    singly = softmax_gradient(
        queries[numbers], candidates, torch.arange(len(numbers) + 1), targets, smoothing, 0.5,
        *alone, Scratch(),
    )  # fmt: skip
    assert loss == pytest.approx(singly)
    torch.testing.assert_close(together[1], alone[1])
    torch.testing.assert_close(
        together[0], torch.zeros(20, 8).index_add(0, numbers, alone[0]), rtol=1e-5, atol=1e-6
    )


def test_buffers_begin_at_a_line_of_the_cache() -> None:
    scratch = Scratch()
    assert all(scratch.take(str(size), size).ctypes.data % 64 == 0 for size in (1, 7, 1000, 10**6))


def test_rows_that_repeat_sum_up() -> None:
    target, values = drawn(5, 3).numpy(), drawn(6, 3, seed=1).numpy()
    rows = np.array([4, 0, 4, 1, 4, 0], dtype=np.int32)
    expected = target.copy()
    np.add.at(expected, rows, values)
    scatter(target, rows, values)
    np.testing.assert_allclose(target, expected, rtol=1e-6)
