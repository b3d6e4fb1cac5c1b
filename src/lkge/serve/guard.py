"""What stands before every request: measuring, headers, host, token, seats, size.

Each is an ASGI application around the next.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lkge.serve.limits import Limits
from lkge.serve.metrics import Metrics
from lkge.serve.problems import Refusal, busy, refusal_of

WRITING = frozenset({("POST", "/facts")})
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_stream(path: str) -> bool:
    """Whether a path answers for as long as there is news."""
    return path == "/events" or path.endswith("/events")


@dataclass(frozen=True)
class Access:
    """Who may do what. Writing needs the token as `Authorization: Bearer`; so does reading unless
    it is open, where a browser may give it as the password of any user."""

    token: str | None
    open_reading: bool

    def check(self, method: str, path: str, authorization: str) -> None:
        """Refuse a request without the right to what it asks for."""
        if (method, path) in WRITING:
            if self.token is None:
                raise Refusal(403, "this service was started without a token, so it only answers")
            if not self._is_token(_bearer(authorization)):
                raise _unauthorized("Bearer")
        elif not self.open_reading and not (
            self._is_token(_bearer(authorization)) or self._is_token(_password(authorization))
        ):
            raise _unauthorized('Basic realm="lkge: any user, the token as password", Bearer')

    def _is_token(self, given: str) -> bool:
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())


def _unauthorized(challenge: str) -> Refusal:
    detail = "send the token of this service: `Authorization: Bearer TOKEN`"
    return Refusal(401, detail, headers={"WWW-Authenticate": challenge})


def _bearer(authorization: str) -> str:
    scheme, _, given = authorization.partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _password(authorization: str) -> str:
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


class Gate:
    """Lets a request pass if `check` raises no Refusal."""

    def __init__(self, app: ASGIApp, check: Callable[[Scope], None]) -> None:
        self._app, self._check = app, check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope)
            except Refusal as refusal:
                await refusal.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)


def require_loopback_host(scope: Scope) -> None:
    """Refuse a page of another site that made its name point here (DNS rebinding)."""
    host = Headers(scope=scope).get("host", "")
    name = host if host.endswith("]") else host.rsplit(":", 1)[0]
    if name.lower() not in LOOPBACK_NAMES:
        detail = "this service is asked as localhost; let a proxy send `Host: localhost`"
        raise Refusal(421, detail)


def access_check(access: Access) -> Callable[[Scope], None]:
    """What lets through who has the right."""

    def check(scope: Scope) -> None:
        authorization = Headers(scope=scope).get("authorization", "")
        access.check(scope["method"], scope["path"].rstrip("/"), authorization)

    return check


class Measured:
    """Counts and times every answer, adds the security headers, and turns what nobody foresaw
    into a problem and a line in the log."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(SECURITY)
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except Exception as error:
            logging.getLogger("lkge.serve").exception("%s %s", scope["method"], scope["path"])
            if not status:
                await refusal_of(error).response()(scope, receive, answer)
        finally:
            route = getattr(scope.get("route"), "path", "")
            self._metrics.count(scope["method"], route, status)
            if not is_stream(scope["path"]):
                self._metrics.time(route, time.perf_counter() - started)


class Seats:
    """So many requests at a time, and so many streams; no one stands."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._free = {False: limits.requests, True: limits.streams}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        kind = is_stream(scope["path"])
        if not self._free[kind]:
            refusal = busy("too many requests at the same time", self._limits.retry_seconds)
            await refusal.response()(scope, receive, send)
            return
        self._free[kind] -= 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._free[kind] += 1


class Bodies:
    """Reads a body to its end before it is passed on: no larger and no slower than allowed."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(Headers(scope=scope).get("content-length", ""), receive)
        except Refusal as refusal:
            await refusal.response()(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replayed(body, receive), send)

    async def _read(self, length: str, receive: Receive) -> bytes | None:
        """The body, or None if the client went away."""
        if length.isdecimal() and int(length) > self._limits.body_bytes:
            raise self._too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > self._limits.body_bytes:
                        raise self._too_large()
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise Refusal(408, "the body did not arrive in time") from None

    def _too_large(self) -> Refusal:
        size = f"{self._limits.body_bytes:,} bytes"
        return Refusal(413, f"the body is larger than {size}; send it in parts")


def _replayed(body: bytes, receive: Receive) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
