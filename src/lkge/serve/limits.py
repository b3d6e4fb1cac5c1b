"""Limits of the service: sizes of a request, and what the process accepts at the same time."""

import asyncio
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lkge.serve.errors import HTTPMiddleware, HTTPProblem, overloaded

MAX_NAME = 1_000  # characters of a name
MAX_ANSWERS = 1_000  # answers to one query
MAX_QUERIES = 100  # queries in one request
MAX_LINES = 10_000  # queries as lines in one request
MAX_SCORED = 1_000  # facts to score in one request
MAX_FACTS = 10_000  # facts to add in one request, and as many to retract
FILE_MEMORY = 128 << 20  # bytes that reading the file of a request may take
MAX_POINTS = 5_000  # entities on the entity map


@dataclass(frozen=True)
class Limits:
    """What one process accepts at the same time; the rest gets status 503 with Retry-After."""

    connections: int = 4096
    head_seconds: float = 10.0
    """Time to send the first line and the headers of a request."""
    keep_alive_seconds: int = 30
    """Time to the next request on a connection, and to take some of a response."""
    body_bytes: int = 8 << 20
    body_seconds: float = 30.0
    body_grace: float = 5.0
    """Seconds after which a body must have come at `body_rate` bytes a second on average."""
    body_rate: int = 10_000
    unread_bytes: int = 64 << 20
    """Size of all bodies that have not come completely."""
    requests: int = 64
    streams: int = 64
    threads: int = 2
    waiting_batches: int = 100
    accepting: int = 16
    """Batches being written to disk, or waiting for the lock of the inbox."""
    accept_seconds: float = 5.0
    """Time that a batch waits for the lock of the inbox."""
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
    """Reads the whole body before the application runs; limits its size and its time, and the size
    of all bodies that are being read."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        super().__init__(app)
        self._limits = limits
        self._unread = 0

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal():
            self._check_size(int(length))
        body = bytearray()
        try:
            is_complete = await self._read(receive, body)
        except TimeoutError:
            raise HTTPProblem(408, "the body did not arrive in time") from None
        finally:
            self._unread -= len(body)
        if is_complete:
            await self.app(scope, _buffered(bytes(body), receive), send)

    async def _read(self, receive: Receive, body: bytearray) -> bool:
        """Read into `body`; False after a disconnect of the client. A TimeoutError if it comes too
        slowly: it has `body_grace` seconds and the time for what has come at the lowest rate."""
        limits, started = self._limits, asyncio.get_running_loop().time()
        async with asyncio.timeout_at(started + limits.body_grace) as deadline:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return False
                piece = message.get("body", b"")
                self._check_size(len(body) + len(piece))
                self._unread += len(piece)
                body += piece
                if not message.get("more_body"):
                    return True
                if self._unread > limits.unread_bytes:
                    raise overloaded("too many bodies at the same time", limits.retry_seconds)
                seconds = limits.body_grace + len(body) / limits.body_rate
                deadline.reschedule(started + min(seconds, limits.body_seconds))

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
