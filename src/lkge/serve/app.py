"""The application: routes, what stands before them, and the life of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.staticfiles import StaticFiles
from starlette.responses import FileResponse

import lkge
from lkge.errors import SettingsError
from lkge.serve import asking, growing, looking
from lkge.serve.guard import (
    Access,
    Bodies,
    Gate,
    Measured,
    Seats,
    access_check,
    is_loopback,
    require_loopback_host,
)
from lkge.serve.learner import Learner, command_for
from lkge.serve.limits import Limits
from lkge.serve.metrics import Metrics
from lkge.serve.problems import Fault, Problem, tell_problems
from lkge.serve.service import Service
from lkge.store.versions import Store

LOOPBACK = "127.0.0.1"
DESCRIPTION = """\
A knowledge graph that keeps learning. Ask the newest version; post facts, and they become the next.

Errors are `application/problem+json`. Writing needs the token of the service as a bearer."""


def create_app(
    folder: Path | str,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    host: str = LOOPBACK,
    learner: Sequence[str] | None = None,
) -> FastAPI:
    """The service over the living graph in `folder`.

    Without a token it only answers. On a `host` that is not loopback every request needs it.
    `learner` is the command that learns what waits; by default `lkge add FOLDER --events`.
    """
    if not is_loopback(host) and not token:
        raise SettingsError(f"{host} can be reached from elsewhere: a token is needed (--token)")
    bounds, metrics, store = limits or Limits(), Metrics(), Store(Path(folder))
    service = Service(store, bounds, Learner(learner or command_for(store.folder)), metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title=f"lkge: {store.folder.resolve().name}",
        version=lkge.__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    for room in (asking, looking, growing):
        app.include_router(room.router)
    _add_page(app)
    tell_problems(app)
    app.openapi = lambda: _schema(app)  # type: ignore[method-assign]
    _add_guards(app, Access(token, is_loopback(host)), host, bounds, metrics)
    return app


def _add_page(app: FastAPI) -> None:
    static = Path(str(resources.files("lkge.serve").joinpath("static")))

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(static / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", StaticFiles(directory=static), name="static")


def _add_guards(app: FastAPI, access: Access, host: str, limits: Limits, metrics: Metrics) -> None:
    """The last that is added is the first that a request meets."""
    app.add_middleware(Bodies, limits=limits)
    app.add_middleware(Seats, limits=limits)
    app.add_middleware(Gate, check=access_check(access))
    if is_loopback(host):
        app.add_middleware(Gate, check=require_loopback_host)
    app.add_middleware(Measured, metrics=metrics)


def _schema(app: FastAPI) -> dict[str, Any]:
    """OpenAPI, with the problems that every operation may answer."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        shapes = schema.setdefault("components", {}).setdefault("schemas", {})
        for model in (Problem, Fault):
            tree = model.model_json_schema(ref_template="#/components/schemas/{model}")
            tree.pop("$defs", None)
            shapes[model.__name__] = tree
        app.openapi_schema = schema
    return app.openapi_schema
