"""Ranks by kernel and by twin, ties, filters, and the best answers by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backends.made import BACKENDS, NUMBA, TORCH

from lkge.backends import Backend, torch_backend
from lkge.backends.numba import backend as numba_backend
from lkge.backends.torch_search import best_first
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts
from lkge.data.vocabulary import Vocabulary
from lkge.errors import UnknownName
from lkge.models import predictor as predictor_module
from lkge.models.parameters import Parameters
from lkge.models.predictor import RelationPredictor, TablePredictor, View
from lkge.models.scores import SCORES, Score, TransE, score_named

EVERY_SCORE = pytest.mark.parametrize("score", [score_named(n) for n in SCORES], ids=list(SCORES))


def on_grid(seed: int, entities: int, relations: int, dim: int) -> Parameters:
    """Rows on multiples of 1/64, of which many are equal: all distances are exact."""
    generator = np.random.default_rng(seed)

    def draw(rows: int) -> torch.Tensor:
        distinct = generator.integers(-20, 21, (max(rows // 2, 1), dim)) / 64
        return torch.from_numpy(distinct[generator.integers(0, len(distinct), rows)]).float()

    return Parameters(draw(entities), draw(2 * relations))


def made_facts(seed: int, size: int, entities: int, relations: int) -> Facts:
    generator = np.random.default_rng(seed)
    heads, tails = generator.integers(0, entities, (2, size))
    return np.stack([heads, 2 * generator.integers(0, relations, size), tails], 1).astype(np.int32)


def made_predictor(
    tables: Parameters, backend: Backend, names: Vocabulary | None = None
) -> TablePredictor:
    """The tables as they are, not normalised."""
    return TablePredictor(tables.entity, tables.relation, TransE(), backend, names=names)


@settings(max_examples=15, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    size=st.integers(1, 300),
    entities=st.integers(1, 40),
    dim=st.sampled_from([1, 5, 32, 45, 64]),
)
def test_twins_give_the_same_ranks(seed: int, size: int, entities: int, dim: int) -> None:
    tables = on_grid(seed, entities, 2, dim)
    facts = made_facts(seed, size, entities, 2)
    answers = KnownFacts.build(
        [facts[::2], made_facts(seed + 1, 30, entities, 2), made_facts(seed + 2, 9, entities, 2)]
    )
    reach = int(facts.max(axis=0)[[0, 2]].max()) + 1
    views = [View(entities, 2), View(reach, 0), View(entities, 1)]
    fused, plain = (
        made_predictor(tables, way).ranks(facts, views, answers) for way in (NUMBA, TORCH)
    )
    assert fused.tolist() == plain.tolist()


@BACKENDS
def test_a_constant_scorer_gets_the_middle_rank(backend: Backend) -> None:
    tables = Parameters(torch.full((9, 6), 0.3), torch.full((2, 6), 0.1))
    facts = np.array([[0, 0, 4], [8, 0, 8]], dtype=np.int32)
    unfiltered = made_predictor(tables, backend).ranks(facts, [View(9, 0)], KnownFacts.build([]))
    assert unfiltered.tolist() == [[5.0], [5.0]]
    known = KnownFacts.build([np.array([[0, 0, 4], [0, 0, 1], [0, 0, 2]], dtype=np.int32)])
    filtered = made_predictor(tables, backend).ranks(facts, [View(9, 0)], known)
    assert filtered.tolist() == [[4.0], [5.0]]


@BACKENDS
def test_ranks_by_hand(backend: Backend) -> None:
    """On a line, with r = 0: entity k stands at k, and asks who is near to it."""
    tables = Parameters(torch.arange(6.0)[:, None], torch.zeros(2, 1))
    facts = np.array([[0, 0, 3], [2, 0, 4], [2, 0, 2]], dtype=np.int32)
    known = KnownFacts.build(
        [np.array([[0, 0, 1]], np.int32), np.array([[0, 0, 3], [0, 0, 2], [2, 0, 4]], np.int32)]
    )
    views = [View(6, 0), View(6, 1), View(5, 1)]
    ranks = made_predictor(tables, backend).ranks(facts, views, known)
    # (0, 0, 3): 0, 1, 2 are nearer, 1 is known at once and 2 later
    # (2, 0, 4): 1, 2, 3 are nearer, and 0 ties; nothing of it is another known answer
    assert ranks.tolist() == [[3, 2, 2], [4.5, 4.5, 4.5], [1, 1, 1]]


@BACKENDS
def test_questions_in_any_order_and_of_any_chunk_get_the_same_ranks(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, facts = on_grid(1, 20, 3, 12), made_facts(1, 50, 20, 3)
    answers, views = KnownFacts.build([facts]), [View(20, 0)]
    whole = made_predictor(tables, backend).ranks(facts, views, answers)
    order = np.random.default_rng(0).permutation(50)
    shuffled = made_predictor(tables, backend).ranks(facts[order], views, answers)
    assert shuffled.tolist() == whole[order].tolist()
    monkeypatch.setattr(predictor_module, "CHUNK", 7)
    assert made_predictor(tables, backend).ranks(facts, views, answers).tolist() == whole.tolist()


@BACKENDS
def test_no_facts_have_no_ranks(backend: Backend) -> None:
    none = np.empty((0, 3), dtype=np.int32)
    ranks = made_predictor(on_grid(0, 5, 1, 3), backend).ranks(
        none, [View(5, 0), View(3, 0)], KnownFacts.build([none])
    )
    assert ranks.shape == (0, 2)


@EVERY_SCORE
def test_a_predictor_never_changes(score: Score) -> None:
    tables = on_grid(0, 5, 1, 4)
    frozen = TablePredictor.of(tables, score, backend=NUMBA)
    before = frozen.entity.clone(), frozen.relation.clone()
    tables.entity.zero_()
    tables.relation.zero_()
    assert torch.equal(frozen.entity, before[0])
    assert torch.equal(frozen.relation, before[1])


def test_the_rows_of_a_predictor_are_prepared() -> None:
    lengths = TablePredictor.of(on_grid(0, 5, 1, 3), TransE(), backend=NUMBA).entity.norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))


@BACKENDS
def test_the_best_answers_come_first_by_name(backend: Backend) -> None:
    names = Vocabulary(["zero", "one", "two", "three"], ["next"])
    tables = Parameters(torch.tensor([[0.0], [1.0], [2.1], [3.3]]), torch.tensor([[1.0], [-1.0]]))
    predictor = made_predictor(tables, backend, names)
    assert [answer.name for answer in predictor.top_k("one", "next", k=3)] == [
        "two",
        "one",
        "three",
    ]
    best, *_ = predictor.top_k("two", "next⁻¹")
    assert best.name == "one"
    assert best.score == pytest.approx(-0.1)
    assert len(predictor.top_k("two", "next", k=10)) == 4


def test_without_names_there_are_no_answers_by_name() -> None:
    with pytest.raises(ValueError, match="vocabulary"):
        made_predictor(on_grid(0, 5, 1, 3), True).top_k("a", "b")


def test_an_unknown_name_is_an_error() -> None:
    predictor = made_predictor(on_grid(0, 1, 1, 3), True, Vocabulary(["a"], ["r"]))
    with pytest.raises(UnknownName):
        predictor.top_k("b", "r")


class Shifted:
    """Entities that every relation sees elsewhere: relation r adds r to their first coordinate."""

    def __init__(self, tables: Parameters, backend: Backend) -> None:
        self.tables = tables
        self.backend = backend
        self.asked: list[int] = []

    def at(self, relation: int) -> TablePredictor:
        self.asked.append(relation)
        entity = self.tables.entity.clone()
        entity[::2, 0] += relation / 8
        return TablePredictor(
            entity, self.tables.relation, TransE(), self.backend, subject=self.tables.entity
        )

    def each(self, relations: Sequence[int]) -> Iterator[TablePredictor]:
        return map(self.at, relations)


@BACKENDS
def test_each_relation_ranks_with_its_own_entities(backend: Backend) -> None:
    tables, facts = on_grid(4, 20, 2, 6), made_facts(4, 60, 20, 2)
    facts[::3, 1] += 1
    answers = KnownFacts.build([facts])
    views = [View(20, 0), View(20, -1)]
    encoder = Shifted(tables, backend)
    ranks = RelationPredictor(encoder).ranks(facts, views, answers)
    assert encoder.asked == np.unique(facts[:, 1]).tolist()
    for fact, found in zip(facts, ranks, strict=True):
        alone = Shifted(tables, backend).at(int(fact[1])).ranks(fact[None], views, answers)
        assert found.tolist() == alone[0].tolist()


def test_an_entity_may_ask_with_another_row_than_it_answers_with() -> None:
    rows, shifted = torch.zeros(3, 2), torch.tensor([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]])
    asking = TablePredictor(
        shifted, torch.zeros(2, 2), TransE(), backend=TORCH, subject=rows + torch.tensor([5.0, 0.0])
    )
    fact = np.array([[0, 0, 2]], dtype=np.int32)
    assert asking.queries(fact).tolist() == [[5.0, 0.0]]
    assert asking.ranks(fact, [View(3, -1)], KnownFacts.build([])).tolist() == [[1.0]]


def test_best_answers_by_relation_have_names() -> None:
    names = Vocabulary(["a", "b", "c"], ["likes", "knows"])
    tables = Parameters(torch.tensor([[0.0], [1.0], [2.0]]), torch.zeros(4, 1))
    predictor = RelationPredictor(Shifted(tables, backend=TORCH))
    with pytest.raises(ValueError, match="without a vocabulary"):
        predictor.top_k("a", "likes")
    named = predictor.with_names(names)
    assert [answer.name for answer in named.top_k("a", "likes", 2)] == ["a", "b"]
    assert [answer.score for answer in named.top_k("a", "knows", 3)] == [-0.25, -1.0, -2.25]


@BACKENDS
@pytest.mark.parametrize("dim", [1, 7, 8, 40, 45])
def test_all_candidates_of_a_question_have_the_scores_of_their_facts(
    backend: Backend, dim: int
) -> None:
    tables = on_grid(0, 30, 2, dim)
    predictor = made_predictor(tables, backend)
    scores = predictor.candidate_scores(3, 2)
    facts = np.array([[3, 2, entity] for entity in range(30)], dtype=np.int32)
    expected = -(tables.entity[3] + tables.relation[2] - tables.entity).abs().sum(1)
    assert scores.dtype == np.float32
    assert np.array_equal(scores, expected.numpy())
    assert np.array_equal(scores, predictor.fact_scores(facts))


def test_the_best_come_first_and_of_equal_ones_the_first() -> None:
    scores = np.array([0.5, 2, 1, 2, -1, 1], dtype=np.float32)
    assert best_first(scores, 4).tolist() == [1, 3, 2, 5]
    assert best_first(scores, 3).tolist() == [1, 3, 2]
    assert best_first(scores, 99).tolist() == [1, 3, 2, 5, 0, 4]
    assert best_first(scores, 0).tolist() == []
    assert best_first(scores[:0], 3).tolist() == []


def normal(seed: int, entities: int, relations: int, dim: int) -> Parameters:
    """Rows whose scores hardly ever tie, but for some entities that are there twice."""
    generator = torch.Generator().manual_seed(seed)
    entity = torch.randn(entities, dim, generator=generator)
    entity[entities // 2 :: 3] = entity[0]
    return Parameters(entity, torch.randn(2 * relations, dim, generator=generator))


@EVERY_SCORE
@pytest.mark.parametrize("seed", range(3))
def test_twins_give_the_same_ranks_whatever_the_score(
    score: Score, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = score.is_bilinear or score.name == "transe"
    tables = (on_grid if exact else normal)(seed, 40, 3, 12)
    facts = made_facts(seed, 200, 40, 3)
    facts[::3, 1] += 1
    answers = KnownFacts.build([facts[::2], made_facts(seed + 1, 60, 40, 3), facts[1::2]])
    views = [View(40, 2), View(int(facts[:, 2].max()) + 1, 0), View(40, 1), View(40, -1)]
    relation = score.prepare_relations(tables.relation) if not exact else tables.relation
    fused, plain = (TablePredictor(tables.entity, relation, score, way) for way in (NUMBA, TORCH))
    expected = plain.ranks(facts, views, answers)
    assert fused.ranks(facts, views, answers).tolist() == expected.tolist()
    monkeypatch.setattr(numba_backend, "BLOCK", 90)
    monkeypatch.setattr(torch_backend, "CHUNK", 7)
    assert fused.ranks(facts, views, answers).tolist() == expected.tolist()
    assert plain.ranks(facts, views, answers).tolist() == expected.tolist()


@BACKENDS
@EVERY_SCORE
def test_entities_that_are_all_alike_get_the_middle_rank(score: Score, backend: Backend) -> None:
    tables = Parameters(torch.full((9, 6), 0.3), torch.full((2, 6), 0.1))
    facts = np.array([[0, 0, 4], [8, 1, 8]], dtype=np.int32)
    predictor = TablePredictor.of(tables, score, backend)
    assert predictor.ranks(facts, [View(9, 0)], KnownFacts.build([])).tolist() == [[5.0], [5.0]]


@BACKENDS
def test_what_is_not_a_number_gets_the_middle_rank(backend: Backend) -> None:
    tables = on_grid(0, 9, 1, 4)
    tables.relation[:] = torch.nan
    predictor = TablePredictor.of(tables, score_named("complex"), backend)
    facts = made_facts(0, 5, 9, 1)
    known = KnownFacts.build([facts])
    assert (predictor.ranks(facts, [View(9, -1)], known) == 5).all()


@BACKENDS
@EVERY_SCORE
def test_questions_and_facts_have_the_same_scores(score: Score, backend: Backend) -> None:
    predictor = TablePredictor.of(normal(0, 30, 2, 10), score, backend)
    facts = np.array([[3, 2, entity] for entity in range(30)], dtype=np.int32)
    scores = predictor.candidate_scores(3, 2)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, predictor.fact_scores(facts), rtol=1e-5, atol=1e-5)


@BACKENDS
@EVERY_SCORE
def test_several_queries_have_the_scores_of_each(score: Score, backend: Backend) -> None:
    predictor = TablePredictor.of(normal(0, 30, 2, 10), score, backend)
    queries = np.array([[3, 2, 0], [0, 1, 0], [3, 2, 7], [29, 0, 0]], dtype=np.int32)
    scores = predictor.query_scores(queries)
    assert scores.shape == (4, 30)
    for row, (subject, relation, _) in zip(scores, queries.tolist(), strict=True):
        expected = predictor.candidate_scores(subject, relation)
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-5)


@BACKENDS
@EVERY_SCORE
def test_nothing_is_asked_and_nothing_ranked(score: Score, backend: Backend) -> None:
    none = np.empty((0, 3), dtype=np.int32)
    predictor = TablePredictor.of(normal(0, 5, 1, 4), score, backend)
    assert predictor.ranks(none, [View(5, 0)], KnownFacts.build([none])).shape == (0, 1)


@EVERY_SCORE
def test_the_best_answer_is_where_the_question_leads(score: Score) -> None:
    """Among rows as long as it, of course."""
    names = Vocabulary([f"entity {k}" for k in range(30)], ["next"])
    tables = normal(1, 30, 1, 8)
    tables.entity[:] = torch.nn.functional.normalize(tables.entity, dim=1)
    head, relation = (
        score.prepare_entities(tables.entity[4]),
        score.prepare_relations(tables.relation[0]),
    )
    aim = score.compose(head, relation)
    tables.entity[20] = aim if score.name == "rotate" else torch.nn.functional.normalize(aim, dim=0)
    predictor = TablePredictor.of(tables, score, backend=NUMBA, names=names)
    assert predictor.top_k("entity 4", "next", 1)[0].name == "entity 20"
