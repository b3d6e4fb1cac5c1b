"""Who may use the service: bearer token, host check, security headers."""

import base64
import hmac
import ipaddress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lkge.serve.errors import HTTPMiddleware, HTTPProblem

READING = frozenset({"GET", "HEAD", "OPTIONS"})
QUESTIONS = frozenset({"/predict", "/predict/batch", "/similar", "/score"})
"""Paths to which a POST writes nothing. Every other request that is not `READING` is a write."""
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
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


class TokenAuth(HTTPMiddleware):
    """Checks the token.

    Writes need `Authorization: Bearer TOKEN`; without a token the service is read-only.
    Read routes need the token if `open_reading` is false; a browser may send it as the password
    of basic authentication, with any user name.
    """

    def __init__(self, app: ASGIApp, token: str | None, open_reading: bool) -> None:
        super().__init__(app)
        self._token, self._open_reading = token, open_reading

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        authorization = Headers(scope=scope).get("authorization", "")
        self.check(scope["method"], scope["path"].rstrip("/"), authorization)
        await self.app(scope, receive, send)

    def check(self, method: str, path: str, authorization: str) -> None:
        """Raise an HTTPProblem with status 401 or 403 if the request is not allowed."""
        scheme, _, credentials = authorization.partition(" ")
        is_bearer = scheme.lower() == "bearer" and self._is_token(credentials.strip())
        is_basic = scheme.lower() == "basic" and self._is_token(_password(credentials))
        if method not in READING and not (method == "POST" and path in QUESTIONS):
            if self._token is None:
                raise HTTPProblem(403, "this service was started without a token: it is read-only")
            if not is_bearer:
                raise _unauthorized("Bearer")
        elif not (self._open_reading or is_bearer or is_basic):
            raise _unauthorized('Basic realm="lkge: any user, the token as password", Bearer')

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())


def _unauthorized(challenge: str) -> HTTPProblem:
    detail = "send the token of this service: `Authorization: Bearer TOKEN`"
    return HTTPProblem(401, detail, headers={"WWW-Authenticate": challenge})


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except ValueError:  # not base64, or not UTF-8
        return ""


class LoopbackHostCheck(HTTPMiddleware):
    """Refuses Host headers of other sites; protects against DNS rebinding."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = Headers(scope=scope).get("host", "")
        name = host if host.endswith("]") else host.rsplit(":", 1)[0]
        if name.lower() not in LOOPBACK_NAMES:
            raise HTTPProblem(421, "use the host name localhost; a proxy sends `Host: localhost`")
        await self.app(scope, receive, send)


class SecurityHeaders(HTTPMiddleware):
    """Adds the security headers to each response."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self.app(scope, receive, add_headers)
