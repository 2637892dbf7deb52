"""The guard of every response: checks of host and origin, response headers, limits of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.base import messages
from console.base.protocols import RefusedError

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
JSON: Final = "application/json"

LONGEST_ADDRESS: Final = 8192
"""Bytes of a path with its query: what-if stores its changes there."""

Hosts = Callable[[str], bool]


def named(*hosts: str) -> Hosts:
    """Accept only requests for these hosts, each with its port unless it is the default."""
    known = {host.lower() for host in hosts}
    return lambda host: host.lower() in known


def problem(error: RefusedError) -> Response:
    """Return the response for a rejected request."""
    body = msgspec.json.encode(messages.Problem(message=error.message))
    return Response(body, error.status, media_type=JSON)


class Guard:
    """An ASGI application that passes on requests by this server's own page only.

    A page of another origin must not read the cluster through the viewer's browser. Nor must a name
    that an attacker resolves to this address (DNS rebinding), so the allowed hosts are listed.
    """

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in HEADERS}
                kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in own]
                message["headers"] = [*kept, *HEADERS]
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        try:
            headers = _once(scope["headers"], ("host", "origin", "sec-fetch-site"))
            self._check(scope, headers)
        except RefusedError as error:
            return problem(error)
        return None

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST_ADDRESS:
            raise RefusedError(414, "The address is too long.")
        host = headers.get("host", "")
        if not self._hosts(host):
            raise RefusedError(421, "The Host header does not match this server.")
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        changes = scope["method"] not in ("GET", "HEAD")
        # The page itself may be opened from anywhere; it contains no data.
        if changes or scope["path"].startswith("/api/"):
            if site not in (None, "same-origin", "none"):
                raise RefusedError(403, "Only the console's own page can send this request.")
            if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
                raise RefusedError(403, "Only the console's own page can send this request.")
        # Browsers send Origin with every POST. A request without it is not from the page.
        if changes and origin is None:
            raise RefusedError(
                403, "Only the console's own page can send this request: Origin is missing."
            )


def _once(headers: Iterable[tuple[bytes, bytes]], names: tuple[str, ...]) -> dict[str, str]:
    """Return the values of these headers. Raises RefusedError for a header that occurs twice."""
    found: dict[str, str] = {}
    for raw, value in headers:
        name = raw.decode("latin-1").lower()
        if name not in names:
            continue
        # Proxies differ in which of two they use, so a check of one would not suffice.
        if name in found:
            raise RefusedError(400, f"The header {name} must occur only once.")
        found[name] = value.decode("latin-1")
    return found
