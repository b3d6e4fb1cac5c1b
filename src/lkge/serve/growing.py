"""New facts, the jobs that learn them, and the news as it comes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Response
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel

from lkge.serve.asked import NewFacts
from lkge.serve.bodies import Job, JobList
from lkge.serve.here import Here
from lkge.serve.problems import responses
from lkge.serve.streams import event_stream, told

router = APIRouter(tags=["grow"])

STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events.", "content": {"text/event-stream": {}}}
}
Number = Annotated[int, Path(ge=1, le=2**53 - 1, description="The number of the batch.")]


@router.post(
    "/facts",
    status_code=202,
    dependencies=[Depends(HTTPBearer(auto_error=False, description="The token of the service."))],
    responses={
        202: {
            "headers": {
                "Location": {"description": "Where to follow it.", "schema": {"type": "string"}}
            }
        },
        **responses(400, 401, 403, 413, 422, 507),
    },
)
async def post_facts(facts: NewFacts, service: Here, response: Response) -> Job:
    """Accept facts to learn and facts to retract.

    When this answers, they are safe on the disk; they become a new version in the background, and
    no question is dropped meanwhile.
    """
    job = await service.accept(facts.facts, facts.retract, facts.valid)
    response.headers["Location"] = f"/jobs/{job.id}"
    return job


@router.get("/jobs", responses=responses())
async def jobs(service: Here) -> JobList:
    """Batches that are not learned yet, and the last that were; newest first."""
    return JobList(jobs=service.jobs())


@router.get("/jobs/{number}", responses=responses(404, 422))
async def job(number: Number, service: Here) -> Job:
    """How far a batch is."""
    return service.job(number)


@router.get(
    "/jobs/{number}/events",
    response_class=StreamingResponse,
    responses={**STREAM, **responses(404, 422)},
)
async def job_events(number: Number, service: Here) -> StreamingResponse:
    """The same as server-sent events called `job`, up to the one with status done or failed."""
    service.job(number)
    return event_stream(told("job", lambda: service.job(number), service.pulse, _is_ended))


@router.get("/events", response_class=StreamingResponse, responses={**STREAM, **responses()})
async def events(service: Here) -> StreamingResponse:
    """What /health says, as server-sent events called `health`, whenever it changes."""
    return event_stream(told("health", service.health, service.pulse, lambda state: False))


def _is_ended(state: BaseModel) -> bool:
    return isinstance(state, Job) and state.status in ("done", "failed")
