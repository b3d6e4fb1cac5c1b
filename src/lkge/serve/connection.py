"""A connection of the server: the client has a limited time for each request and response."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from lkge.serve.limits import Limits


class TimedConnection(H11Protocol):
    """An HTTP/1.1 connection of uvicorn that ends if the client does not send a request in time, or
    does not take the response. If there are too many connections, the one that has waited longest
    for its client ends; if all are busy, the new one.

    The time for a body is limited by `lkge.serve.limits.BodyLimit`.
    """

    limits = Limits()
    _timer: asyncio.TimerHandle | None = None
    _waiting_since = 0.0
    _untaken = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()
        if len(self.connections) > self.limits.connections:
            self._longest_waiting().transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_busy:
            self._stop_waiting()
        elif self._timer is None:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._waiting_since = self.loop.time()
        self._untaken = self.transport.get_write_buffer_size()
        super().on_response_complete()
        if self._untaken and self.transport.is_closing():
            self._wait_for_next()

    def timeout_keep_alive_handler(self) -> None:
        """End an idle connection; wait again if the client takes the response, but slowly."""
        untaken = self.transport.get_write_buffer_size()
        if 0 < untaken < self._untaken:
            self._untaken = untaken
            self._wait_for_next()
        elif untaken:
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    @property
    def is_busy(self) -> bool:
        """Whether a request has begun and its response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._waiting_since = self.loop.time()
        self._timer = self.loop.call_later(self.limits.head_seconds, self.transport.abort)

    def _wait_for_next(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _longest_waiting(self) -> "TimedConnection":
        others = [each for each in self.connections if isinstance(each, TimedConnection)]
        idle = [each for each in others if not each.is_busy]
        return min(idle or [self], key=lambda each: each._waiting_since)


def connection_class(limits: Limits) -> type[TimedConnection]:
    """The class of connections with these limits."""
    return type("Connection", (TimedConnection,), {"limits": limits})
