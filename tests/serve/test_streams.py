from __future__ import annotations

import asyncio

import pytest

from lkge.serve import streams
from lkge.serve.responses import Names
from lkge.serve.streams import ChangeSignal, events


def state(version: int) -> Names:
    return Names(version=version, names=[])


def data(version: int) -> str:
    return f"event: news\ndata: {state(version).model_dump_json()}\n\n"


def test_a_stream_sends_the_current_state_and_then_each_change() -> None:
    async def story() -> None:
        changes, now = ChangeSignal(), [state(1)]
        stream = events("news", lambda: now[0], changes, lambda seen: seen == state(3))
        assert await anext(stream) == data(1)
        now[0] = state(2)
        changes.notify()
        assert await anext(stream) == data(2)
        now[0] = state(3)
        changes.notify()
        assert [event async for event in stream] == [data(3)]

    asyncio.run(story())


def test_a_notification_without_a_change_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "KEEPALIVE_SECONDS", 0.05)

    async def story() -> None:
        changes = ChangeSignal()
        stream = events("news", lambda: state(1), changes)
        await anext(stream)
        asyncio.get_running_loop().call_later(0.02, changes.notify)
        assert await anext(stream) == ": keep-alive\n\n"

    asyncio.run(story())


def test_all_streams_end_when_the_service_does() -> None:
    async def story() -> None:
        changes = ChangeSignal()
        stream = events("news", lambda: state(1), changes)
        await anext(stream)
        asyncio.get_running_loop().call_later(0.02, changes.close)
        assert [event async for event in stream] == []

    asyncio.run(asyncio.wait_for(story(), 5))
