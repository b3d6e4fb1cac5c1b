from __future__ import annotations

import asyncio

import pytest

from lkge.serve import streams
from lkge.serve.bodies import Names
from lkge.serve.streams import Pulse, told


def state(version: int) -> Names:
    return Names(version=version, names=[])


def data(version: int) -> str:
    return f"event: news\ndata: {state(version).model_dump_json()}\n\n"


def test_what_is_so_now_is_told_at_once_and_then_what_changes() -> None:
    async def story() -> None:
        pulse, now = Pulse(), [state(1)]
        stream = told("news", lambda: now[0], pulse, lambda seen: seen == state(3))
        assert await anext(stream) == data(1)
        now[0] = state(2)
        pulse.beat()
        assert await anext(stream) == data(2)
        now[0] = state(3)
        pulse.beat()
        assert [event async for event in stream] == [data(3)]

    asyncio.run(story())


def test_a_beat_without_a_change_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SECONDS_OF_SILENCE", 0.05)

    async def story() -> None:
        pulse = Pulse()
        stream = told("news", lambda: state(1), pulse, lambda seen: False)
        await anext(stream)
        asyncio.get_running_loop().call_later(0.02, pulse.beat)
        assert await anext(stream) == ": still here\n\n"

    asyncio.run(story())


def test_all_streams_end_when_the_service_does() -> None:
    async def story() -> None:
        pulse = Pulse()
        stream = told("news", lambda: state(1), pulse, lambda seen: False)
        await anext(stream)
        asyncio.get_running_loop().call_later(0.02, pulse.end)
        assert [event async for event in stream] == []

    asyncio.run(asyncio.wait_for(story(), 5))
