"""The server process: socket, event loop, graceful shutdown."""

import secrets
import signal
import socket
import sys
from pathlib import Path
from types import FrameType

import uvicorn

from lkge.errors import SettingsError
from lkge.serve.app import create_app
from lkge.serve.limits import Limits
from lkge.serve.service import Service

BACKLOG = 512
KEEP_ALIVE_SECONDS = 30  # after this time an idle connection is closed
SHUTDOWN_SECONDS = 10  # open requests may run this long after a stop signal


def serve(
    folder: Path | str,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    limits: Limits | None = None,
) -> None:
    """Serve the living graph in `folder` until SIGINT or SIGTERM; port 0 selects a free port.

    Without a token one is generated. The address and a generated token are printed on stderr.
    """
    used_token = token or secrets.token_urlsafe(24)
    app = create_app(folder, token=used_token, limits=limits, host=host)
    lines = [] if token else [f"token for writing: {used_token}"]
    with listen(host, port) as listening:
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
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        GracefulServer(config, app.state.service, "\n".join(lines)).run(sockets=[listening])


class GracefulServer(uvicorn.Server):
    """Prints `banner` on stderr after the start. At a stop signal it ends open streams first, then
    waits for open requests, then returns; the signal does not end the process. See `uvicorn.Server`
    for the methods."""

    def __init__(self, config: uvicorn.Config, service: Service, banner: str) -> None:
        super().__init__(config)
        self._service, self._banner = service, banner

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(self._banner, file=sys.stderr, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.changes.close()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit |= self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; SettingsError if the address cannot be used.

    The protocol is set explicitly: asyncio sets TCP_NODELAY only on sockets with IPPROTO_TCP.
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
    """The URL of a listening socket."""
    port = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/"
