"""Queries that wait at the same time are answered in one pass over the tables."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

from lkge.errors import DataError
from lkge.serve.active import ActiveVersion
from lkge.store.reader import Prediction, Reader

Answered = tuple[Reader, list[Prediction]]


class QueryBatcher:
    """At most `passes` passes run at a time; the queries that come meanwhile wait for the next."""

    def __init__(self, active: ActiveVersion, passes: int) -> None:
        self._active, self._free = active, passes
        self._waiting: deque[tuple[Mapping[str, Any], asyncio.Future[Answered]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def predict(self, query: Mapping[str, Any]) -> Answered:
        """The answers to a query, given by the arguments of `Reader.predict`, and the version that
        answered."""
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting.append((query, future))
        if self._free:
            self._free -= 1
            task = asyncio.create_task(self._answer_waiting())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _answer_waiting(self) -> None:
        """Pass after pass until no query waits."""
        try:
            while self._waiting:
                size = min(len(self._waiting), self._active.reader.queries_at_once)
                part = [self._waiting.popleft() for _ in range(size)]
                await self._pass([each for each in part if not each[1].done()])
        finally:
            self._free += 1

    async def _pass(self, part: list[tuple[Mapping[str, Any], asyncio.Future[Answered]]]) -> None:
        queries = [query for query, _ in part]
        try:
            _, (reader, found) = await self._active.query(
                lambda reader: (reader, reader.predict_each(queries))
            )
        except Exception as error:
            for _, future in part:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answers in zip(part, found, strict=True):
            if future.done():  # its client has gone
                continue
            if isinstance(answers, DataError):
                future.set_exception(answers)
            else:
                future.set_result((reader, answers))
