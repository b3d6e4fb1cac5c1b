"""Both protocols and validation against dictionaries and loops, on a small made graph."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tests.backends.made import BACKENDS, NUMBA

from lkge.backends import Backend
from lkge.data.snapshots import Facts, GrowingGraph, Snapshot, no_facts
from lkge.data.vocabulary import Vocabulary
from lkge.evaluation.ranking import Evaluator, Validator, by_relation
from lkge.evaluation.results import PROTOCOLS, union
from lkge.models.predictor import TablePredictor
from lkge.models.scores import TransE

Fact = tuple[int, int, int]
ENTITIES, RELATIONS = (6, 9, 12), (1, 2, 2)


def made_graph() -> GrowingGraph:
    """Three snapshots of dense facts, so that most questions have several known answers."""
    generator = np.random.default_rng(7)
    known: set[Fact] = set()
    snapshots = []
    for index, (entities, relations) in enumerate(zip(ENTITIES, RELATIONS, strict=True)):
        possible = [
            (s, r, o)
            for s in range(entities)
            for r in range(0, 2 * relations, 2)
            for o in range(entities)
            if (s, r, o) not in known
        ]
        chosen = [possible[k] for k in generator.permutation(len(possible))[:30]]
        known |= set(chosen)
        facts = np.array(chosen, dtype=np.int32)
        snapshots.append(Snapshot(index, facts[:14], facts[14:21], facts[21:], entities, relations))
    return GrowingGraph("made", Vocabulary(), tuple(snapshots))


GRAPH = made_graph()


def made_predictor(backend: Backend) -> TablePredictor:
    """Rows on multiples of 1/8 in three dimensions: exact distances with many ties."""
    generator = np.random.default_rng(3)
    entity, relation = (
        torch.from_numpy(generator.integers(-4, 5, (rows, 3)) / 8).float() for rows in (12, 4)
    )
    return TablePredictor(entity, relation, TransE(), backend)


def plain_rank(predictor: TablePredictor, fact: Fact, candidates: range, known: set[Fact]) -> float:
    """The mean of the best and the worst place that ties allow."""
    entity: list[list[float]] = predictor.entity.tolist()
    relation: list[list[float]] = predictor.relation.tolist()
    s, r, target = fact

    def distance(o: int) -> float:
        return sum(
            abs(a + b - c) for a, b, c in zip(entity[s], relation[r], entity[o], strict=True)
        )

    others = [o for o in candidates if o == target or (s, r, o) not in known]
    better = sum(distance(o) < distance(target) for o in others)
    level = sum(distance(o) == distance(target) for o in others)
    return ((better + 1) + (better + level)) / 2


def backwards(facts: list[Fact]) -> list[Fact]:
    return [(o, r + 1, s) for s, r, o in facts]


def as_list(facts: Facts) -> list[Fact]:
    return [(s, r, o) for s, r, o in facts.tolist()]


def plain_ranks(
    predictor: TablePredictor, facts: list[Fact], candidates: range, known: list[Fact]
) -> list[float]:
    """(s, r, ?) and (?, r, o) for each fact."""
    filtered = set(known) | set(backwards(known))
    asked = facts + backwards(facts)
    return [plain_rank(predictor, fact, candidates, filtered) for fact in asked]


def known_by(until: int, splits: tuple[str, ...]) -> list[Fact]:
    return [
        fact
        for snapshot in GRAPH.snapshots[: until + 1]
        for split in splits
        for fact in as_list(getattr(snapshot, split))
    ]


@BACKENDS
@pytest.mark.parametrize(("i", "j"), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)])
def test_both_protocols(backend: Backend, i: int, j: int) -> None:
    """`paper` stands at snapshot j, `current` at snapshot i."""
    predictor = made_predictor(backend)
    found = Evaluator(GRAPH).accuracies(predictor, i, [j])[0]
    for name, moment in (("paper", j), ("current", i)):
        ranks = plain_ranks(
            predictor,
            as_list(GRAPH.snapshots[j].test),
            range(ENTITIES[moment]),
            known_by(moment, ("train", "valid", "test")),
        )
        assert found[name].queries == len(ranks) == 18
        assert found[name].mrr == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))
        for k, hits in ((1, "hits1"), (3, "hits3"), (10, "hits10")):
            share = sum(rank <= k for rank in ranks) / len(ranks)
            assert getattr(found[name], hits) == pytest.approx(share)


def test_the_protocols_differ_for_old_tests_alone() -> None:
    evaluator, predictor = Evaluator(GRAPH), made_predictor(NUMBA)
    now, old = evaluator.accuracies(predictor, 2, [2, 0])
    assert now["paper"] == now["current"]
    assert old["paper"] != old["current"]


@BACKENDS
def test_tests_asked_at_once_are_answered_as_one_by_one(backend: Backend) -> None:
    evaluator, predictor = Evaluator(GRAPH), made_predictor(backend)
    at_once = evaluator.accuracies(predictor, 2, [0, 1, 2])
    assert at_once == [evaluator.accuracies(predictor, 2, [j])[0] for j in range(3)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_relation_has_its_own_facts_in_both_directions(protocol: str) -> None:
    tests = Evaluator(GRAPH).ranked(made_predictor(NUMBA), 2, [0, 1, 2])
    found = by_relation(tests, most=9)[protocol]
    moments = {"paper": [0, 1, 2], "current": [2, 2, 2]}[protocol]
    for relation in (0, 1):
        ranks: list[float] = []
        for j, moment in enumerate(moments):
            facts = [f for f in as_list(GRAPH.snapshots[j].test) if f[1] == 2 * relation]
            known = known_by(moment, ("train", "valid", "test"))
            predictor, candidates = made_predictor(NUMBA), range(ENTITIES[moment])
            ranks += plain_ranks(predictor, facts, candidates, known)
        assert found[relation].queries == len(ranks) > 0
        assert found[relation].mrr == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))
    whole = union(test.accuracies()[protocol] for test in tests)
    assert union(found.values()).mrr == pytest.approx(whole.mrr)


def test_the_relations_with_the_most_facts_are_kept_first() -> None:
    tests = Evaluator(GRAPH).ranked(made_predictor(NUMBA), 2, [0, 1, 2])
    (kept,) = by_relation(tests, most=1)["paper"].items()
    both = by_relation(tests, most=2)["paper"]
    assert [cell.queries for cell in both.values()] == sorted(
        (cell.queries for cell in both.values()), reverse=True
    )
    assert kept == next(iter(both.items()))


def test_a_snapshot_without_tests_has_no_accuracy() -> None:
    bare = dataclasses.replace(GRAPH.snapshots[1], test=no_facts())
    graph = dataclasses.replace(GRAPH, snapshots=(GRAPH.snapshots[0], bare, GRAPH.snapshots[2]))
    assert Evaluator(graph).accuracies(made_predictor(NUMBA), 2, [1])[0]["paper"].queries == 0


@BACKENDS
@pytest.mark.parametrize("i", [0, 1, 2])
def test_validation(backend: Backend, i: int) -> None:
    """Among E_i, filtered with training and validation facts up to snapshot i."""
    predictor, snapshot = made_predictor(backend), GRAPH.snapshots[i]
    ranks = plain_ranks(
        predictor, as_list(snapshot.valid), range(ENTITIES[i]), known_by(i, ("train", "valid"))
    )
    validator = Validator(GRAPH.snapshots[: i + 1])
    found = validator.mrr(predictor, snapshot.valid, snapshot)
    assert found == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))


@BACKENDS
def test_validation_of_all_snapshots_stands_where_each_stood(backend: Backend) -> None:
    """As in the `paper` protocol; every query weighs the same."""
    predictor = made_predictor(backend)
    ranks = [
        rank
        for i, snapshot in enumerate(GRAPH.snapshots)
        for rank in plain_ranks(
            predictor, as_list(snapshot.valid), range(ENTITIES[i]), known_by(i, ("train", "valid"))
        )
    ]
    found = Validator(GRAPH.snapshots).union_mrr(predictor)
    assert found == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))
    blind = [dataclasses.replace(snapshot, test=no_facts()) for snapshot in GRAPH.snapshots]
    assert Validator(blind).union_mrr(predictor) == found


def test_validation_knows_no_test_fact() -> None:
    """It would notice one: filtering with test facts too changes the figure."""
    predictor, last = made_predictor(NUMBA), GRAPH.snapshots[2]
    mrr = Validator(GRAPH.snapshots).mrr(predictor, last.valid, last)
    for other in (no_facts(), last.train):
        changed = [dataclasses.replace(snapshot, test=other) for snapshot in GRAPH.snapshots]
        assert Validator(changed).mrr(predictor, last.valid, changed[2]) == mrr
    leaky = [
        dataclasses.replace(snapshot, train=np.concatenate([snapshot.train, snapshot.test]))
        for snapshot in GRAPH.snapshots
    ]
    assert Validator(leaky).mrr(predictor, last.valid, last) != mrr


def test_validation_without_facts_is_unknown() -> None:
    last = GRAPH.snapshots[2]
    assert np.isnan(Validator(GRAPH.snapshots).mrr(made_predictor(NUMBA), no_facts(), last))


@BACKENDS
def test_among_all_entities_a_sample_is_no_sample(backend: Backend) -> None:
    snapshot, predictor = GRAPH.snapshots[2], made_predictor(backend)
    validator = Validator(GRAPH.snapshots)
    sample = validator.sample(snapshot.valid, snapshot, 12, np.random.default_rng(0))
    assert sample.entities.tolist() == list(range(12))
    assert sample.mrr(predictor) == validator.mrr(predictor, snapshot.valid, snapshot)


@BACKENDS
def test_validation_facts_are_ranked_among_a_sample(backend: Backend) -> None:
    snapshot, predictor = GRAPH.snapshots[2], made_predictor(backend)
    valid = snapshot.valid[:2]
    validator = Validator(GRAPH.snapshots)
    sample = validator.sample(valid, snapshot, 4, np.random.default_rng(1))
    entities = sample.entities.tolist()
    assert set(valid[:, (0, 2)].ravel().tolist()) <= set(entities)
    assert len(entities) < 12
    few = dataclasses.replace(predictor, entity=predictor.entity[sample.entities])
    known = {tuple(f) for s in GRAPH.snapshots for f in [*s.train.tolist(), *s.valid.tolist()]}
    ranks = []
    for s, r, o in valid.tolist():
        for fact in ((s, r, o), (o, r ^ 1, s)):
            answers = {f[2] for f in known if f[:2] == fact[:2]} | {
                f[0] for f in known if (f[2], f[1] ^ 1) == fact[:2]
            }
            scores = {e: predictor.candidate_scores(*fact[:2])[e] for e in entities}
            others = [e for e in entities if e not in answers]
            above = sum(scores[e] > scores[fact[2]] for e in others)
            equal = sum(scores[e] == scores[fact[2]] for e in others)
            ranks.append(above + 1 + equal / 2)
    assert sample.mrr(few) == pytest.approx(np.mean(1 / np.array(ranks)))
