"""Everything that goes wrong, told as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from lkge.errors import DataError, LkgeError, UnknownName

PROBLEM = "application/problem+json"
MOST_FAULTS = 20
"""Faults of one request that are told."""


class Fault(BaseModel):
    """One thing that is wrong with a request."""

    pointer: str = Field(description="Where, such as `/body/facts/0/2`.")
    detail: str = Field(description="What is wrong there.")


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = Field(default="about:blank", description="The title says it all.")
    title: str = Field(description="The meaning of the status.", examples=["Not Found"])
    status: int = Field(description="The HTTP status.", examples=[404])
    detail: str = Field(
        description="What happened and what to do.",
        examples=["there is no entity named 'Pariss'. Did you mean 'Paris'?"],
    )
    nearest: list[str] | None = Field(
        default=None, description="Names that exist and are spelt alike.", examples=[["Paris"]]
    )
    errors: list[Fault] | None = Field(default=None, description="Each fault of the request.")


class Refusal(Exception):
    """A request that is not served, and the answer it gets."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        nearest: Sequence[str] | None = None,
        errors: Sequence[Fault] | None = None,
    ) -> None:
        super().__init__(detail)
        self.headers = dict(headers or {})
        self.problem = Problem(
            title=HTTPStatus(status).phrase,
            status=status,
            detail=detail,
            nearest=None if nearest is None else list(nearest),
            errors=None if errors is None else list(errors),
        )

    def response(self) -> Response:
        """What the client reads."""
        return Response(
            self.problem.model_dump_json(exclude_none=True),
            self.problem.status,
            self.headers,
            media_type=PROBLEM,
        )


def busy(detail: str, seconds: int) -> Refusal:
    """Too much at once: come back in `seconds`."""
    return Refusal(503, detail, headers={"Retry-After": str(seconds)})


def refusal_of(error: Exception) -> Refusal:
    """How an error looks from outside; what nobody foresaw keeps its words to itself."""
    match error:
        case Refusal():
            return error
        case RequestValidationError():
            return _invalid(error.errors())
        case HTTPException():
            return Refusal(error.status_code, error.detail, headers=error.headers)
        case UnknownName():
            return Refusal(404, str(error), nearest=error.nearest)
        case DataError():
            return Refusal(422, str(error))
        case LkgeError(__cause__=OSError(errno=errno.ENOSPC | errno.EDQUOT)):
            return Refusal(507, str(error))
        case LkgeError():
            return Refusal(503, str(error))
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return Refusal(507, "the disk is full; nothing of this request was kept")
        case _:
            return Refusal(500, "something broke that should not; the log of the service has it")


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that an operation documents."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {PROBLEM: schema}}
        for status in (*statuses, 503)
    }


def tell_problems(app: FastAPI) -> None:
    """Let every foreseen error of `app` be told as a problem."""

    async def tell(request: Request, error: Exception) -> Response:
        refusal = refusal_of(error)
        if refusal.problem.status == 500:
            raise error
        return refusal.response()

    for kind in (Refusal, RequestValidationError, HTTPException, LkgeError, OSError):
        app.add_exception_handler(kind, tell)


def _invalid(errors: Sequence[Mapping[str, Any]]) -> Refusal:
    faults = [
        Fault(pointer=_pointer(each["loc"]), detail=each["msg"].removeprefix("Value error, "))
        for each in errors[:MOST_FAULTS]
    ]
    if any(each["type"] == "json_invalid" for each in errors):
        return Refusal(400, "the body is not valid JSON", errors=faults)
    first = faults[0] if faults else Fault(pointer="/", detail="not understood")
    return Refusal(422, f"{first.pointer}: {first.detail}", errors=faults)


def _pointer(place: Sequence[str | int]) -> str:
    """A JSON pointer; the first part tells body, query or path."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in place)
