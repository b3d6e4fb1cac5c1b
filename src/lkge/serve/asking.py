"""Questions to the newest version: predict, similar, score."""

from __future__ import annotations

from fastapi import APIRouter

from lkge.serve.asked import Queries, Query, ScoreQuery, SimilarQuery
from lkge.serve.bodies import (
    BatchPredictions,
    Prediction,
    Predictions,
    ScoredFact,
    ScoredFacts,
    SimilarEntities,
    SimilarEntity,
)
from lkge.serve.here import Here
from lkge.serve.problems import responses
from lkge.store.reader import Reader

router = APIRouter(tags=["ask"], responses=responses(400, 404, 413, 422))


@router.post("/predict")
async def predict(query: Query, service: Here) -> Predictions:
    """The entities that best complete a fact, given either its subject or its object."""
    reader = service.reader
    answers = await service.current.work(lambda: _answers(reader, query))
    return Predictions(version=reader.version, answers=answers)


@router.post("/predict/batch")
async def predict_batch(asked: Queries, service: Here) -> BatchPredictions:
    """Several questions at once; one version answers them all. An unknown name fails them all."""
    reader = service.reader
    results = await service.current.work(lambda: [_answers(reader, one) for one in asked.queries])
    return BatchPredictions(version=reader.version, results=results)


@router.post("/similar")
async def similar(asked: SimilarQuery, service: Here) -> SimilarEntities:
    """The entities whose embeddings point most nearly the same way."""
    reader = service.reader
    found = await service.current.work(lambda: reader.similar(asked.entity, asked.k))
    entities = [SimilarEntity(**each._asdict()) for each in found]
    return SimilarEntities(version=reader.version, entities=entities)


@router.post("/score")
async def score(asked: ScoreQuery, service: Here) -> ScoredFacts:
    """How plausible given facts are, from 0 to 1, and whether they are known."""
    reader = service.reader
    found = await service.current.work(lambda: reader.score(asked.facts))
    facts = [ScoredFact(**each._asdict()) for each in found]
    return ScoredFacts(version=reader.version, facts=facts)


def _answers(reader: Reader, query: Query) -> list[Prediction]:
    found = reader.predict(
        subject=query.subject,
        relation=query.relation,
        object=query.object,
        k=query.k,
        new_only=query.new_only,
    )
    return [Prediction(**each._asdict()) for each in found]
