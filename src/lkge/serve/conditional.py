"""ETags: an answer that depends on the version, the labels and the request alone has one of these.

They are weak: they say that the answers are the same, not their bytes.
"""

import hashlib
import json

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import lkge
from lkge.errors import LkgeError
from lkge.serve.errors import HTTPMiddleware
from lkge.serve.service import Service
from lkge.store.labels import stamp_of
from lkge.store.reader import Reader
from lkge.store.records import to_json

PATHS = frozenset({"/predict", "/entities", "/relations", "/neighbourhood", "/map"})
REVALIDATED = "private, no-cache"


def tag_of(reader: Reader, labels: tuple[int, ...] | None = None) -> str:
    """The ETag of a version: its number, and a digest of its manifest, of this release, and of the
    stamp of the labels."""
    parts = [lkge.__version__, to_json(reader.manifest), *(labels or ())]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return f'W/"{reader.version}-{digest[:12]}"'


class ConditionalRequests(HTTPMiddleware):
    """Answers status 304 to a GET with the ETag of the active version, and adds it to others."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        super().__init__(app)
        self._service = service
        self._tag: tuple[tuple[Reader, tuple[int, ...] | None], str] | None = None

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET" or scope["path"] not in PATHS:
            await self.app(scope, receive, send)
            return
        tag = self._active_tag()
        headers = {"ETag": tag, "Cache-Control": REVALIDATED, "Vary": "Authorization"}
        if tag in _tags(Headers(scope=scope).get("if-none-match", "")):
            await Response(status_code=304, headers=headers)(scope, receive, send)
            return

        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                MutableHeaders(scope=message).update(headers)
            await send(message)

        await self.app(scope, receive, add_headers)

    def _active_tag(self) -> str:
        """That of the version before the request: if another is activated meanwhile, the client
        asks again."""
        reader = self._service.reader
        try:
            current = reader, stamp_of(self._service.store.folder)
        except LkgeError:  # the answer will say so
            current = reader, None
        if self._tag is None or self._tag[0] != current:
            self._tag = current, tag_of(*current)
        return self._tag[1]


def _tags(header: str) -> set[str]:
    """The tags of an If-None-Match, each as a weak one."""
    tags = (each.strip().removeprefix("W/") for each in header.split(","))
    return {f"W/{tag}" for tag in tags if tag}
