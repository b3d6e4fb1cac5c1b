"""Queries that wait at the same time are answered together, each with its own answers or error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lkge import living
from lkge.errors import DataError, UnknownName
from lkge.serve.batching import QueryBatcher
from lkge.store.reader import open_reader


class FakeReader:
    queries_at_once = 3

    def predict_each(self, queries: list[dict[str, Any]]) -> list[Any]:
        return [DataError("no") if query["k"] == 2 else [query["k"]] for query in queries]


class FakeActive:
    """Answers when the gate is open; records how many queries each pass has."""

    def __init__(self) -> None:
        self.reader, self.gate = FakeReader(), asyncio.Event()
        self.sizes, self.error = list[int](), False

    async def query(self, task: Callable[[Any], Any]) -> tuple[int, Any]:
        await self.gate.wait()
        if self.error:
            raise RuntimeError("broken")
        reader, found = task(self.reader)
        self.sizes.append(len(found))
        return 1, (reader, found)


async def asked(count: int, passes: int, error: bool = False) -> tuple[list[Any], list[int]]:
    active: Any = FakeActive()
    active.error = error
    batcher = QueryBatcher(active, passes)
    tasks = [asyncio.create_task(batcher.predict({"k": number})) for number in range(count)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(batcher.predict({"k": count})))
    tasks[1].cancel()
    await asyncio.sleep(0.01)
    active.gate.set()
    return await asyncio.gather(*tasks, return_exceptions=True), active.sizes


def test_queries_that_wait_are_answered_together() -> None:
    found, sizes = asyncio.run(asked(7, 1))
    assert [answers for _, answers in (found[0], *found[3:])] == [[0], [3], [4], [5], [6], [7]]
    assert isinstance(found[1], asyncio.CancelledError)
    assert isinstance(found[2], DataError)
    assert sum(sizes) in (7, 8)
    assert max(sizes) == 3


def test_an_unexpected_error_ends_all_queries_of_a_pass_and_no_other() -> None:
    found, _ = asyncio.run(asked(4, 2, error=True))
    assert [type(each) for each in found] == [
        *(RuntimeError, asyncio.CancelledError, RuntimeError, RuntimeError, RuntimeError)
    ]


def test_several_queries_have_the_answers_of_each(tmp_path: Path) -> None:
    graph = living.init(tmp_path / "KG", dim=4, backend="torch", max_epochs=2)
    graph.add([(f"a{number}", "r", f"b{number % 5}") for number in range(20)], valid=0.0)
    reader = open_reader(tmp_path / "KG")
    assert reader.queries_at_once > 1
    queries: list[dict[str, Any]] = [
        {"subject": f"a{number}", "relation": "r", "k": 3, "new_only": number % 2 == 0}
        for number in range(10)
    ]
    *each, unknown = reader.predict_each([*queries, {"object": "nobody", "relation": "r"}])
    assert isinstance(unknown, UnknownName)
    for query, found in zip(queries, each, strict=True):
        alone = reader.predict(**query)
        assert [one[0] for one in found] == [one.entity for one in alone]
        assert [one[1] for one in found] == pytest.approx([one.score for one in alone], abs=1e-5)
