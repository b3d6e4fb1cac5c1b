"""The routes of the HTTP API in four groups: query, browse, ingest, jobs."""

from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.responses import PlainTextResponse, StreamingResponse

from lkge.serve import entity_map, limits, requests, responses, streams
from lkge.serve.auth import READ, WRITE
from lkge.serve.errors import problem_responses
from lkge.serve.service import FINISHED, Service
from lkge.store import explaining, finding, suggesting
from lkge.store import relations as relations_
from lkge.store.edits import edit_of
from lkge.store.reader import Reader

query = APIRouter(
    tags=["query"], responses=problem_responses(400, 404, 413, 422), dependencies=[READ]
)
browse = APIRouter(tags=["browse"], responses=problem_responses(422), dependencies=[READ])
jobs = APIRouter(tags=["ingest"], dependencies=[READ])
ingest = APIRouter(tags=["ingest"], dependencies=[WRITE])

LOCATION = {"Location": {"description": "The job.", "schema": {"type": "string"}}}
JOB_LINK = {"operationId": "job", "parameters": {"number": "$response.body#/id"}}
ACCEPTED: dict[int | str, dict[str, Any]] = {202: {"headers": LOCATION, "links": {"job": JOB_LINK}}}
LEARNED = {
    "predict": {
        "operationId": "predict",
        "requestBody": {
            "subject": "$request.body#/facts/0/0",
            "relation": "$request.body#/facts/0/1",
        },
    },
    "score": {"operationId": "score", "requestBody": {"facts": ["$request.body#/facts/0"]}},
    "undo": {"operationId": "post_facts", "requestBody": {"retract": "$request.body#/facts"}},
}
"""What to do with posted facts; unknown names get status 404 until they are learned."""
WITH_NAME: dict[int | str, dict[str, Any]] = {
    200: {
        "links": {
            "neighbourhood": {
                "operationId": "neighbourhood",
                "parameters": {"entity": "$response.body#/names/0"},
            },
            "similar": {
                "operationId": "similar",
                "requestBody": {"entity": "$response.body#/names/0"},
            },
            "remove": {
                "operationId": "post_edit",
                "requestBody": {"remove": "$response.body#/names/0"},
            },
        }
    }
}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {}}}
}


async def _service(request: Request) -> Service:
    return cast(Service, request.app.state.service)


ServiceDep = Annotated[Service, Depends(_service)]
"""A parameter of this type receives the service of the application."""
Number = Annotated[int, Path(ge=1, le=2**53 - 1, description="The number of the batch.")]
Prefix = Annotated[
    str, Query(max_length=limits.MAX_NAME, description="Prefix of the names, case-insensitive.")
]


@query.post("/predict")
async def predict(query: requests.Query, service: ServiceDep) -> responses.Predictions:
    """The entities that best complete a fact, given either its subject or its object."""
    return (await service.active.query(lambda reader: predictions(reader, query)))[1]


def predictions(reader: Reader, query: requests.Query) -> responses.Predictions:
    """The answers of a version to a query."""
    found = reader.predict(**query.arguments())
    names = (query.subject or query.object or "", query.relation, *(each[0] for each in found))
    return responses.Predictions(
        **_calibrated(reader),
        answers=[responses.Prediction(**each._asdict()) for each in found],
        labels=reader.labels.of(names),
    )


@query.post("/predict/relations")
async def predict_relations(
    query: requests.RelationQuery, service: ServiceDep
) -> responses.RelationPredictions:
    """The relations that best complete a fact between two entities."""

    def answered(reader: Reader) -> responses.RelationPredictions:
        found = relations_.predict_relations(reader, **query.model_dump())
        return responses.RelationPredictions(
            **_calibrated(reader),
            answers=[responses.RelationPrediction(**each._asdict()) for each in found],
            labels=reader.labels.of([query.subject, query.object, *(each[0] for each in found)]),
        )

    return (await service.active.query(answered))[1]


@query.post("/suggest")
async def suggest(query: requests.SuggestQuery, service: ServiceDep) -> responses.Suggestions:
    """The most plausible facts that are not known: of a subject or an object, of a relation, or of
    the graph. One such request is computed at a time."""

    def answered(reader: Reader) -> responses.Suggestions:
        most = suggesting.most_queries(reader.num_entities, limits.MAX_SUGGESTED_SCORES)
        found = suggesting.suggest(reader, **query.model_dump(), queries=most)
        return responses.Suggestions(
            **_calibrated(reader),
            **{**found._asdict(), "facts": [fact._asdict() for fact in found.facts]},
            labels=reader.labels.of(name for fact in found.facts for name in fact[:3]),
        )

    async with service.suggesting:
        return (await service.active.query(answered))[1]


@query.post("/explain")
async def explain(query: requests.ExplainQuery, service: ServiceDep) -> responses.Explanation:
    """The known facts that speak most for a fact, which may be known itself."""

    def answered(reader: Reader) -> responses.Explanation:
        found = explaining.explain(reader, **query.model_dump())
        facts = [found.fact[:3], *(reason[:3] for reason in found.reasons)]
        return responses.Explanation(
            **_calibrated(reader),
            fact=responses.ScoredFact(**found.fact._asdict()),
            reasons=[responses.Reason(**each._asdict()) for each in found.reasons],
            compared=found.compared,
            labels=reader.labels.of(name for fact in facts for name in fact),
        )

    return (await service.active.query(answered))[1]


def _calibrated(reader: Reader) -> dict[str, Any]:
    """Version and state of calibration."""
    return {"version": reader.version, "calibrated": reader.calibration.is_known}


@query.post("/predict/batch")
async def predict_batch(batch: requests.Queries, service: ServiceDep) -> responses.BatchPredictions:
    """Several queries, answered by the same version. An unknown name in one fails all of them."""
    return (await service.active.query(lambda reader: _predictions(reader, batch.queries)))[1]


def _predictions(reader: Reader, queries: list[requests.Query]) -> responses.BatchPredictions:
    """The answers to each query."""
    answered = [reader.predict(**query.arguments()) for query in queries]
    return responses.BatchPredictions(
        **_calibrated(reader),
        results=[[responses.Prediction(**each._asdict()) for each in one] for one in answered],
        labels=reader.labels.of(each.entity for one in answered for each in one),
    )


@query.post("/similar")
async def similar(query: requests.SimilarQuery, service: ServiceDep) -> responses.SimilarEntities:
    """The entities whose embeddings have the highest cosine similarity."""
    version, (found, labels) = await service.active.query(
        lambda reader: (reader.similar(query.entity, query.k), reader.labels)
    )
    entities = [responses.SimilarEntity(**each._asdict()) for each in found]
    named = labels.of([query.entity, *(each.entity for each in found)])
    return responses.SimilarEntities(version=version, entities=entities, labels=named)


@query.post("/score")
async def score(query: requests.ScoreQuery, service: ServiceDep) -> responses.ScoredFacts:
    """How plausible each object is for subject and relation, and what is known of the facts."""

    def answered(reader: Reader) -> responses.ScoredFacts:
        return responses.ScoredFacts(
            **_calibrated(reader),
            facts=[responses.ScoredFact(**each._asdict()) for each in reader.score(query.facts)],
            labels=reader.labels.of(name for fact in query.facts for name in fact),
        )

    return (await service.active.query(answered))[1]


@browse.get("/entities", responses=WITH_NAME)
async def entities(
    service: ServiceDep, prefix: Prefix = "", limit: Annotated[int, Query(ge=1, le=100)] = 10
) -> responses.Names:
    """Entities whose names start with `prefix`, in alphabetical order."""
    version, names = await service.active.query(lambda reader: reader.entities(prefix, limit))
    return responses.Names(version=version, names=names)


@browse.get("/find")
async def find(
    service: ServiceDep,
    text: Annotated[
        str, Query(max_length=limits.MAX_NAME, description="A part of the name or of the label.")
    ] = "",
    kind: Annotated[Literal["entity", "relation"], Query(description="What to find.")] = "entity",
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> responses.FoundNames:
    """Names that begin with a text, then those that contain it, then those whose labels do; if
    there is none, those that are most like it."""
    version, found = await service.active.query(
        lambda reader: finding.find(reader, text, limit, relations=kind == "relation")
    )
    names = [responses.FoundName(**each._asdict()) for each in found]
    return responses.FoundNames(version=version, names=names)


@browse.get("/relations")
async def relations(
    service: ServiceDep, prefix: Prefix = "", limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000
) -> responses.Names:
    """Relations whose names start with `prefix`, in alphabetical order."""
    version, names = await service.active.query(lambda reader: reader.relations(prefix, limit))
    return responses.Names(version=version, names=names)


@browse.get("/neighbourhood", responses=problem_responses(404))
async def neighbourhood(
    service: ServiceDep,
    entity: Annotated[requests.Name, Query(description="The entity in the middle.")],
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> responses.Neighbourhood:
    """Known facts of an entity, as subject and as object."""
    _, found = await service.active.query(
        lambda reader: entity_map.neighbourhood(reader, entity, limit)
    )
    return found


@browse.get("/map", name="entity_map")
async def map_(
    service: ServiceDep, limit: Annotated[int, Query(ge=1, le=limits.MAX_POINTS)] = 2_000
) -> responses.EntityMap:
    """Entities in the plane of the two principal components of their embeddings.

    If the graph has more than `limit` entities: half are the entities with most facts, half are
    spread evenly from the oldest to the newest entity. In a graph of more than 50,000 entities
    those with most facts are found in a sample of the facts.
    """

    def drawn(reader: Reader) -> responses.EntityMap:
        found = entity_map.entity_map(reader, limit)
        return found.model_copy(update={"labels": reader.labels.of(found.entities)})

    return (await service.active.query(drawn))[1]


@browse.get("/versions")
async def versions(
    service: ServiceDep,
    limit: Annotated[int, Query(ge=1, le=1_000, description="How many, newest kept.")] = 100,
) -> responses.Versions:
    """The history of the graph, with the MRR of each version on the held-out facts of all."""
    tags = await service.tags()

    def entries(reader: Reader) -> list[responses.VersionEntry]:
        return [
            responses.VersionEntry.model_validate(each).model_copy(
                update={"tags": tags.get(each.version, [])}
            )
            for each in reader.log[-limit:]
        ]

    version, found = await service.active.query(entries)
    return responses.Versions(current=version, versions=found)


@browse.get("/health")
async def health(service: ServiceDep) -> responses.Health:
    """The state of the service: active version, sizes, open jobs, whether learning fails."""
    return service.health()


@browse.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: ServiceDep) -> PlainTextResponse:
    """Counters, latencies and sizes, in the text format of Prometheus."""
    return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")


@ingest.post(
    "/facts",
    status_code=202,
    responses={
        202: {"headers": LOCATION, "links": {"job": JOB_LINK, **LEARNED}},
        **problem_responses(400, 401, 403, 413, 422, 507),
    },
)
async def post_facts(
    facts: requests.NewFacts, service: ServiceDep, response: Response
) -> responses.Job:
    """Accept facts to learn and facts to retract.

    The response is sent when the facts are durable on disk. The service learns them in the
    background and then activates the new version; queries are answered all the time.
    """
    job = await service.accept(facts.facts, facts.retract, facts.valid)
    response.headers["Location"] = f"/jobs/{job.id}"
    return job


@ingest.post(
    "/edit",
    status_code=202,
    responses={**ACCEPTED, **problem_responses(400, 401, 403, 404, 413, 422, 507)},
)
async def post_edit(
    edit: requests.NewEdit, service: ServiceDep, response: Response
) -> responses.Job:
    """Accept an edit: remove, rename or merge entities, or rename a relation.

    It is applied in the background, after the facts that wait. If nothing waits, names are checked
    at once; otherwise an edit that cannot be applied is a failed job.
    """
    job = await service.accept_edit(edit_of(**edit.model_dump(exclude_unset=True)))
    response.headers["Location"] = f"/jobs/{job.id}"
    return job


@ingest.post("/labels", responses=problem_responses(400, 401, 403, 413, 422, 507))
async def post_labels(labels: requests.NewLabels, service: ServiceDep) -> responses.LabelCount:
    """Set the texts that are shown for names. They are durable when the response is sent, and
    belong to no version."""
    return await service.add_labels(labels.labels)


@ingest.post(
    "/relearn",
    status_code=202,
    responses=problem_responses(401, 403, 409),
)
async def relearn(service: ServiceDep) -> responses.RelearnJob:
    """Learn all known facts at once, from scratch, as a new version.

    It runs in the background after the batches that wait; queries are answered by the old version
    until then. Its state is `relearn` in the response of /health. A second request while it runs
    changes nothing.
    """
    return await service.relearn()


@jobs.get("/jobs", responses=problem_responses())
async def job_list(service: ServiceDep) -> responses.JobList:
    """Batches that are not learned yet, and the last learned batches; newest first."""
    return responses.JobList(jobs=service.jobs())


@jobs.get("/jobs/{number}", responses=problem_responses(404, 422))
async def job(number: Number, service: ServiceDep) -> responses.Job:
    """The state of one batch."""
    return service.job(number)


@jobs.get(
    "/jobs/{number}/events",
    response_class=StreamingResponse,
    responses={**STREAM, **problem_responses(404, 422)},
)
async def job_events(number: Number, service: ServiceDep) -> StreamingResponse:
    """The same as server-sent events named `job`, until the status is done or failed."""
    service.job(number)
    states = streams.events(
        "job", lambda: service.job(number), service.changes, lambda job: job.status in FINISHED
    )
    return streams.response(states)


@jobs.get("/events", response_class=StreamingResponse, responses={**STREAM, **problem_responses()})
async def events(service: ServiceDep) -> StreamingResponse:
    """The response of /health as server-sent events named `health`, after each change."""
    return streams.response(streams.events("health", service.health, service.changes))
