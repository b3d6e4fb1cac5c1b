"""Server-sent events: the current state, then each change, until the stream or the service ends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from pydantic import BaseModel
from starlette.responses import StreamingResponse

KEEPALIVE_SECONDS = 15.0
"""After this time without an event, a comment is sent to keep the connection open."""
MIN_INTERVAL_SECONDS = 0.1
"""The shortest time between two events of a stream; changes in between are sent as one event."""

S = TypeVar("S", bound=BaseModel)


class ChangeSignal:
    """Wakes all waiting streams after a change. Used on one event loop only."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.is_closed = False

    def notify(self) -> None:
        """Wake the streams: the state changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        """End all streams: the service stops."""
        self.is_closed = True
        self.notify()

    async def wait(self, seconds: float) -> bool:
        """Wait for a change or the close; False after `seconds` without either."""
        if self.is_closed:
            return True
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        return True


async def events(
    name: str,
    state: Callable[[], S],
    changes: ChangeSignal,
    is_last: Callable[[S], bool] = lambda state: False,
) -> AsyncIterator[str]:
    """The state now and after each change, as events named `name`, up to the last one."""
    sent = None
    while not changes.is_closed:
        current = state()
        if current != sent:
            yield f"event: {name}\ndata: {current.model_dump_json()}\n\n"
            sent = current
            if is_last(current):
                return
            await asyncio.sleep(MIN_INTERVAL_SECONDS)
        if state() == sent and not await changes.wait(KEEPALIVE_SECONDS):
            yield ": keep-alive\n\n"


def response(body: AsyncIterator[str]) -> StreamingResponse:
    """The HTTP response with these events; proxies must not cache or buffer it."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(body, media_type="text/event-stream", headers=headers)
