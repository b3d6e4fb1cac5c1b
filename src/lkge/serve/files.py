"""The routes for files of facts: look first, then send."""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from lkge.data.fact_list import FactList
from lkge.data.named_facts import NamedFacts
from lkge.data.reading import at_most
from lkge.data.sources import read_source
from lkge.errors import SettingsError
from lkge.serve import limits, responses
from lkge.serve.auth import WRITE
from lkge.serve.errors import HTTPProblem, problem_responses
from lkge.serve.routes import ACCEPTED, ServiceDep
from lkge.store.preview import preview

router = APIRouter(tags=["ingest"], dependencies=[WRITE])

FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The content of a file of facts.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
PROBLEMS = problem_responses(401, 403, 413, 422)
Format = Annotated[
    Literal["tsv", "csv", "jsonl", "nt", "nq", "ttl", "trig", "rdf", "jsonld"],
    Query(description="The format of the file."),
]
Columns = Annotated[
    str | None,
    Query(
        max_length=limits.MAX_NAME,
        description="The columns of a table, by the names in its header, or by number without one.",
        examples=["subject=source,relation=type,object=target"],
    ),
]


@router.post("/facts/preview", responses=PROBLEMS, openapi_extra=FILE)
async def preview_file(
    request: Request, service: ServiceDep, format: Format, columns: Columns = None
) -> responses.Preview:
    """How a file of facts is read, and what of it is new. Nothing is stored."""
    data, reader = await request.body(), service.reader

    def look() -> responses.Preview:
        found = preview([_read(data, columns, format)], reader)
        fields = {name: getattr(found, name) for name in vars(found)}
        return responses.Preview.model_validate({"version": reader.version, **fields})

    return await service.active.use_inbox(look)


@router.post(
    "/facts/file",
    status_code=202,
    responses={**ACCEPTED, **PROBLEMS, **problem_responses(507)},
    openapi_extra=FILE,
)
async def post_file(
    request: Request,
    service: ServiceDep,
    response: Response,
    format: Format,
    columns: Columns = None,
    retract: Annotated[bool, Query(description="The facts are no longer true.")] = False,
    valid: Annotated[
        float, Query(ge=0, le=0.5, description="Share of the facts to hold out for evaluation.")
    ] = 0.02,
) -> responses.AcceptedFile:
    """Accept a file of facts, to learn or to retract, as `POST /facts` does.

    `warnings` says what was left out: literals, blank nodes, facts that stand there twice.
    """
    data = await request.body()
    read = await service.active.use_inbox(partial(_read, data, columns, format))
    facts = FactList.of(read)
    job = await service.accept(() if retract else facts, facts if retract else (), valid)
    response.headers["Location"] = f"/jobs/{job.id}"
    return responses.AcceptedFile(**job.model_dump(), warnings=list(read.warnings))


def _read(data: bytes, columns: str | None, format: str) -> NamedFacts:
    """The facts of a file, within the limits of a request."""
    try:
        with at_most(limits.FILE_MEMORY):
            (facts,) = read_source(data, columns, format)
    except SettingsError as error:
        raise HTTPProblem(422, str(error)) from error
    if len(facts) > limits.MAX_FACTS:
        raise HTTPProblem(
            413, f"the file has more than {limits.MAX_FACTS:,} facts; send it in parts"
        )
    names = (*facts.encoded.entities, *facts.encoded.relations)
    if max(map(len, names), default=0) > limits.MAX_NAME:
        raise HTTPProblem(422, f"a name has more than {limits.MAX_NAME:,} characters; shorten it")
    return facts
