"""Evergreen: its loss on a graph of a few facts, what it keeps, and what that is good for."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from tests.methods.hand_made import FIRST, NEW, PAST, SECOND, as_facts, moved

from lkge.config import RunConfig
from lkge.configure import configure
from lkge.data.snapshots import GrowingGraph, Snapshot, no_facts, with_inverses
from lkge.methods import evergreen
from lkge.methods.evergreen import Evergreen
from lkge.methods.replay_queries import QueryCounts
from lkge.models.losses import n3_by_degree
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.models.scores import SCORES
from lkge.testing.graphs import growing_graph, made_of
from lkge.training.loop import Loop

SETTLED = 1
"""New facts that have neither a new entity nor a new relation: (1, 0, 0)."""

CONFIG = configure({"dim": 4, "replay_queries": 100_000, "replay_weight": 1.0}, "evergreen")

pytestmark = pytest.mark.usefixtures("one_thread")


def second_snapshot(config: RunConfig) -> tuple[Evergreen, Model, Parameters]:
    """Evergreen in the middle of its second snapshot, its model, and the tables of the first."""
    method, model = Evergreen(config), Model(config)
    method.grow(model, FIRST)
    method.begin(model, FIRST)
    model.tables = moved(model.tables, seed=1)
    method.end(model, FIRST)
    old = model.tables.clone()
    method.grow(model, SECOND)
    method.begin(model, SECOND)
    model.tables = moved(model.tables, seed=2)
    return method, model, old


def expected_replay(model: Model, old: Parameters, generator: Parameters) -> torch.Tensor:
    """κ times the loss of old facts as `generator` generates them, -log p and N3, and 1 - κ times
    the cross-entropy of the old model's answers and the current ones, by torch alone; means over
    old facts.

    (h, r, ?) has as many answers as it had, the best of those that ever answered for r."""
    edges = with_inverses(as_facts(PAST)).tolist()
    n3 = n3_by_degree(model.config.training, 2 * (len(PAST) + len(NEW)) / 10)
    replayed, distilled = torch.zeros(()), torch.zeros(())
    for head, relation in {(head, relation) for head, relation, _ in edges}:
        count = sum(edge[:2] == [head, relation] for edge in edges)
        among = sorted({tail for _, between, tail in edges if between == relation})
        target = old.entity @ model.score.compose(old.entity[head], old.relation[relation])
        scores = generator.entity @ model.score.compose(
            generator.entity[head], generator.relation[relation]
        )
        best = sorted(among, key=lambda tail: -scores[tail].item())[:count]
        between = model.tables.relation[relation]
        query = model.score.compose(model.tables.entity[head], between)
        surprise = -(model.tables.entity @ query).log_softmax(0)
        distilled = distilled + count * (target.softmax(0) * surprise[: len(target)]).sum()
        for tail in best:
            rows = torch.stack([model.tables.entity[head], between, model.tables.entity[tail]])
            moduli = (rows[:, :2].square() + rows[:, 2:].square()).sqrt()
            replayed = replayed + surprise[tail] + n3 * moduli.pow(3).sum()
    kappa = model.config.method.replay_share
    return (kappa * replayed + (1 - kappa) * distilled) / len(edges)


def test_many_validation_facts_are_sampled_the_same_in_each_epoch() -> None:
    facts = as_facts([(head, 0, head + 1) for head in range(40)])
    snapshot = dataclasses.replace(FIRST, valid=facts)
    assert np.array_equal(Evergreen(CONFIG).validation(snapshot), facts)
    few = CONFIG.with_changes({"max_validation_facts": 15})
    sample, again = (Evergreen(few).validation(snapshot) for _ in range(2))
    other = Evergreen(few.with_changes({"seed": 12})).validation(snapshot)
    assert np.array_equal(sample, again)
    assert not np.array_equal(sample, other)
    assert len(np.unique(sample, axis=0)) == 15
    assert set(map(tuple, sample.tolist())) <= set(map(tuple, facts.tolist()))


def test_entities_are_as_well_known_as_old_and_new_facts_make_them() -> None:
    method, _, _ = second_snapshot(CONFIG)
    assert (
        method.facts_per_entity(with_inverses(SECOND.train), SECOND)
        == 2 * (len(PAST) + len(NEW)) / 10
    )


@pytest.mark.parametrize("strength", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize(
    ("share", "replay_model"), [(0.0, False), (0.3, True), (0.3, False), (1.0, True)]
)
def test_new_facts_and_old_ones_weigh_as_many_as_they_are(
    backend: str, strength: float, share: float, replay_model: bool
) -> None:
    changes = {
        "backend": backend,
        "replay_weight": strength,
        "replay_share": share,
        "replay_model": replay_model,
    }
    method, model, old = second_snapshot(CONFIG.with_changes(changes))
    assert (method._replay_model is not None) == replay_model
    generator = old if method._replay_model is None else method._replay_model.tables
    weight = strength if strength <= 1 else 1 + (strength - 1) * SETTLED / len(NEW)
    old_share = weight * len(PAST) / (weight * len(PAST) + len(NEW))
    model.expect(method.facts_per_entity(with_inverses(SECOND.train), SECOND))
    gradient = Gradient.like(model.tables)
    for part in gradient:
        part.values.fill_(1.0)
        part.touched.fill_(1)
    loss = method.penalty(model, gradient)
    leaves = [table.requires_grad_() for table in model.tables]
    expected = expected_replay(model, old, generator)
    assert loss == pytest.approx(old_share * expected.item(), rel=1e-3)
    flows = torch.autograd.grad(expected, leaves)
    for part, flow in zip(gradient, flows, strict=True):
        wanted = (1 - old_share) + old_share * flow
        torch.testing.assert_close(part.values, wanted, rtol=1e-2, atol=2e-4)


@pytest.mark.parametrize(
    ("given", "settled", "brought", "weight"),
    [
        (0.0, 900, 0, 0.0),
        (0.5, 900, 0, 0.5),
        (1.0, 900, 0, 1.0),
        (2.0, 100, 0, 2.0),
        (2.0, 25, 75, 1.25),
        (3.0, 25, 75, 1.5),
        (2.0, 0, 100, 1.0),
        (2.0, 895, 0, 7 / 6),
        (3.0, 895, 0, 4 / 3),
        (3.0, 0, 0, 1.0),
    ],
)
def test_old_facts_count_more_as_new_ones_have_nothing_new_but_in_a_dense_graph(
    given: float, settled: int, brought: int, weight: float
) -> None:
    method, _, _ = second_snapshot(CONFIG.with_changes({"replay_weight": given}))
    train = np.array([(1, 0, 0)] * settled + [(1, 0, 5)] * brought, dtype=np.int32)
    assert (SECOND.num_entities, len(PAST)) == (10, 5)
    snapshot = dataclasses.replace(SECOND, train=train.reshape(-1, 3))
    assert method._weight(snapshot) == pytest.approx(weight)


@pytest.mark.parametrize(
    ("given", "facts", "patience"),
    [(1, 60_000, 1), (1, 59_999, 2), (1, 1000, 4), (1, 100, 5), (7, 100, 7), (1, 0, 1)],
)
def test_where_epochs_are_short_more_of_them_may_pass(
    given: int, facts: int, patience: int
) -> None:
    config = CONFIG.with_changes({"patience": given})
    train = np.zeros((facts, 3), dtype=np.int32)
    assert Evergreen(config).patience(dataclasses.replace(FIRST, train=train)) == patience


def test_what_is_added_to_a_graph_of_rows_is_learned_at_once() -> None:
    living = CONFIG.with_changes({"patience": 1, "memory": "none"})
    later, _, _ = second_snapshot(living)
    assert (Evergreen(living).patience(FIRST), later.patience(SECOND)) == (5, 1)


def test_on_the_first_snapshot_there_is_nothing_to_replay() -> None:
    method, model = Evergreen(CONFIG), Model(CONFIG)
    method.grow(model, FIRST)
    method.begin(model, FIRST)
    gradient = Gradient.like(model.tables)
    assert method.penalty(model, gradient) == 0
    assert not any(part.touched.any() for part in gradient)


def test_retracted_facts_are_not_replayed() -> None:
    method, _, _ = second_snapshot(CONFIG)
    method.retract(as_facts(PAST[1:]))
    assert method.state()["query_counts.queries"].tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("memory", ["generative", "none"])
def test_retracted_facts_have_a_share_of_the_loss(memory: str) -> None:
    """Also where nothing is new: an update that only retracts moves what it retracts."""
    config = CONFIG.with_changes({"memory": memory})
    method, model = Evergreen(config), Model(config)
    method.grow(model, FIRST)
    method.begin(model, FIRST)
    method.end(model, FIRST)
    method.retract(as_facts(PAST[:2]))
    nothing = dataclasses.replace(FIRST, index=1, train=no_facts())
    method.grow(model, nothing)
    method.begin(model, nothing)
    gradient = Gradient.like(model.tables)
    gradient.entity.values.fill_(1.0)
    gradient.entity.touched.fill_(1)
    method.penalty(model, gradient)
    kept, weight = len(PAST) - 2, 2 * config.method.retraction_weight
    share = weight / (kept + weight)
    assert float(gradient.entity.values.mean()) == pytest.approx(share, abs=0.01)


def test_no_pseudo_query_is_of_a_retracted_fact() -> None:
    method, model, _ = second_snapshot(CONFIG.with_changes({"memory": "none"}))
    retracted = as_facts(PAST[:2])
    before = {tuple(query) for query in method._queries.queries.tolist()}
    method.retract(retracted)
    method.begin(model, SECOND)
    left = {tuple(query) for query in method._queries.queries.tolist()}
    gone = {tuple(query) for query in with_inverses(retracted)[:, :2].tolist()}
    assert gone & before
    assert left == before - gone


def test_without_query_counts_it_supports_partial_updates() -> None:
    assert Evergreen(CONFIG.with_changes({"memory": "none"})).supports_partial_updates
    assert not Evergreen(CONFIG).supports_partial_updates


@pytest.mark.parametrize(("facts", "size"), [(2, 30), (100, 50), (10**6, 5000)])
def test_pseudo_queries_are_bounded_by_new_facts(
    facts: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def note(*given: Any) -> QueryCounts:
        sizes.append(given[3])
        return QueryCounts()

    monkeypatch.setattr(evergreen, "pseudo_queries", note)
    method, model, _ = second_snapshot(
        CONFIG.with_changes({"memory": "none", "replay_queries": 30})
    )
    method.begin(model, dataclasses.replace(SECOND, train=np.zeros((facts, 3), dtype=np.int32)))
    assert sizes[-1] == size


def test_the_sums_of_adagrad_go_on_with_the_rows() -> None:
    graph = growing_graph()
    config = configure({"dim": 8, "batch_size": 20, "max_epochs": 2}, "evergreen")
    first, second = (
        Loop(made_of(*graph.snapshots[:k]), config).run().method.state() for k in (1, 2)
    )
    for table in ("entity", "relation"):
        before, after = first[f"optimizer.sums.{table}"], second[f"optimizer.sums.{table}"]
        assert len(after) > len(before)
        assert (after[: len(before)] >= before).all()
    fresh = Loop(graph, config.with_changes({"carry_optimizer_state": False})).run().method.state()
    assert not any(name.startswith("optimizer") for name in fresh)


def competing_graph() -> GrowingGraph:
    """First a ring of 40 entities; then two new entities that many of these lead to, in the
    same relations: they seem to answer the queries of the others, too."""
    ring = [(k, 0, (k + 1) % 40) for k in range(40)] + [(k, 2, (k + 7) % 40) for k in range(40)]
    led = [(k, 0, 40) for k in range(0, 40, 2)] + [(k, 2, 41) for k in range(0, 40, 2)]
    return made_of(
        Snapshot(0, as_facts(ring), no_facts(), as_facts(ring), 40, 2),
        Snapshot(1, as_facts(led), no_facts(), as_facts(led[:1]), 42, 2),
    )


@pytest.mark.parametrize(
    "base",
    [
        {},
        {"memory": "none"},
        {"score": "rotate", "loss": "sampled", "negatives": 16, "learning_rate": 0.1},
    ],
    ids=["replay", "pseudo-queries", "sampled loss"],
)
def test_old_answers_survive_new_entities_that_compete_with_them(base: dict[str, object]) -> None:
    """The first snapshot's facts, ranked among all entities once the second is learned."""
    learning = {"dim": 32, "batch_size": 40, "max_epochs": 60, "patience": 60, "n3": 0.0}
    config = configure({**learning, **base}, "evergreen")
    kept, lost = (
        Loop(competing_graph(), config.with_changes({"replay_weight": strength}))
        .run()
        .results.protocols["current"]
        .matrix
        for strength in (1.0, 0.0)
    )
    assert kept[0][0].mrr > 0.9
    assert kept[1][0].mrr > 0.9
    assert lost[1][0].mrr < kept[1][0].mrr - 0.05


@pytest.mark.parametrize("old", [1, 50])
@pytest.mark.parametrize(("share", "size"), [(1.0, 9), (0.4, 4)])
def test_a_step_replays_no_more_however_much_is_old(share: float, size: int, old: int) -> None:
    config = CONFIG.with_changes({"replay_queries": 7, "replay_share": share})
    method, model = Evergreen(config), Model(config)
    facts = as_facts([(k, 0, k + 1) for k in range(old)])
    first, second = (dataclasses.replace(snapshot, num_entities=60) for snapshot in (FIRST, SECOND))
    method.grow(model, first)
    method.end(model, dataclasses.replace(first, train=facts))
    method.grow(model, second)
    method.begin(model, dataclasses.replace(second, train=as_facts([(0, 0, 3)])))
    assert method._replay is not None
    assert len(method._replay.facts(0)) == min(size, 2 * old)


@pytest.mark.parametrize(
    ("changes", "distilled", "size"),
    [
        ({}, [], 300),
        ({"replay_share": 0.5}, [4], 525),
        ({"replay_share": 0.0}, [8], 750),
        ({"memory": "none"}, [8], 750),
        ({"loss": "margin"}, [], 1500),
    ],
    ids=["replayed", "half replayed", "distilled", "pseudo-queries", "margin loss"],
)
def test_fewer_new_facts_are_learned_beside_old_queries(
    changes: dict[str, object], distilled: list[int], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    draw = QueryCounts.draw
    monkeypatch.setattr(
        QueryCounts,
        "draw",
        lambda self, size, generator: drawn.append(size) or draw(self, size, generator),
    )
    config = CONFIG.with_changes({"replay_queries": 8, **changes})
    method, model = Evergreen(config), Model(config)
    method.grow(model, FIRST)
    method.begin(model, FIRST)
    assert method.batch_size(10**6) == 1500
    method.end(model, FIRST)
    method.grow(model, SECOND)
    method.begin(model, SECOND)
    method.penalty(model, Gradient.like(model.tables))
    assert drawn == distilled
    assert method.batch_size(10**6) == size
    method.end(model, SECOND)
    assert method.batch_size(10**6) == 1500


DISTANCE = CONFIG.with_changes({"score": "transe", "loss": "sampled", "n3": 0.0})


@pytest.mark.parametrize("score", sorted(SCORES))
@pytest.mark.parametrize("loss", ["softmax", "sampled", "margin"])
@pytest.mark.parametrize("memory", ["generative", "none"])
def test_query_counts_have_a_replay_model_and_without_them_only_bilinear_softmax_is_distilled(
    score: str, loss: str, memory: str
) -> None:
    changes = {"score": score, "loss": loss, "replay_queries": 5, "memory": memory}
    method, _, _ = second_snapshot(DISTANCE.with_changes(changes))
    bilinear = loss == "softmax" and score in {"complex", "distmult"}
    assert (method._replay_model is not None) == (memory == "generative")
    if method._replay_model is not None:
        assert method._replay_model.separate == (score not in {"complex", "distmult"})
    assert (method._distillation is not None) == (bilinear and memory == "none")
    assert (method._replay is not None) == (memory == "generative" or not bilinear)


@pytest.mark.parametrize("gone", [1, 2])
@pytest.mark.parametrize("changes", [{"dim": 16}, {"dim": 15, "score": "transe"}])
def test_the_replay_model_does_not_generate_retracted_facts(
    gone: int, changes: dict[str, object]
) -> None:
    """(0, 0, ?) has four answers, and then fewer; only what is left is replayed."""
    many = as_facts([(0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 0, 4), (1, 0, 2), (2, 2, 3)])
    config = CONFIG.with_changes(changes)
    method, model = Evergreen(config), Model(config)
    method.grow(model, FIRST)
    method.end(model, dataclasses.replace(FIRST, train=many))
    method.retract(many[:gone])
    method.grow(model, SECOND)
    method.begin(model, SECOND)
    assert method._replay is not None
    replayed = {tuple(fact) for fact in method._replay.facts(0).tolist()}
    assert replayed == {tuple(fact) for fact in with_inverses(many[gone:]).tolist()}


def test_what_was_kept_without_a_replay_model_goes_on_without_one() -> None:
    kept = second_snapshot(CONFIG.with_changes({"replay_model": False}))[0].state()
    again, model = Evergreen(CONFIG), Model(CONFIG)
    again.load_state(kept)
    again.grow(model, SECOND)
    again.begin(model, SECOND)
    again.end(model, SECOND)
    assert not any(name.startswith("replay_model") for name in again.state())


def test_the_replay_model_is_carried_and_counted() -> None:
    method, _, _ = second_snapshot(CONFIG)
    state = method.state()
    assert method._replay_model is not None
    again = Evergreen(CONFIG)
    again.load_state(state)
    assert again._replay_model is not None
    assert torch.equal(again._replay_model.tables.entity, method._replay_model.tables.entity)
    for changes in ({"replay_model": False}, {"memory": "none"}, {"replay_share": 0.0}):
        without = second_snapshot(CONFIG.with_changes(changes))[0].state()
        assert not any(name.startswith("replay_model") for name in without)


@pytest.mark.parametrize("memory", ["generative", "none"])
def test_replayed_facts_are_of_old_entities_and_the_same_each_time(memory: str) -> None:
    config = DISTANCE.with_changes({"batch_size": 2, "memory": memory})
    one, other = (second_snapshot(config)[0]._replay for _ in range(2))
    assert one is not None
    assert other is not None
    facts = np.concatenate([one.facts(step) for step in range(7)])
    assert facts[:, (0, 2)].max() < FIRST.num_entities
    assert facts[:, 1].max() < 2 * FIRST.num_relations
    assert np.array_equal(facts, np.concatenate([other.facts(step) for step in range(7)]))


@pytest.mark.parametrize(("facts", "size"), [(10, 100), (4000, 100), (8000, 200), (10**6, 1500)])
def test_small_snapshots_have_small_batches(facts: int, size: int) -> None:
    assert Evergreen(CONFIG).batch_size(facts) == size
    assert Evergreen(CONFIG.with_changes({"batch_size": 64})).batch_size(facts) == 64


def test_without_query_counts_only_fact_counts_and_the_sums_are_kept() -> None:
    graph = growing_graph()
    config = configure({"dim": 8, "batch_size": 20, "max_epochs": 2, "memory": "none"}, "evergreen")
    learned = Loop(graph, config).run()
    state = learned.method.state()
    assert {name.partition(".")[0] for name in state} == {"facts", "optimizer"}
    facts = sum(len(snapshot.train) for snapshot in graph.snapshots)
    assert state["facts.entity"].sum() == state["facts.relation"].sum() == 2 * facts
    without = Loop(graph, config.with_changes({"replay_weight": 0.0})).run()
    assert not torch.equal(learned.tables.entity, without.tables.entity)
