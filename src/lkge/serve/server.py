"""The server process: socket, event loop, log, graceful shutdown."""

import logging
import resource
import secrets
import signal
import socket
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from lkge.data.reading import open_regular
from lkge.errors import SettingsError
from lkge.serve.app import create_app
from lkge.serve.auth import Tokens
from lkge.serve.connection import connection_class
from lkge.serve.limits import Limits
from lkge.serve.logs import RateLimit
from lkge.serve.service import Service

BACKLOG = 512
SHUTDOWN_SECONDS = 10  # open requests may run this long after a stop signal
OTHER_FILES = 512  # open files besides connections


def serve(
    folder: Path | str,
    host: str = "127.0.0.1",
    port: int = 8080,
    tokens: Tokens | None = None,
    limits: Limits | None = None,
    tls: tuple[Path, Path] | None = None,
    read_only: bool = False,
) -> None:
    """Serve the living graph in `folder` until SIGINT or SIGTERM; port 0 selects a free port.

    Without a token for writing one is generated, unless the service is `read_only`. The address and
    a generated token are printed on stderr. `tls` is (certificate chain, private key), both PEM.
    """
    tokens, limits = tokens or Tokens(), limits or Limits()
    write = None if read_only else tokens.write or secrets.token_urlsafe(24)
    app = create_app(folder, token=write, read_token=tokens.read, limits=limits, host=host)
    config = server_config(app, limits, tls)
    lines = [] if tokens.write or read_only else [f"token for writing: {write}"]
    _allow_open_files(limits.connections + OTHER_FILES)
    _log_to_stderr()
    with listen(host, port) as listening:
        lines.append(f"serving {folder} at {address(host, listening, is_tls=bool(tls))}")
        GracefulServer(config, app.state.service, "\n".join(lines)).run(sockets=[listening])


def server_config(
    app: FastAPI, limits: Limits, tls: tuple[Path, Path] | None = None
) -> uvicorn.Config:
    """The settings of uvicorn; SettingsError if the files of `tls` cannot be used."""
    certificate, key = tls or (None, None)
    config = uvicorn.Config(
        app,
        http=connection_class(limits),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    try:
        for path in tls or ():
            open_regular(path).close()  # a pipe would be waited for
        config.load()
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or error
        raise SettingsError(
            f"{certificate}, {key}: cannot be used for TLS: {reason}; give a certificate chain and "
            "its private key without a password, both in PEM"
        ) from error
    return config


def _allow_open_files(count: int) -> None:
    """Raise the limit of open files of this process to `count`, or as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _log_to_stderr() -> None:
    """Warnings and errors of all libraries go to stderr, with a limited rate."""
    handler = logging.StreamHandler()
    handler.addFilter(RateLimit())
    logging.basicConfig(
        level=logging.WARNING, format="%(levelname)s: %(message)s", handlers=[handler]
    )


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


def address(host: str, listening: socket.socket, is_tls: bool = False) -> str:
    """The URL of a listening socket."""
    port = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if is_tls else 'http'}://{shown}:{port}/"
