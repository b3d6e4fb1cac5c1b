"""Errors as `application/problem+json` (RFC 9457), and the base class of the middleware."""

import errno
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from lkge.errors import DataError, LkgeError, StoreLocked, UnknownName

PROBLEM = "application/problem+json"
RETRY_SECONDS = 1  # after which a client may ask again while the store is locked
MAX_FAULTS = 20  # faults of one request that a problem lists


class Fault(BaseModel):
    """One fault of a request."""

    pointer: str = Field(description="JSON pointer, such as `/body/facts/0/2`.")
    detail: str = Field(description="What is wrong there.")


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(default="about:blank", description="No more specific than the title.")
    title: str = Field(description="The name of the status.", examples=["Not Found"])
    status: int = Field(description="The HTTP status.", examples=[404])
    detail: str = Field(
        description="What happened and what to do.",
        examples=["there is no entity named 'Pariss'. Did you mean 'Paris'?"],
    )
    nearest: list[str] | None = Field(
        default=None, description="Known names with a similar spelling.", examples=[["Paris"]]
    )
    errors: list[Fault] | None = Field(default=None, description="The faults of the request.")


class HTTPProblem(Exception):
    """A request that fails with a problem; `fields` are optional fields of `Problem`."""

    def __init__(
        self, status: int, detail: str, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(detail)
        self.headers = dict(headers or {})
        title = HTTPStatus(status).phrase
        self.problem = Problem(title=title, status=status, detail=detail, **fields)

    def response(self) -> Response:
        """The HTTP response."""
        body = self.problem.model_dump_json(exclude_none=True)
        return Response(body, self.problem.status, self.headers, media_type=PROBLEM)


def overloaded(detail: str, retry_seconds: int) -> HTTPProblem:
    """Status 503 with the time after which to retry."""
    return HTTPProblem(503, detail, headers={"Retry-After": str(retry_seconds)})


class HTTPMiddleware(ABC):
    """ASGI middleware for HTTP requests; an HTTPProblem raised in `handle` is the response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            await self.handle(scope, receive, send)
        except HTTPProblem as problem:
            await problem.response()(scope, receive, send)

    @abstractmethod
    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call `self.app`, or raise an HTTPProblem before the response starts."""


def to_problem(error: Exception) -> HTTPProblem:
    """The problem of an error; the message of an unexpected error stays private."""
    match error:
        case HTTPProblem():
            return error
        case RequestValidationError():
            return _invalid(error.errors())
        case HTTPException():
            return HTTPProblem(error.status_code, error.detail, headers=error.headers)
        case UnknownName():
            return HTTPProblem(404, str(error), nearest=list(error.nearest))
        case DataError():
            return HTTPProblem(422, str(error))
        case LkgeError(__cause__=OSError(errno=errno.ENOSPC | errno.EDQUOT)):
            return HTTPProblem(507, str(error))
        case StoreLocked():
            return overloaded(str(error), RETRY_SECONDS)
        case LkgeError():
            return HTTPProblem(503, str(error))
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return HTTPProblem(507, "the disk is full; nothing of this request was stored")
        case _:
            return HTTPProblem(500, "an unexpected error; see the log of the service")


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems of an operation in its OpenAPI schema; 503 is always one of them."""
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in (*statuses, 503)
    }


def add_error_handlers(app: FastAPI) -> None:
    """Answer each expected error with its problem; an unexpected one goes to the middleware."""

    async def handle(request: Request, error: Exception) -> Response:
        problem = to_problem(error)
        if problem.problem.status == 500:
            raise error
        return problem.response()

    for kind in (HTTPProblem, RequestValidationError, HTTPException, LkgeError, OSError):
        app.add_exception_handler(kind, handle)


def _invalid(errors: Sequence[Mapping[str, Any]]) -> HTTPProblem:
    faults = [
        Fault(pointer=_pointer(each["loc"]), detail=each["msg"].removeprefix("Value error, "))
        for each in errors[:MAX_FAULTS]
    ]
    if any(each["type"] == "json_invalid" for each in errors):
        return HTTPProblem(400, "the body is not valid JSON", errors=faults)
    first = faults[0] if faults else Fault(pointer="/", detail="not valid")
    return HTTPProblem(422, f"{first.pointer}: {first.detail}", errors=faults)


def _pointer(location: Sequence[str | int]) -> str:
    """A JSON pointer; its first part is body, query or path."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in location)
