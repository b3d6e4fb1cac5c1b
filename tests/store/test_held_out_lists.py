"""The calibration by held-out facts: which answers are examples, and that it is honest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.backends.made import NUMBA, TORCH

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, with_inverses
from lkge.models.predictor import TablePredictor
from lkge.models.scores import score_named
from lkge.store import held_out_lists
from lkge.store.calibration import UNKNOWN
from lkge.store.held_out_lists import calibrated
from lkge.store.judging import Judge
from lkge.store.subgraph import Subgraph, whole_graph

ENTITIES, RELATIONS, DIM = 300, 3, 16


def predictor_of(score: str, backend: object = NUMBA, seed: int = 0) -> TablePredictor:
    generator = torch.Generator().manual_seed(seed)
    entity = torch.randn(ENTITIES, DIM, generator=generator)
    relation = torch.randn(2 * RELATIONS, DIM, generator=generator)
    return TablePredictor(entity, relation, score_named(score), backend)  # type: ignore[arg-type]


def true_facts(predictor: TablePredictor, count: int, noise: float, seed: int) -> Facts:
    """Facts whose objects are drawn from the softmax of standardised scores."""
    generator = np.random.default_rng(seed)
    facts = []
    for _ in range(count):
        subject, relation = (
            int(generator.integers(ENTITIES)),
            2 * int(generator.integers(RELATIONS)),
        )
        scores = predictor.candidate_scores(subject, relation).astype(np.float64)
        z = (scores - scores.mean()) / scores.std() / noise + generator.gumbel(size=ENTITIES)
        facts.append((subject, relation, int(z.argmax())))
    return np.unique(np.array(facts, dtype=np.int32), axis=0)


@pytest.mark.parametrize("score", ["transe", "complex"])
def test_what_it_promises_for_other_facts_happens(score: str) -> None:
    """Ten bins of the first ten answers to queries of other facts, for products and distances."""
    predictor = predictor_of(score)
    facts = true_facts(predictor, 1_200, noise=0.3, seed=1)
    held, others = facts[::2], facts[1::2]
    known = KnownFacts.build([held])
    calibration = calibrated(predictor, whole_graph(0, ENTITIES), held, known, ENTITIES)
    assert calibration.facts == len(held)
    judge = Judge(KnownFacts.build([]), calibration, keeps_known=True)
    given, true = [], []
    for subject, relation in np.unique(with_inverses(others)[:, :2], axis=0).tolist():
        answers = with_inverses(others)
        right = answers[(answers[:, :2] == [subject, relation]).all(axis=1), 2]
        scores = predictor.candidate_scores(subject, relation)
        best = np.argsort(-scores)[:10]
        judged = judge.judged(
            (subject, relation), scores, best, scores[best], np.empty(0, np.int32)
        )
        given.append(judged.plausibility)
        true.append(np.isin(best, right))
    p, y = np.concatenate(given), np.concatenate(true)
    bins = np.minimum((10 * p).astype(int), 9)
    error = sum(abs((p - y)[bins == k].sum()) for k in range(10)) / len(p)
    assert error < 0.05
    assert p[y].mean() > 3 * p[~y].mean()


def test_known_answers_are_not_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = predictor_of("transe")
    facts = true_facts(predictor, 400, noise=0.3, seed=2)
    held, learned = facts[::4], np.delete(facts, np.s_[::4], axis=0)
    seen: list[held_out_lists.HeldOutList] = []
    examples = held_out_lists._examples

    def watched(one: held_out_lists.HeldOutList, temperature: float) -> object:
        seen.append(one)
        return examples(one, temperature)

    monkeypatch.setattr(held_out_lists, "_examples", watched)
    everyone = whole_graph(0, ENTITIES)
    calibrated(predictor, everyone, held, KnownFacts.build([facts]), ENTITIES)
    assert len(seen) == len(np.unique(with_inverses(held)[:, :2], axis=0))
    assert sum(len(one.true) for one in seen) == 2 * len(held)
    known = {(s, r, o) for s, r, o in with_inverses(learned).tolist()}
    assert sum(len(one.known) for one in seen) > 0
    assert {(one.relation, int(o)) for one in seen for o in one.known} <= {
        (r, o) for _, r, o in known
    }
    assert all(not np.isin(one.known, one.true).any() for one in seen)
    assert all(len(one.answers.scores) == ENTITIES - len(one.known) for one in seen)


def test_a_sample_of_the_candidates_gives_about_the_same() -> None:
    predictor = predictor_of("transe")
    held = true_facts(predictor, 300, noise=0.3, seed=3)
    known = KnownFacts.build([held])
    drawn = np.random.default_rng(0).choice(ENTITIES, 150, replace=False)
    rows = Subgraph(np.union1d(drawn, held[:60, (0, 2)].ravel()).astype(np.int64), 0)
    local = TablePredictor(predictor.entity[rows.ids], predictor.relation, predictor.score, NUMBA)
    part = calibrated(local, rows, held[:60], known, ENTITIES)
    whole = calibrated(predictor, whole_graph(0, ENTITIES), held[:60], known, ENTITIES)
    judges = [Judge(KnownFacts.build([]), one, keeps_known=True) for one in (part, whole)]
    query, none = (5, 2), np.empty(0, np.int32)
    scores = predictor.candidate_scores(*query)
    best = np.argsort(-scores)[:10]
    first, second = (
        judge.judged(query, scores, best, scores[best], none).plausibility for judge in judges
    )
    np.testing.assert_allclose(first, second, atol=0.12)


def test_backends_and_pieces_agree_and_nothing_is_random(monkeypatch: pytest.MonkeyPatch) -> None:
    held = true_facts(predictor_of("complex"), 100, noise=0.3, seed=4)
    known, everyone = KnownFacts.build([held]), whole_graph(0, ENTITIES)
    first, again, plain = (
        calibrated(predictor_of("complex", backend), everyone, held, known, ENTITIES)
        for backend in (NUMBA, NUMBA, TORCH)
    )
    assert first == again
    assert first.weights == pytest.approx(plain.weights, abs=1e-4)
    monkeypatch.setattr(held_out_lists, "SCORES_AT_ONCE", 1)
    pieces = calibrated(predictor_of("complex"), everyone, held, known, ENTITIES)
    assert first.weights == pytest.approx(pieces.weights, abs=1e-4)


def test_few_held_out_facts_give_the_prior() -> None:
    predictor = predictor_of("complex")
    held = true_facts(predictor, 9, noise=0.3, seed=5)
    everyone, known = whole_graph(0, ENTITIES), KnownFacts.build([held])
    assert calibrated(predictor, everyone, held, known, ENTITIES) == UNKNOWN
    assert calibrated(predictor, everyone, held[:0], known, ENTITIES) == UNKNOWN
