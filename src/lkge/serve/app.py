"""The FastAPI application: routes, middleware, web page, OpenAPI schema."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import Depends, FastAPI, Request
from pydantic.json_schema import models_json_schema
from starlette import responses, staticfiles

import lkge
from lkge.serve import (
    auth,
    conditional,
    documentation,
    errors,
    files,
    learner,
    origin,
    reading,
    routes,
)
from lkge.serve import limits as limits_
from lkge.serve.metrics import RequestMetrics
from lkge.serve.service import Service
from lkge.store.versions import Store

STATIC = Path(__file__).with_name("static")
DESCRIPTION = """\
A knowledge graph that learns continually. Queries go to the newest version; posted facts become the
next version.

Errors are `application/problem+json`. Writing needs the token of the service as a bearer token."""


def create_app(
    folder: Path | str,
    *,
    token: str | None = None,
    read_token: str | None = None,
    limits: limits_.Limits | None = None,
    host: str = "127.0.0.1",
    learner_command: Sequence[str] | None = None,
) -> FastAPI:
    """The service of the living graph in `folder`.

    Without `token` the service is read-only, and learns nothing. With `read_token`, or if `host` is
    not loopback, each request needs one of the two. `learner_command` replaces the child process
    that learns waiting batches.
    """
    tokens, is_local = auth.Tokens(token, read_token), origin.is_loopback(host)
    if not is_local and not (token or read_token):
        raise lkge.SettingsError(
            f"{host} is reachable from other machines: set a token (--token-file)"
        )
    store = Store(Path(folder))
    command = learner_command or learner.child_command(store.folder)
    child = learner.Learner(command) if token else None
    service = Service(store, limits or limits_.Limits(), child)

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
        dependencies=[Depends(auth.authorize)],
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.service = service
    routers = (routes.query, reading.router, routes.browse, routes.jobs, routes.ingest)
    for router in (*routers, files.router):
        app.include_router(router)
    app.add_api_route("/", _page, include_in_schema=False, dependencies=[auth.READ])
    app.add_api_route("/docs", _docs, include_in_schema=False, dependencies=[auth.READ])
    app.mount("/static", staticfiles.StaticFiles(directory=STATIC), name="static")
    errors.add_error_handlers(app)
    _add_middleware(app, service, tokens, is_local)
    _, problems = models_json_schema(
        [(errors.Problem, "validation")], ref_template="#/components/schemas/{model}"
    )
    app.openapi()["components"]["schemas"] |= problems["$defs"]
    return app


async def _page() -> responses.FileResponse:
    return responses.FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})


async def _docs(request: Request) -> responses.HTMLResponse:
    page = documentation.page(request.app.openapi())
    return responses.HTMLResponse(page, headers={"Cache-Control": "no-cache"})


def _add_middleware(app: FastAPI, service: Service, tokens: auth.Tokens, is_local: bool) -> None:
    """Middleware from the innermost to the outermost: a request passes the last one first."""
    app.add_middleware(conditional.ConditionalRequests, service=service)
    app.add_middleware(limits_.ConcurrencyLimit, limits=service.limits)
    app.add_middleware(limits_.BodyLimit, limits=service.limits)
    open_reading = is_local and tokens.read is None
    app.add_middleware(auth.Authentication, tokens=tokens, open_reading=open_reading)
    app.add_middleware(origin.CrossSiteCheck)
    if is_local:
        app.add_middleware(origin.LoopbackHostCheck)
    app.add_middleware(RequestMetrics, metrics=service.metrics)
    app.add_middleware(origin.SecurityHeaders)
