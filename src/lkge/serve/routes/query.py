"""Queries to the active version: predict, similar, score."""

from fastapi import APIRouter

from lkge.serve import schemas
from lkge.serve.errors import problem_responses
from lkge.serve.routes import ServiceDep
from lkge.store.reader import Reader

router = APIRouter(tags=["query"], responses=problem_responses(400, 404, 413, 422))


@router.post("/predict")
async def predict(query: schemas.Query, service: ServiceDep) -> schemas.Predictions:
    """The entities that best complete a fact, given either its subject or its object."""
    reader = service.reader
    answers = await service.active.compute(lambda: _predict(reader, query))
    return schemas.Predictions(version=reader.version, answers=answers)


@router.post("/predict/batch")
async def predict_batch(batch: schemas.Queries, service: ServiceDep) -> schemas.BatchPredictions:
    """Several queries, answered by the same version. An unknown name in one fails all of them."""
    reader = service.reader
    results = await service.active.compute(lambda: [_predict(reader, q) for q in batch.queries])
    return schemas.BatchPredictions(version=reader.version, results=results)


@router.post("/similar")
async def similar(query: schemas.SimilarQuery, service: ServiceDep) -> schemas.SimilarEntities:
    """The entities whose embeddings have the highest cosine similarity."""
    reader = service.reader
    found = await service.active.compute(lambda: reader.similar(query.entity, query.k))
    entities = [schemas.SimilarEntity(**each._asdict()) for each in found]
    return schemas.SimilarEntities(version=reader.version, entities=entities)


@router.post("/score")
async def score(query: schemas.ScoreQuery, service: ServiceDep) -> schemas.ScoredFacts:
    """How plausible given facts are, from 0 to 1, and whether they are known."""
    reader = service.reader
    scored = await service.active.compute(lambda: reader.score(query.facts))
    facts = [schemas.ScoredFact(**each._asdict()) for each in scored]
    return schemas.ScoredFacts(version=reader.version, facts=facts)


def _predict(reader: Reader, query: schemas.Query) -> list[schemas.Prediction]:
    return [schemas.Prediction(**each._asdict()) for each in reader.predict(**query.model_dump())]
