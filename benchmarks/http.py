"""A client that costs next to nothing, so that what is measured is the service."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from typing import Any, NamedTuple

SECONDS_IDLE = 10.0
"""A line that was free for longer is not used again: the service may be about to hang up."""


class Line(NamedTuple):
    """A connection, and since when it is free."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    since: float


class Client:
    """JSON over HTTP/1.1 to one host; lines that are free are used again."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._free: deque[Line] = deque()

    async def call(
        self, method: str, path: str, body: object = None, token: str = ""
    ) -> tuple[int, Any]:
        """Status and body of an answer."""
        line = await self._line()
        line.writer.write(self._request(method, path, body, token))
        status, answer, reusable = await _answer(line.reader)
        if reusable:
            self._free.append(line._replace(since=time.monotonic()))
        else:
            line.writer.close()
        return status, json.loads(answer)

    def close(self) -> None:
        """Hang up."""
        for line in self._free:
            line.writer.close()

    async def _line(self) -> Line:
        """The line that was used last, or a new one."""
        while self._free:
            line = self._free.pop()
            if time.monotonic() - line.since < SECONDS_IDLE:
                return line
            line.writer.close()
        return Line(*await asyncio.open_connection(self._host, self._port), 0.0)

    def _request(self, method: str, path: str, body: object, token: str) -> bytes:
        data = b"" if body is None else json.dumps(body).encode()
        head = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self._host}:{self._port}",
            "Content-Type: application/json",
            f"Content-Length: {len(data)}",
            *([f"Authorization: Bearer {token}"] if token else []),
        ]
        return "\r\n".join([*head, "", ""]).encode() + data


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bool]:
    """Status, body, and whether the line may be used again."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
    headers = {
        name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(first.split()[1]), body, headers.get("connection", "").lower() != "close"
