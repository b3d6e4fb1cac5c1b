"""Checks of where a request comes from, by Host and Origin; the security headers of responses."""

import ipaddress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from lkge.serve.errors import HTTPMiddleware, HTTPProblem

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class LoopbackHostCheck(HTTPMiddleware):
    """Refuses Host headers of other machines; protects against DNS rebinding."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "")
        name = host if host.endswith("]") else host.rsplit(":", 1)[0]
        if not is_loopback(name.lower().strip("[]")):
            raise HTTPProblem(421, "use the host name localhost; a proxy sends `Host: localhost`")
        await self.app(scope, receive, send)


class CrossSiteCheck(HTTPMiddleware):
    """Refuses requests that a browser sends for a page of another origin. A link to the page of the
    service may be followed. Programs send none of these headers."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if not (is_same_origin(headers) or _is_link(scope, headers)):
            raise HTTPProblem(403, "a page of another site cannot use this service")
        await self.app(scope, receive, send)


def is_same_origin(headers: Headers) -> bool:
    """Whether the request is not made for a page of another origin. Sec-Fetch-Site decides if the
    browser sends it; older browsers send Origin at least with a POST."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin, host = headers.get("origin"), headers.get("host", "")
    return origin is None or origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _is_link(scope: Scope, headers: Headers) -> bool:
    navigates = headers.get("sec-fetch-mode") == "navigate"
    is_page = scope["method"] == "GET" and scope["path"] == "/"
    return navigates and is_page and headers.get("sec-fetch-dest") == "document"


class SecurityHeaders(HTTPMiddleware):
    """Adds the security headers to each response."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self.app(scope, receive, add_headers)
