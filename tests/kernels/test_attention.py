"""The fused attention against its plain twin."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch
from hypothesis import config, given
from hypothesis import strategies as st
from tests.kernels.made import made_facts, made_tables
from torch import Tensor

from lkge.data.snapshots import with_inverses
from lkge.kernels.scratch import Scratch
from lkge.methods.parts.attention import Attends, Attention, Logic
from lkge.methods.parts.fused_attention import FusedAttention
from lkge.methods.parts.inductive import xavier
from lkge.methods.parts.logic import discounts, implications
from lkge.methods.parts.neighbours import Neighbourhoods
from lkge.models.scores import TransE
from lkge.models.tables import Tables

RELATIONS = 3


class Case:
    """A graph, tables, and asks, from a seed; some entities may have no neighbour."""

    def __init__(self, seed: int, facts: int, entities: int, dim: int, scale: float = 1.0) -> None:
        generator = np.random.default_rng(seed)
        edges = with_inverses(made_facts(seed, facts, entities, RELATIONS))
        self.near = Neighbourhoods.sampled(edges, entities, 8, generator)
        implies = implications(edges[: facts // 2], 2 * RELATIONS)
        self.logic = Logic(implies, discounts(self.near, implies))
        self.tables = made_tables(seed, entities, RELATIONS, dim)
        shapes = {"transition": 6, "query": 6, "from_query": 5, "from_neighbour": 5}
        self.tables.extra = {name: xavier(k, dim, generator) for name, k in shapes.items()}
        self.tables.extra["vector"] = xavier(1, 5, generator)
        self.tables.extra["query"] *= scale
        self.entities = torch.from_numpy(generator.integers(0, entities, 3 * entities))
        self.queries = torch.from_numpy(generator.integers(0, 2 * RELATIONS, 3 * entities))
        self.on_rows = torch.from_numpy(generator.normal(size=(3 * entities, dim))).float()

    def attention(self, fused: bool, tables: Tables, scratch: Scratch) -> Attends:
        if fused:
            return FusedAttention.of(TransE(), tables, self.near, self.logic, scratch)
        return Attention.of(TransE(), tables, self.near, self.logic)

    def outcome(self, fused: bool, scratch: Scratch | None = None) -> list[Tensor]:
        """Rows, and their gradients on all tables but that of relations."""
        leaves = self.tables.map(lambda table: table.detach().requires_grad_())
        attention = self.attention(fused, leaves, scratch or Scratch())
        rows = attention.rows(self.entities, self.queries)
        wanted = [leaves.entity, *leaves.extra.values()]
        return [rows.detach(), *torch.autograd.grad(rows, wanted, self.on_rows)]


@config(max_examples=25, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    facts=st.integers(1, 60),
    entities=st.integers(2, 20),
    dim=st.integers(1, 40),
)
def test_twins_agree(seed: int, facts: int, entities: int, dim: int) -> None:
    case = Case(seed, facts, entities, dim)
    for mine, twin in zip(case.outcome(True), case.outcome(False), strict=True):
        torch.testing.assert_close(mine, twin, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fused", [True, False])
def test_all_rows_are_the_rows_of_all(fused: bool) -> None:
    case = Case(7, 40, 12, 9)
    attention, queries = case.attention(fused, case.tables, Scratch()), torch.tensor([4, 0, 3])
    every = torch.arange(12)
    for query, rows in zip(queries, attention.all_rows(queries), strict=True):
        torch.testing.assert_close(rows, attention.rows(every, query.expand(12)))


@pytest.mark.parametrize("scale", [10.0, 1000.0])
def test_twins_agree_where_the_tangent_is_flat(scale: float) -> None:
    case = Case(3, 40, 12, 16, scale)
    for mine, twin in zip(case.outcome(True), case.outcome(False), strict=True):
        assert torch.isfinite(mine).all()
        torch.testing.assert_close(mine, twin, rtol=1e-4, atol=1e-5)


def test_buffers_of_an_earlier_call_leave_no_trace() -> None:
    shared = Scratch()
    for seed, (facts, entities, dim) in enumerate([(60, 20, 16), (3, 6, 9), (25, 12, 30)]):
        case = Case(seed, facts, entities, dim)
        for mine, fresh in zip(case.outcome(True, shared), case.outcome(True), strict=True):
            assert torch.equal(mine, fresh)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread only")
def test_the_number_of_threads_changes_no_byte() -> None:
    case, before, outcomes = Case(5, 400, 60, 50), numba.get_num_threads(), []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            outcomes.append(case.outcome(True))
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*outcomes, strict=True):
        assert torch.equal(one, two)
