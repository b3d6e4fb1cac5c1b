"""The routes of the HTTP API, one file a topic: query, browse, ingest."""

from typing import Annotated, cast

from fastapi import Depends, Request

from lkge.serve.service import Service


def _service(request: Request) -> Service:
    return cast(Service, request.app.state.service)


ServiceDep = Annotated[Service, Depends(_service)]
"""A parameter of this type receives the service of the application."""
