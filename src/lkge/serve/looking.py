"""What is in the graph and how it grew: names, neighbourhoods, the map, versions, health."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi import Query as Parameter
from fastapi.responses import PlainTextResponse

from lkge.serve.asked import Name
from lkge.serve.bodies import Health, Map, Names, Neighbourhood, VersionEntry, Versions
from lkge.serve.here import Here
from lkge.serve.limits import MAX_NAME, MAX_POINTS
from lkge.serve.problems import responses

router = APIRouter(tags=["look"], responses=responses(422))

Prefix = Annotated[
    str, Parameter(max_length=MAX_NAME, description="How the names begin, in any case.")
]


@router.get("/entities")
async def entities(
    service: Here,
    prefix: Prefix = "",
    limit: Annotated[int, Parameter(ge=1, le=100)] = 10,
) -> Names:
    """Entities whose names begin with `prefix`, in dictionary order."""
    reader = service.reader
    names = await service.current.work(lambda: reader.entities(prefix, limit))
    return Names(version=reader.version, names=names)


@router.get("/relations")
async def relations(
    service: Here,
    prefix: Prefix = "",
    limit: Annotated[int, Parameter(ge=1, le=10_000)] = 1_000,
) -> Names:
    """Relations whose names begin with `prefix`, in dictionary order."""
    reader = service.reader
    names = await service.current.work(lambda: reader.relations(prefix, limit))
    return Names(version=reader.version, names=names)


@router.get("/neighbourhood", responses=responses(404))
async def neighbourhood(
    service: Here,
    entity: Annotated[Name, Parameter(description="The entity in the middle.")],
    limit: Annotated[int, Parameter(ge=1, le=500)] = 50,
) -> Neighbourhood:
    """Known facts of an entity, in both directions."""
    atlas = service.current.atlas
    return await service.current.work(lambda: atlas.neighbourhood(entity, limit))


@router.get("/map")
async def map_of_entities(
    service: Here,
    limit: Annotated[int, Parameter(ge=1, le=MAX_POINTS)] = 2_000,
) -> Map:
    """Entities in the plane in which their embeddings spread most. In a graph of more than
    `limit` entities: those with most facts, and as many evenly from the oldest to the newest."""
    atlas = service.current.atlas
    return await service.current.work(lambda: atlas.map(limit))


@router.get("/versions")
async def versions(
    service: Here,
    limit: Annotated[int, Parameter(ge=1, le=1_000, description="The last so many.")] = 100,
) -> Versions:
    """The history of the graph, with the MRR of each version on the held-out facts of all."""
    reader = service.reader
    entries = [VersionEntry.model_validate(each) for each in reader.log[-limit:]]
    return Versions(current=reader.version, versions=entries)


@router.get("/health")
async def health(service: Here) -> Health:
    """Whether the service answers, and whether it keeps up with learning."""
    return service.health()


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: Here) -> PlainTextResponse:
    """Counters, latencies and sizes, for Prometheus."""
    return PlainTextResponse(
        service.metrics.text(service.gauges()), media_type="text/plain; version=0.0.4"
    )
