"""Who may use the service: tokens, and which routes need them.

`Authentication` finds out what the token of a request allows. `authorize` is a dependency of every
route: a route needs the token for writing, unless `READ` is one of its dependencies.
"""

import base64
import hmac
import os
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from fastapi import Depends, Request
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from lkge.data.reading import open_regular
from lkge.errors import SettingsError
from lkge.serve.errors import HTTPMiddleware, HTTPProblem

MAX_TOKEN_FILE = 4096  # bytes


class Access(IntEnum):
    """What a token allows; each value includes the ones before."""

    NONE = 0
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Tokens:
    """The tokens of a service. Without `write` it is read-only. With `read`, reading needs one of
    the two tokens; without it, reading is open on loopback."""

    write: str | None = None
    read: str | None = None

    def __post_init__(self) -> None:
        for token in (self.write, self.read):
            if token is not None and not _can_be_sent(token):
                raise SettingsError("a token must be printable ASCII characters, at least one")
        if self.write is not None and self.write == self.read:
            raise SettingsError("the token for reading is that for writing; choose another")

    def access(self, authorization: str) -> Access:
        """What an Authorization header allows. As a password of basic authentication, which a
        browser sends by itself, a token allows no writing."""
        scheme, _, credentials = authorization.partition(" ")
        match scheme.lower():
            case "bearer":
                return self._access_of(credentials.strip())
            case "basic":
                return min(self._access_of(_password(credentials)), Access.READ)
        return Access.NONE

    def _access_of(self, given: str) -> Access:
        """Both comparisons are always made, each in constant time."""
        can_write, can_read = _is_equal(given, self.write), _is_equal(given, self.read)
        return Access.WRITE if can_write else Access.READ if can_read else Access.NONE


def token_from(path: Path | None, variable: str) -> str | None:
    """The token in a file, without white space around it; without a file, that in an environment
    variable; None if that is not set or empty."""
    if path is None:
        return os.environ.get(variable) or None
    try:
        with open_regular(path) as file:
            text = file.read(MAX_TOKEN_FILE + 1)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    token = text.decode("ascii", "replace").strip()
    if len(text) > MAX_TOKEN_FILE or not _can_be_sent(token):
        raise SettingsError(f"{path}: is no token; it must be one line of printable ASCII")
    return token


def _can_be_sent(token: str) -> bool:
    """Whether an HTTP header can have the token; one that is empty would let anyone in."""
    return token.isascii() and token.isprintable() and bool(token.strip())


def _is_equal(given: str, token: str | None) -> bool:
    return hmac.compare_digest(given.encode(), (token or "").encode()) and token is not None


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except ValueError:  # not base64, or not UTF-8
        return ""


class Authentication(HTTPMiddleware):
    """Sets `access` in the state of the request. If `open_reading` is false, a request without a
    token is refused before its body is read, whatever its path."""

    def __init__(self, app: ASGIApp, tokens: Tokens, open_reading: bool) -> None:
        super().__init__(app)
        self._tokens, self._open_reading = tokens, open_reading

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        access = self._tokens.access(Headers(scope=scope).get("authorization", ""))
        if not (self._open_reading or access):
            raise _unauthorized('Basic realm="lkge: any user, the token as password", Bearer')
        scope.setdefault("state", {}).update(access=access, is_read_only=not self._tokens.write)
        await self.app(scope, receive, send)


async def _marks_reading() -> None:
    """Nothing to check: `Authentication` has let the request in."""


READ = Depends(_marks_reading)
"""Dependency that marks a route or router as one that writes nothing."""
WRITE = Depends(HTTPBearer(auto_error=False, description="The token for writing."))
"""Dependency that documents in the OpenAPI schema that a route needs the token for writing."""


async def authorize(request: Request) -> None:
    """Dependency of every route: raise status 401 or 403 unless the request may use it."""
    if READ in request.scope["route"].dependencies:
        return
    if request.state.is_read_only:
        raise HTTPProblem(403, "this service was started without a token: it is read-only")
    match request.state.access:
        case Access.NONE:
            raise _unauthorized("Bearer")
        case Access.READ:
            detail = "a token for reading, or a password, allows no writing; send that for writing"
            raise HTTPProblem(403, f"{detail}: `Authorization: Bearer TOKEN`")


def _unauthorized(challenge: str) -> HTTPProblem:
    detail = "send the token of this service: `Authorization: Bearer TOKEN`"
    return HTTPProblem(401, detail, headers={"WWW-Authenticate": challenge})
