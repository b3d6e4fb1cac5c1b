"""DiCGRL: related facts are replayed, and components out of use stay as they are."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.backends.made import BACKENDS, TORCH, gradient_of, made_batch, made_tables
from torch import Tensor

import lkge
from lkge.backends import Backend
from lkge.data.snapshots import no_facts, with_inverses
from lkge.errors import SettingsError
from lkge.methods.dicgrl import (
    ATTENTION,
    Dicgrl,
    DividedEncoder,
    DividedMargin,
    Division,
    concerned,
)
from lkge.models.model import Model
from lkge.models.parameters import Parameters
from lkge.models.scores import ComplEx, TransE
from lkge.testing import paper_config
from lkge.testing.graphs import (
    config_for,
    course_of,
    growing_graph,
    made_of,
    train_snapshot,
    trained,
)

GRAPH = growing_graph()
DICGRL = config_for("dicgrl", memory_size=20, active_components=2)
DIVISION = Division(components=4, active=2)


def test_components_that_no_fact_uses_are_untouched() -> None:
    """Bit for bit, in rows whose other components are learned. Corruptions use components too, so
    every entity may learn what any relation of the snapshot uses; and no more than that."""
    _, model, method = next(trained(GRAPH, DICGRL))
    assert isinstance(method, Dicgrl)
    second = GRAPH.snapshots[1]
    before = model.tables.entity.clone()
    method.grow(model, second)
    method.begin(model, second)
    relations = np.unique(with_inverses(method.facts(second))[:, 1])
    start, _ = method.division.top(model.tables.extra[ATTENTION])
    train_snapshot(model, method, GRAPH, 1)
    end, _ = method.division.top(model.tables.extra[ATTENTION])
    assert start[relations].equal(end[relations]), "another choice; the test shows nothing"
    used = np.unique(end[relations].numpy())
    idle = [k for k in range(8) if k not in used]
    after = model.tables.entity[: len(before)]
    assert idle, "all components are in use; the test shows nothing"
    assert after[:, idle].equal(before[:, idle])
    assert (after[:, used] != before[:, used]).any()


def test_remembered_facts_are_replayed_where_new_facts_share_entity_and_component() -> None:
    masks = np.array([0b0011, 0b0110, 0b1100, 0b1000], dtype=np.int64)
    new = np.array([[0, 0, 1]], dtype=np.int32)
    memory = np.array(
        [
            [0, 0, 5],  # shares entity 0 and both components
            [5, 0, 1],  # shares entity 1, which is in use through the inverse: component 1
            [0, 2, 5],  # shares entity 0, no component
            [5, 0, 6],  # shares no entity
            [5, 2, 1],  # shares entity 1 and component 2 of the inverse
        ],
        dtype=np.int32,
    )
    assert concerned(memory, new, masks, 7).tolist() == [True, True, False, False, True]


def test_what_is_replayed_comes_from_memory() -> None:
    training = trained(GRAPH, DICGRL)
    _, model, method = next(training)
    assert isinstance(method, Dicgrl)
    second = GRAPH.snapshots[1]
    method.grow(model, second)
    method.begin(model, second)
    facts = method.facts(second)
    replayed = facts[len(second.train) :].tolist()
    assert facts[: len(second.train)].tolist() == second.train.tolist()
    remembered = method.memory.facts.tolist()
    assert 0 < len(replayed) < len(remembered)
    assert all(fact in remembered for fact in replayed)


def test_attention_is_drawn_for_new_relations_and_learned() -> None:
    training = trained(GRAPH, DICGRL)
    _, model, _ = next(training)
    drawn = Model(DICGRL)
    Dicgrl(DICGRL).grow(drawn, GRAPH.snapshots[0])
    assert model.tables.extra[ATTENTION].shape == (4, 8)
    assert not model.tables.extra[ATTENTION].equal(drawn.tables.extra[ATTENTION])
    _, model, _ = next(training)
    assert model.tables.extra[ATTENTION].shape == (6, 8)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dim": 10}, "dim = 10 into components = 8: choose a dim that is a multiple of 8"),
        ({"score": "complex"}, "dim = 200 into components = 8: .* a multiple of 16, or others"),
        ({"active_components": 9}, "active_components = 9 is out of range"),
    ],
)
def test_impossible_divisions_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Dicgrl(paper_config(method="dicgrl").with_changes(changes))


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


def test_the_loss_is_margin_on_what_is_seen_and_attention_off_the_top() -> None:
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
    found, _ = gradient_of(DividedMargin(DIVISION, TransE(), 8.0), tables, batch)
    assert found == pytest.approx(sum(losses) / 5 + sum(spreads) / 5, rel=1e-5)


def test_components_out_of_use_have_no_gradient() -> None:
    tables, batch = made(), made_batch(2, 6, 2, 9, 3)
    _, gradient = gradient_of(DividedMargin(DIVISION, TransE(), 8.0), tables, batch)
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


@BACKENDS
def test_ranking_sees_what_training_sees(backend: Backend) -> None:
    tables = made()
    encoder = DividedEncoder(DIVISION, tables, TransE(), backend)
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
    predictor = DividedEncoder(Division(4, 4, reals=2), tables, score, backend=TORCH).at(2)
    seen = score.score(predictor.entity[1], predictor.relation[2], predictor.entity[5])
    whole = score.score(tables.entity[1], tables.relation[2], tables.entity[5])
    torch.testing.assert_close(16 * seen, whole)


def test_two_threads_give_the_same_bytes_each_time() -> None:
    before, first = torch.get_num_threads(), lkge.load("brick").snapshots[0]
    small = replace(first, train=first.train[:2000], valid=first.valid[:50], test=no_facts())
    config = paper_config(method="dicgrl", max_epochs=1)
    torch.set_num_threads(2)
    try:
        one, other = (course_of(made_of(small), config) for _ in range(2))
    finally:
        torch.set_num_threads(before)
    assert one == other
