"""Server-sent events: what is so now, and then whatever changes, until there is no more news."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from pydantic import BaseModel
from starlette.responses import StreamingResponse

SECONDS_OF_SILENCE = 15.0
"""After so long a comment is sent, so that nobody takes the line for dead."""
SECONDS_BETWEEN = 0.1
"""A stream tells no more often than this; what happened meanwhile is told together."""


class Pulse:
    """Tells whoever waits that something changed. It lives on one event loop."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.is_over = False

    def beat(self) -> None:
        """Something changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    def end(self) -> None:
        """Nothing will change any more: the service stops."""
        self.is_over = True
        self.beat()

    async def next(self, seconds: float) -> bool:
        """Wait for a change or the end; False if there was neither for so long."""
        if self.is_over:
            return True
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        return True


class Look(Protocol):
    """What a stream tells."""

    def __call__(self) -> BaseModel:
        """The state of now."""
        ...


async def told(
    name: str, look: Look, pulse: Pulse, is_last: Callable[[BaseModel], bool]
) -> AsyncIterator[str]:
    """The state now and after each change, as events called `name`, up to the last one."""
    before = None
    while not pulse.is_over:
        state = look()
        if state != before:
            yield f"event: {name}\ndata: {state.model_dump_json()}\n\n"
            before = state
            if is_last(state):
                return
            await asyncio.sleep(SECONDS_BETWEEN)
        if look() == before and not await pulse.next(SECONDS_OF_SILENCE):
            yield ": still here\n\n"


def event_stream(events: AsyncIterator[str]) -> StreamingResponse:
    """The answer that carries them; nothing between here and the client should hold it back."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)
