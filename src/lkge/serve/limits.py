"""Limits of the service: sizes of a request, and what the process accepts at the same time."""

import asyncio
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lkge.serve.errors import HTTPMiddleware, HTTPProblem, overloaded

MAX_NAME = 1_000  # characters of a name
MAX_ANSWERS = 1_000  # answers to one query
MAX_QUERIES = 100  # queries in one request
MAX_SCORED = 1_000  # facts to score in one request
MAX_FACTS = 10_000  # facts to add in one request, and as many to retract
MAX_POINTS = 5_000  # entities on the entity map


@dataclass(frozen=True)
class Limits:
    """What one process accepts at the same time; the rest gets status 503 with Retry-After."""

    body_bytes: int = 8 << 20
    body_seconds: float = 30.0
    requests: int = 64
    streams: int = 64
    threads: int = 2
    waiting_batches: int = 100
    retry_seconds: int = 1


def is_stream(path: str) -> bool:
    """Whether a path answers with a stream of events."""
    return path.endswith("/events")


class ConcurrencyLimit(HTTPMiddleware):
    """Limits open requests and open streams, each on its own; no request waits in a queue."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        super().__init__(app)
        self._retry_seconds = limits.retry_seconds
        self._free = {False: limits.requests, True: limits.streams}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = is_stream(scope["path"])
        if not self._free[kind]:
            raise overloaded("too many requests at the same time", self._retry_seconds)
        self._free[kind] -= 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._free[kind] += 1


class BodyLimit(HTTPMiddleware):
    """Reads the whole body before the application runs; limits its size and its time."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        super().__init__(app)
        self._limits = limits

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal():
            self._check_size(int(length))
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await self._read(receive)
        except TimeoutError:
            raise HTTPProblem(408, "the body did not arrive in time") from None
        if body is not None:
            await self.app(scope, _buffered(body, receive), send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body, or None after a disconnect of the client."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            self._check_size(len(body))
            if not message.get("more_body"):
                return bytes(body)

    def _check_size(self, size: int) -> None:
        limit = self._limits.body_bytes
        if size > limit:
            raise HTTPProblem(413, f"the body is larger than {limit:,} bytes; send it in parts")


def _buffered(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body first."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message
