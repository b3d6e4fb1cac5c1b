"""`lkge serve`: a living graph over HTTP, with a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    kg: Annotated[Path, typer.Argument(metavar="KG", help="The folder of a living graph.")],
    host: Annotated[
        str,
        typer.Option(help="Where to listen; anywhere but loopback every request needs the token."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="LKGE_TOKEN", help="What writing needs; made and printed if it is not given."
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Questions answered at the same time.")] = 2,
    max_requests: Annotated[
        int, typer.Option(min=1, help="Requests held at the same time; more get status 503.")
    ] = 64,
    max_body: Annotated[int, typer.Option(min=1024, help="Bytes of a request's body.")] = 8 << 20,
) -> None:
    """Answer questions over HTTP, learn posted facts in the background, and show a page at /."""
    from lkge.serve.limits import Limits
    from lkge.serve.server import serve

    limits = Limits(threads=threads, requests=max_requests, body_bytes=max_body)
    serve(kg, host, port, token, limits)
