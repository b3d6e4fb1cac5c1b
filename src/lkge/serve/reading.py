"""Two more ways to ask /predict: by GET, and many queries as lines of JSON."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.responses import StreamingResponse

from lkge.errors import DataError
from lkge.serve import limits, requests, responses, routes
from lkge.serve.auth import READ
from lkge.serve.errors import HTTPProblem, problem_responses, to_problem
from lkge.serve.service import Service
from lkge.store.reader import Reader

router = APIRouter(
    tags=["query"], responses=problem_responses(400, 404, 413, 422), dependencies=[READ]
)
LINES = "application/x-ndjson"
AT_ONCE = 16
"""Queries that are computed before others have their turn."""
LINES_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            LINES: {
                "schema": {
                    "type": "string",
                    "examples": [
                        '{"subject": "Paris", "relation": "capital of", "k": 5}\n'
                        '{"object": "France", "relation": "capital of"}\n'
                    ],
                }
            }
        },
    }
}
LINES_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {"description": "A line for each query.", "content": {LINES: {}}}
}
OptionalName = Annotated[str | None, Query(min_length=1, max_length=limits.MAX_NAME)]


@router.get("/predict")
async def predict_get(
    service: routes.ServiceDep,
    relation: Annotated[requests.Name, Query(description="A relation; `⁻¹` inverts it.")],
    subject: OptionalName = None,
    object: OptionalName = None,
    k: Annotated[int, Query(ge=1, le=limits.MAX_ANSWERS)] = 10,
    new_only: bool = False,
    in_range: bool = False,
) -> responses.Predictions:
    """The same as the POST of this path, with either subject or object."""
    given = {"subject": subject, "object": object}
    asked = {name: value for name, value in given.items() if value is not None}
    options = {"relation": relation, "k": k, "new_only": new_only, "in_range": in_range}
    return await routes.predict(_validated(requests.Query, {**asked, **options}), service)


@router.post(
    "/predict/lines",
    response_class=StreamingResponse,
    responses=LINES_RESPONSE,
    openapi_extra=LINES_BODY,
)
async def predict_lines(request: Request, service: routes.ServiceDep) -> StreamingResponse:
    """Queries as lines of JSON, and a line for each with its answers or its problem, in their
    order. All are answered by the same version, and sent as they are found."""
    lines = [line for line in (await request.body()).splitlines() if line.strip()]
    if not 0 < len(lines) <= limits.MAX_LINES:
        raise HTTPProblem(422, f"give from 1 to {limits.MAX_LINES:,} lines, each a query")
    queries = [_query_of(line, number) for number, line in enumerate(lines, 1)]
    return StreamingResponse(_answers(service, queries), media_type=LINES)


async def _answers(service: Service, queries: list[requests.Query]) -> AsyncIterator[str]:
    reader = service.reader
    for start in range(0, len(queries), AT_ONCE):
        part = queries[start : start + AT_ONCE]
        yield await service.active.compute(reader, partial(_text, part))


def _text(queries: list[requests.Query], reader: Reader) -> str:
    """The lines of some queries."""
    lines = []
    for query in queries:
        answer: BaseModel
        try:
            answer = responses.Predictions(
                version=reader.version,
                calibrated=reader.calibration.is_known,
                answers=[
                    responses.Prediction(**each._asdict())
                    for each in reader.predict(**query.arguments())
                ],
            )
        except DataError as error:
            answer = to_problem(error).problem
        lines.append(answer.model_dump_json(exclude_none=True) + "\n")
    return "".join(lines)


def _query_of(line: bytes, number: int) -> requests.Query:
    """The query of a line; a problem names the line."""
    try:
        return requests.Query.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"/{part}" for part in first["loc"])
        status = 400 if first["type"] == "json_invalid" else 422
        message = first["msg"].removeprefix("Value error, ")
        detail = ": ".join(filter(None, (f"line {number}", place, message)))
        raise HTTPProblem(status, detail) from error


def _validated(kind: type[requests.Query], values: dict[str, Any]) -> requests.Query:
    """A query from the parameters of a URL."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        faults = [{**each, "loc": ("query", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(faults) from error
