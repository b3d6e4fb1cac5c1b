"""How a route gets the service that it belongs to."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from lkge.serve.service import Service


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Here = Annotated[Service, Depends(_service)]
