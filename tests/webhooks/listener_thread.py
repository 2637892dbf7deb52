"""The real listener in a separate thread, called over one TLS connection without an event loop."""

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from api.integration.common.autoscalers import Autoscalers
from certs.authority import new_material
from certs.context import client_context, server_context
from certs.material import ServerNames
from tests.webhooks.review_requests import Read, encoded, read
from webhooks.cache.informers import Lister
from webhooks.routing.reviewer import Reviewer
from webhooks.server.readiness import SERVING, Readiness
from webhooks.server.routes import build
from webhooks.server.server import Listener, bound

PATIENCE = 10.0
"""Seconds after which a missing response is a hang."""


class Caller:
    """One persistent connection, reopened after the server has closed it."""

    def __init__(self, connection: http.client.HTTPSConnection) -> None:
        self._connection = connection

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", path, body=body, headers=headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def review(self, route: str, review: dict[str, Any]) -> Read:
        """Return the response to a review that the server must accept as one."""
        status, body = self.post(f"/{route}", encoded(review))
        assert status == 200, body
        return read(body, review)

    def convert(self, obj: dict[str, Any], api_version: str) -> dict[str, Any]:
        """Return one object in another version."""
        request = {"uid": "u", "desiredAPIVersion": api_version, "objects": [obj]}
        kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
        status, body = self.post("/convert", json.dumps({**kind, "request": request}).encode())
        assert status == 200, body
        (converted,) = json.loads(body)["response"]["convertedObjects"]
        return dict(converted)


@contextmanager
def serving(lister: Lister) -> Iterator[Caller]:
    """Run a listener with all routes until the end of the block."""
    material = new_material(ServerNames.of_host("127.0.0.1"), datetime.now(UTC))
    readiness = Readiness((SERVING,))
    readiness.met(SERVING)
    app = build(Reviewer(lister, Autoscalers()), readiness)
    started, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    with bound("127.0.0.1", 0) as sock:

        async def serve() -> None:
            async with Listener(app, server_context(material), sock):
                started.set()
                await stop.wait()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        started.wait()
        host, port = sock.getsockname()[:2]
        connection = http.client.HTTPSConnection(
            host, port, timeout=PATIENCE, context=client_context(material.ca_bundle)
        )
        try:
            yield Caller(connection)
        finally:
            connection.close()
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()
