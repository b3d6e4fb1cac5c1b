"""The process that serves: a socket, a loop, and an orderly end."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from lkge.errors import SettingsError
from lkge.serve.app import create_app
from lkge.serve.limits import Limits
from lkge.serve.service import Service

SECONDS_IDLE = 30
"""A connection on which nothing is asked for so long is closed."""
BACKLOG = 512
SECONDS_TO_FINISH = 10
"""Requests that were begun get so long to end when the service stops."""


def serve(
    folder: Path | str,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    limits: Limits | None = None,
) -> None:
    """Serve the living graph in `folder` until SIGINT or SIGTERM; port 0 takes a free one.

    Without a token one is made. Where it is served, and a token that was made, go to stderr.
    """
    chosen = token or secrets.token_urlsafe(24)
    app = create_app(folder, token=chosen, limits=limits, host=host)
    lines = [] if token else [f"token for writing: {chosen}"]
    with bound(host, port) as listening:
        lines.append(f"serving {folder} at {address(host, listening)}")
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=SECONDS_IDLE,
            timeout_graceful_shutdown=SECONDS_TO_FINISH,
        )
        OrderlyServer(config, app.state.service, "\n".join(lines)).run(sockets=[listening])


class OrderlyServer(uvicorn.Server):
    """Says `welcome` on stderr once it serves. Ends open streams before it waits for requests to
    end, and then returns like any function rather than die of the signal that stopped it."""

    def __init__(self, config: uvicorn.Config, service: Service, welcome: str) -> None:
        super().__init__(config)
        self._service, self._welcome = service, welcome

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        await super().startup(sockets)
        if self.started:
            print(self._welcome, file=sys.stderr, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        self._service.pulse.end()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """See `uvicorn.Server`."""
        heeded = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in heeded}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; SettingsError if it cannot.

    It says that it speaks TCP: the loop lets only such sockets send small packets at once.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        return listening
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise SettingsError(
            f"cannot serve at {host}, port {port}: {reason}; choose another with --host or --port"
        ) from error


def address(host: str, listening: socket.socket) -> str:
    """Where a browser finds it."""
    port = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/"
