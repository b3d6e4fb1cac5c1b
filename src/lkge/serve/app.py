"""The FastAPI application: routes, middleware, web page, OpenAPI schema."""

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
from lkge.serve import auth, errors, learner
from lkge.serve import limits as limits_
from lkge.serve.metrics import Metrics, RequestMetrics
from lkge.serve.routes import browse, ingest, query
from lkge.serve.service import Service
from lkge.store.versions import Store

DESCRIPTION = """\
A knowledge graph that learns continually. Queries go to the newest version; posted facts become the
next version.

Errors are `application/problem+json`. Writing needs the token of the service as a bearer token."""


def create_app(
    folder: Path | str,
    *,
    token: str | None = None,
    limits: limits_.Limits | None = None,
    host: str = "127.0.0.1",
    learner_command: Sequence[str] | None = None,
) -> FastAPI:
    """The service of the living graph in `folder`.

    Without a token the service is read-only. If `host` is not loopback, each request needs the
    token. `learner_command` replaces the child process that learns waiting batches.
    """
    if not auth.is_loopback(host) and not token:
        raise SettingsError(f"{host} is reachable from other machines: set a token (--token)")
    limits, metrics, store = limits or limits_.Limits(), Metrics(), Store(Path(folder))
    child = learner.Learner(learner_command or learner.child_command(store.folder))
    service = Service(store, limits, child, metrics)

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
    for module in (query, browse, ingest):
        app.include_router(module.router)
    _add_page(app)
    errors.add_error_handlers(app)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    _add_middleware(app, token, auth.is_loopback(host), limits, metrics)
    return app


def _add_page(app: FastAPI) -> None:
    static = Path(str(resources.files("lkge.serve").joinpath("static")))

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(static / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", StaticFiles(directory=static), name="static")


def _add_middleware(
    app: FastAPI, token: str | None, loopback: bool, limits: limits_.Limits, metrics: Metrics
) -> None:
    """Middleware from the innermost to the outermost: a request passes the last one first."""
    app.add_middleware(limits_.BodyLimit, limits=limits)
    app.add_middleware(limits_.ConcurrencyLimit, limits=limits)
    app.add_middleware(auth.TokenAuth, token=token, open_reading=loopback)
    if loopback:
        app.add_middleware(auth.LoopbackHostCheck)
    app.add_middleware(RequestMetrics, metrics=metrics)
    app.add_middleware(auth.SecurityHeaders)


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI schema, with the schemas of problems."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        for model in (errors.Problem, errors.Fault):
            tree = model.model_json_schema(ref_template="#/components/schemas/{model}")
            tree.pop("$defs", None)
            schemas[model.__name__] = tree
        app.openapi_schema = schema
    return app.openapi_schema
