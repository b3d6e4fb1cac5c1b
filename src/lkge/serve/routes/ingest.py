"""New facts, the jobs that learn them, and streams of their state."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Response
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPBearer

from lkge.serve import schemas, streams
from lkge.serve.errors import problem_responses
from lkge.serve.routes import ServiceDep

router = APIRouter(tags=["ingest"])

BEARER = Depends(HTTPBearer(auto_error=False, description="The token of the service."))
ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"headers": {"Location": {"description": "The job.", "schema": {"type": "string"}}}}
}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {}}}
}
Number = Annotated[int, Path(ge=1, le=2**53 - 1, description="The number of the batch.")]


@router.post(
    "/facts",
    status_code=202,
    dependencies=[BEARER],
    responses={**ACCEPTED, **problem_responses(400, 401, 403, 413, 422, 507)},
)
async def post_facts(
    facts: schemas.NewFacts, service: ServiceDep, response: Response
) -> schemas.Job:
    """Accept facts to learn and facts to retract.

    The response is sent when the facts are durable on disk. The service learns them in the
    background and then activates the new version; queries are answered all the time.
    """
    job = await service.accept(facts.facts, facts.retract, facts.valid)
    response.headers["Location"] = f"/jobs/{job.id}"
    return job


@router.get("/jobs", responses=problem_responses())
async def jobs(service: ServiceDep) -> schemas.JobList:
    """Batches that are not learned yet, and the last learned batches; newest first."""
    return schemas.JobList(jobs=service.jobs())


@router.get("/jobs/{number}", responses=problem_responses(404, 422))
async def job(number: Number, service: ServiceDep) -> schemas.Job:
    """The state of one batch."""
    return service.job(number)


@router.get(
    "/jobs/{number}/events",
    response_class=StreamingResponse,
    responses={**STREAM, **problem_responses(404, 422)},
)
async def job_events(number: Number, service: ServiceDep) -> StreamingResponse:
    """The same as server-sent events named `job`, until the status is done or failed."""
    service.job(number)
    return streams.response(
        "job", lambda: service.job(number), service.changes, lambda job: job.is_finished
    )


@router.get(
    "/events", response_class=StreamingResponse, responses={**STREAM, **problem_responses()}
)
async def events(service: ServiceDep) -> StreamingResponse:
    """The response of /health as server-sent events named `health`, after each change."""
    return streams.response("health", service.health, service.changes)
