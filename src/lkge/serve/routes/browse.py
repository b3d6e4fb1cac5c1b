"""Read access to the graph: names, neighbourhoods, the entity map, versions, health, metrics."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse

from lkge.serve import limits, schemas
from lkge.serve.errors import problem_responses
from lkge.serve.routes import ServiceDep

router = APIRouter(tags=["browse"], responses=problem_responses(422))

Prefix = Annotated[
    str, Query(max_length=limits.MAX_NAME, description="Prefix of the names, case-insensitive.")
]


@router.get("/entities")
async def entities(
    service: ServiceDep, prefix: Prefix = "", limit: Annotated[int, Query(ge=1, le=100)] = 10
) -> schemas.Names:
    """Entities whose names start with `prefix`, in alphabetical order."""
    reader = service.reader
    names = await service.active.compute(lambda: reader.entities(prefix, limit))
    return schemas.Names(version=reader.version, names=names)


@router.get("/relations")
async def relations(
    service: ServiceDep, prefix: Prefix = "", limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000
) -> schemas.Names:
    """Relations whose names start with `prefix`, in alphabetical order."""
    reader = service.reader
    names = await service.active.compute(lambda: reader.relations(prefix, limit))
    return schemas.Names(version=reader.version, names=names)


@router.get("/neighbourhood", responses=problem_responses(404))
async def neighbourhood(
    service: ServiceDep,
    entity: Annotated[schemas.Name, Query(description="The entity in the middle.")],
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> schemas.Neighbourhood:
    """Known facts of an entity, as subject and as object."""
    view = service.active.view
    return await service.active.compute(lambda: view.neighbourhood(entity, limit))


@router.get("/map")
async def entity_map(
    service: ServiceDep, limit: Annotated[int, Query(ge=1, le=limits.MAX_POINTS)] = 2_000
) -> schemas.EntityMap:
    """Entities in the plane of the two principal components of their embeddings.

    If the graph has more than `limit` entities: half are the entities with most facts, half are
    spread evenly from the oldest to the newest entity.
    """
    view = service.active.view
    return await service.active.compute(lambda: view.entity_map(limit))


@router.get("/versions")
async def versions(
    service: ServiceDep,
    limit: Annotated[int, Query(ge=1, le=1_000, description="How many, newest kept.")] = 100,
) -> schemas.Versions:
    """The history of the graph, with the MRR of each version on the held-out facts of all."""
    reader = service.reader
    entries = [schemas.VersionEntry.model_validate(each) for each in reader.log[-limit:]]
    return schemas.Versions(current=reader.version, versions=entries)


@router.get("/health")
async def health(service: ServiceDep) -> schemas.Health:
    """The state of the service: active version, sizes, open jobs, whether learning fails."""
    return service.health()


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: ServiceDep) -> PlainTextResponse:
    """Counters, latencies and sizes, in the text format of Prometheus."""
    return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")
