"""What `predict` and `similar` answer is what a plain scan of all rows finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.store.living import ring

from lkge.errors import DamagedFile
from lkge.living import init
from lkge.models.parameters import host
from lkge.models.predictor import TablePredictor
from lkge.store.graph import LivingGraph
from lkge.store.reader import Reader

PEOPLE = 700
SCORES = ("complex", "distmult")


@pytest.fixture(scope="module", params=SCORES)
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LivingGraph:
    """A large ring, from which two people were removed."""
    folder = tmp_path_factory.mktemp("answers") / "KG"
    made = init(folder, dim=24, max_epochs=1, batch_size=512, seed=3, score=request.param)
    made.add(ring(0, PEOPLE), valid=0.02)
    for person in (17, 600):
        made.edit(remove=f"person {person}", consolidate=False)
    return made


def tables(reader: Reader) -> TablePredictor:
    assert isinstance(reader.predictor, TablePredictor)
    return reader.predictor


def plain_scores(reader: Reader, subject: int, relation: int) -> NDArray[np.float32]:
    """The product of the query with each row, as doubles."""
    found = tables(reader)
    query = host(found.queries(np.array([[subject, relation, 0]], dtype=np.int32))).astype(
        np.float64
    )
    return np.asarray((host(found.entity).astype(np.float64) @ query[0]).astype(np.float32))


def first(scores: NDArray[np.float32], left: NDArray[np.bool_], k: int) -> list[int]:
    """Best first, of equal ones the first; only those that are left."""
    order = sorted(np.flatnonzero(left).tolist(), key=lambda place: (-scores[place], place))
    return order[:k]


@pytest.mark.parametrize("options", [{}, {"new_only": True}, {"in_range": True}])
@pytest.mark.parametrize("k", [1, 10, 200, 10_000])
def test_predict_answers_as_a_plain_scan(
    graph: LivingGraph, options: dict[str, Any], k: int
) -> None:
    reader = graph.reader
    for person in (0, 5, 18, 699):
        query = reader.names.entity_id(f"person {person}"), 2
        relation = reader.names.relation_name(2)
        found = reader.predict(subject=f"person {person}", relation=relation, k=k, **options)
        scores, known = plain_scores(reader, *query), reader.answers.of(*query, reader.version)
        left = np.ones(reader.num_entities, np.bool_)
        if "in_range" in options:
            left[:] = False
            left[reader._judge.range_of(2)] = True
        if "new_only" in options:
            left[known] = False
        left[reader.removed] = False
        places = first(scores, left, k)
        assert [answer.entity for answer in found] == reader.names.entity_table.names(
            np.array(places)
        )
        assert [answer.score for answer in found] == scores[places].tolist()
        judged = reader._judge.judged(query, scores, np.array(places), scores[places], known)
        assert [answer.known for answer in found] == judged.known.tolist()
        plausibility = [answer.plausibility for answer in found]
        np.testing.assert_allclose(plausibility, judged.plausibility, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("k", [1, 10, 10_000])
def test_similar_answers_as_a_plain_scan(graph: LivingGraph, k: int) -> None:
    reader = graph.reader
    rows = host(tables(reader).entity).astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    for person in (0, 5, 699):
        number = reader.names.entity_id(f"person {person}")
        cosines = (rows @ rows[number] / (lengths * lengths[number])).astype(np.float32)
        left = np.ones(reader.num_entities, np.bool_)
        left[number] = left[reader.removed] = False
        places = first(cosines, left, k)
        found = reader.similar(f"person {person}", k)
        assert [one.entity for one in found] == reader.names.entity_table.names(np.array(places))
        assert [one.similarity for one in found] == cosines[places].tolist()


def test_plausibility_depends_neither_on_k_nor_on_what_is_left_out(graph: LivingGraph) -> None:
    relation = graph.reader.names.relation_name(0)
    every = graph.predict(subject="person 3", relation=relation, k=10_000)
    given = {answer.entity: answer.plausibility for answer in every}
    some = graph.predict(subject="person 3", relation=relation, k=5)
    some += graph.predict(subject="person 3", relation=relation, k=90, new_only=True)
    assert [given[answer.entity] for answer in some] == [answer.plausibility for answer in some]
    new = [answer.plausibility for answer in every if not answer.known]
    assert new == sorted(new, reverse=True)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_refused(graph: LivingGraph, value: float) -> None:
    reader = Reader(graph.store, graph.version)
    tables(reader).entity[650, 3] = value
    for _ in range(2):
        with pytest.raises(DamagedFile, match="not finite"):
            reader.similar("person 3")
        with pytest.raises(DamagedFile, match="not finite"):
            reader.predict(subject="person 3", relation=reader.names.relation_name(0))
