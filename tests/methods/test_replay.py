"""Replayed facts: how the generator answers old queries, and the gradient of its facts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.backends.made import BACKENDS, NUMBA, made_tables
from tests.methods.hand_made import PAST, as_facts

from lkge.backends import Backend, torch_softmax
from lkge.data.batches import batches, sample_candidates
from lkge.data.snapshots import Facts, with_inverses
from lkge.methods import replay as replay_module
from lkge.methods.replay import Entities, Replay, answers_by_relation, generate
from lkge.methods.replay_queries import QueryCounts
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import TablePredictor
from lkge.models.scores import SCORES, Score, score_named
from lkge.testing import paper_config

CANDIDATES, POWER = 0.1, 0.5
ONE_TO_MANY = as_facts([(0, 0, 1), (0, 0, 2), (0, 0, 3), (4, 2, 1)])

pytestmark = pytest.mark.usefixtures("one_thread")


def generator_of(name: str, tables: Parameters, backend: Backend = NUMBA) -> TablePredictor:
    return TablePredictor.of(tables, score_named(name), backend)


def scores_of(score: Score, tables: Parameters, head: int, relation: int) -> list[float]:
    """One fact at a time."""
    entity = score.prepare_entities(tables.entity)
    between = score.prepare_relations(tables.relation)[relation]
    return [float(score.score(entity[head], between, tail)) for tail in entity]


def all_facts(predictor: TablePredictor, counts: QueryCounts, among: list[Entities]) -> Facts:
    return generate(predictor, counts, np.arange(len(counts.counts)), among)


def all_entities(entities: int, relations: int) -> list[Entities]:
    return [np.arange(entities)] * relations


@pytest.mark.parametrize("name", sorted(SCORES))
@BACKENDS
@pytest.mark.parametrize("block", [1, 1 << 24], ids=["many blocks", "one block"])
@pytest.mark.parametrize("known", [True, False], ids=["answers of the relation", "all entities"])
def test_a_query_has_as_many_answers_as_it_had_and_they_are_the_best(
    name: str, backend: Backend, block: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_softmax, "MOST_NUMBERS", block)
    tables, counts = made_tables(1, 9, 2, 8, scale=1.0), QueryCounts().with_facts(ONE_TO_MANY)
    among = answers_by_relation(counts, 4) if known else all_entities(9, 4)
    facts = all_facts(generator_of(name, tables, backend), counts, among)
    assert len(np.unique(facts, axis=0)) == len(facts) == 2 * len(ONE_TO_MANY)
    for (head, relation), count in zip(
        counts.queries.tolist(), counts.counts.tolist(), strict=True
    ):
        scores = scores_of(score_named(name), tables, head, relation)
        best = sorted(among[relation].tolist(), key=lambda tail: -scores[tail])[:count]
        own = (facts[:, 0] == head) & (facts[:, 1] == relation)
        assert sorted(facts[own, 2].tolist()) == sorted(best)


def test_the_entities_that_answered_follow_from_the_inverse_queries() -> None:
    counts = QueryCounts().with_facts(ONE_TO_MANY)
    found = [sorted(entities.tolist()) for entities in answers_by_relation(counts, 6)]
    assert found == [[1, 2, 3], [0], [1], [4], [], []]


def test_there_are_no_more_answers_than_entities() -> None:
    tables = made_tables(1, 3, 1, 8, scale=1.0)
    counts = QueryCounts(np.zeros((1, 2), np.int32), np.array([5], np.int32))
    facts = all_facts(generator_of("transe", tables), counts, all_entities(3, 2))
    assert sorted(facts[:, 2].tolist()) == [0, 1, 2]


def ring_and_generator() -> tuple[Facts, TablePredictor]:
    """A ring, and parameters that fit it."""
    turns = torch.arange(12)[:, None] * torch.arange(1, 5) * (2 * torch.pi / 12)
    step = torch.arange(1, 5) * (2 * torch.pi / 12)
    forth, back = torch.cat([step.cos(), step.sin()]), torch.cat([step.cos(), -step.sin()])
    tables = Parameters(torch.cat([turns.cos(), turns.sin()], dim=1), torch.stack([forth, back]))
    ring = as_facts([(k, 0, (k + 1) % 12) for k in range(12)])
    return ring, generator_of("rotate", tables)


def replay_of(predictor: TablePredictor, counts: QueryCounts, queries: int, steps: int) -> Replay:
    return Replay(
        predictor,
        counts,
        answers_by_relation(counts, 4),
        np.random.default_rng,
        queries_per_step=queries,
        steps_per_epoch=steps,
        candidate_fraction=CANDIDATES,
        importance_power=POWER,
    )


def test_a_generator_that_fits_the_facts_generates_them() -> None:
    ring, predictor = ring_and_generator()
    facts = all_facts(predictor, QueryCounts().with_facts(ring), all_entities(12, 2))
    assert sorted(facts.tolist()) == sorted(with_inverses(ring).tolist())


@pytest.mark.parametrize(("queries", "steps", "size"), [(4, 3, 12), (8, 3, 24), (100, 2, 24)])
def test_an_epoch_replays_no_query_twice_and_the_next_replays_others(
    queries: int, steps: int, size: int
) -> None:
    ring, predictor = ring_and_generator()
    replay = replay_of(predictor, QueryCounts().with_facts(ring), queries, steps)
    first, second = (
        np.concatenate([replay.facts(epoch * steps + step) for step in range(steps)])
        for epoch in (0, 1)
    )
    assert len(np.unique(first, axis=0)) == len(first) == size
    assert (sorted(first.tolist()) == sorted(second.tolist())) == (size == 24)
    again = replay_of(predictor, QueryCounts().with_facts(ring), queries, steps)
    assert np.array_equal(again.facts(steps), replay.facts(steps))


@pytest.mark.parametrize(("queries", "generations"), [(4, 2), (8, 1)], ids=["some", "all"])
def test_facts_of_all_queries_are_generated_once(
    queries: int, generations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, predictor = ring_and_generator()
    replay = replay_of(predictor, QueryCounts().with_facts(ring), queries, 3)
    calls: list[int] = []

    def counted(*given: object) -> Facts:
        calls.append(1)
        return generate(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(replay_module, "generate", counted)
    for step in range(6):
        assert len(replay.facts(step))
    assert len(calls) == generations


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_a_softmax_over_all_entities_runs_over_a_sample_for_replayed_facts(backend: str) -> None:
    """Against torch alone, one fact at a time."""
    changes = {"dim": 8, "loss": "softmax", "score": "complex", "all_candidates_below": 20}
    config = paper_config(**changes, backend=backend)
    model = Model(config)
    model.tables = made_tables(2, 30, 2, 8, scale=1.0)
    predictor = generator_of("complex", made_tables(1, 9, 2, 8, scale=1.0))
    replay = replay_of(predictor, QueryCounts().with_facts(as_facts(PAST)), 3, 3)
    gradient = Gradient.like(model.tables)
    loss = replay.add_gradient(model, 0.3, 1, gradient, np.random.default_rng(4))

    facts, generator = replay.facts(1), np.random.default_rng(4)
    next(batches(facts, len(facts), 0, 30, generator))
    sample = sample_candidates(facts, 30, CANDIDATES, generator, POWER, all_below=20)
    assert sample is not None
    some, importance = sample.entities.tolist(), torch.from_numpy(sample.importance)
    assert 5 <= len(some) < 20
    leaves = model.tables.map(lambda table: table.clone().requires_grad_())
    expected = torch.zeros(())
    for head, relation, tail in facts.tolist():
        query = model.score.compose(leaves.entity[head], leaves.relation[relation])
        answers = (leaves.entity[some] @ query + importance.log()).log_softmax(0)
        expected = expected - answers[some.index(tail)] / len(facts)
    assert loss == pytest.approx(0.3 * expected.item(), rel=1e-4)
    for part, flow in zip(gradient, torch.autograd.grad(expected, list(leaves)), strict=True):
        torch.testing.assert_close(part.values, 0.3 * flow, rtol=1e-3, atol=1e-6)
        assert not part.values[part.touched == 0].any()


@pytest.mark.parametrize(
    ("loss_name", "shared_by"),
    [("margin", 1), ("margin", 2), ("sampled", 1), ("sampled", 2), ("softmax", 1)],
)
@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_replayed_facts_add_their_share_of_the_gradient(
    loss_name: str, backend: str, shared_by: int
) -> None:
    config = paper_config(dim=8, loss=loss_name, backend=backend, n3=0.1)
    if loss_name != "softmax":
        config = config.with_changes(negatives=3, negatives_shared_by=shared_by)
    model = Model(config)
    model.tables = made_tables(2, 12, 2, 8, scale=1.0)
    predictor = generator_of("transe", made_tables(1, 9, 2, 8, scale=1.0))
    replay = replay_of(predictor, QueryCounts().with_facts(as_facts(PAST)), 3, 3)
    new, gradient = Gradient.like(model.tables), Gradient.like(model.tables)
    (batch,) = batches(with_inverses(ONE_TO_MANY), 8, model.negatives, 12, np.random.default_rng(3))
    for each in (new, gradient):
        model.loss.add_gradient(model.tables, batch, each)
    loss = replay.add_gradient(model, 0.3, 1, gradient, np.random.default_rng(4))

    generator, old, facts = (
        np.random.default_rng(4),
        Gradient.like(model.tables),
        replay.facts(1),
    )
    (batch,) = batches(facts, len(facts), model.negatives, 12, generator, shared_by)
    assert loss == pytest.approx(0.3 * model.loss.add_gradient(model.tables, batch, old))
    for part, mine, yours in zip(gradient, new, old, strict=True):
        expected = mine.values + 0.3 * yours.values
        torch.testing.assert_close(part.values, expected, rtol=1e-4, atol=1e-6)
        assert torch.equal(part.touched, mine.touched | yours.touched)
