"""A raw HTTP client for the suites that returns the server's responses unchanged.

It sends and reads requests without `kube`'s client, so that tests of the client and the servers do
not rely on it.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp

from e2e.harness.support import kubeconfig
from kube.client.open_sockets import OpenSockets
from kube.client.server_version import release_in

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP response. `body` is the decoded JSON, `text` the received text."""

    status: int
    text: str
    headers: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def body(self) -> Object:
        value: Object = json.loads(self.text)
        return value

    def expect(self, status: int) -> Object:
        """Return the body if the status matches. Raises AssertionError otherwise."""
        assert self.status == status, f"HTTP {self.status} instead of {status}: {self.text[:1500]}"
        return self.body

    def ok(self) -> Object:
        """Return the body of a successful response. Raises AssertionError otherwise."""
        assert self.status < 300, f"HTTP {self.status}: {self.text[:1500]}"
        return self.body


class Watch:
    """One watch stream: `next` returns the events as received, {type, object}."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self, timeout: float = 10) -> Object:
        """Return the next event.

        Raises TimeoutError if none arrives, EOFError at the stream's end.
        """
        async with asyncio.timeout(timeout):
            line = await self._response.content.readline()
        if not line:
            raise EOFError("the watch was closed by the server")
        event: Object = json.loads(line)
        return event

    async def until(self, kind: str, name: str | None = None, timeout: float = 10) -> Object:
        """Return the object of the next event of this type (and name); skip others."""
        async with asyncio.timeout(timeout):
            while True:
                event = await self.next(timeout)
                if event["type"] != kind:
                    continue
                found: Object = event["object"]
                if name is None or found["metadata"].get("name") == name:
                    return found


class Rest:
    """One API server, one session. Use as an async context manager."""

    def __init__(self, access: kubeconfig.Access, *, token: str | None = None) -> None:
        self._access = access
        self.token = token or access.token
        self._session: aiohttp.ClientSession | None = None
        self._sockets = OpenSockets()

    @classmethod
    def open(cls, path: Path) -> Self:
        return cls(kubeconfig.read(path))

    @property
    def access(self) -> kubeconfig.Access:
        return self._access

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            ssl=self._access.context, limit=64, socket_factory=self._sockets.create
        )
        self._session = aiohttp.ClientSession(
            self._access.server,
            connector=connector,
            trust_env=False,
            read_bufsize=2**21,
            headers={"Authorization": f"Bearer {self.token}"} if self.token else {},
        )
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._session is not None
        await self._session.close()
        await self._sockets.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the client is used outside of its context")
        return self._session

    async def release(self) -> tuple[int, int]:
        """Return major and minor of the server's Kubernetes release."""
        return release_in((await self.get("/version")).ok())

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> Answer:
        """Send `body` (bytes unchanged, anything else as JSON) and read the complete response."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Accept": accept, **(headers or {})}
        if data is not None:
            sent["Content-Type"] = content_type
        async with self.session.request(
            method,
            path,
            # aiohttp warns about large bodies of type bytes.
            data=None if data is None else io.BytesIO(data),
            params=params,
            headers=sent,
            timeout=aiohttp.ClientTimeout(total=timeout),
        ) as response:
            text = await response.text()
            warnings = tuple(response.headers.getall("Warning", []))
            return Answer(response.status, text, response.headers.copy(), warnings)

    async def get(self, path: str, **kwargs: Any) -> Answer:
        return await self.call("GET", path, **kwargs)

    async def post(self, path: str, body: object, **kwargs: Any) -> Answer:
        return await self.call("POST", path, body, **kwargs)

    async def put(self, path: str, body: object, **kwargs: Any) -> Answer:
        return await self.call("PUT", path, body, **kwargs)

    async def patch(
        self, path: str, body: object, content_type: str = MERGE_PATCH, **kwargs: Any
    ) -> Answer:
        return await self.call("PATCH", path, body, content_type=content_type, **kwargs)

    async def delete(self, path: str, body: object = None, **kwargs: Any) -> Answer:
        return await self.call("DELETE", path, body, **kwargs)

    @asynccontextmanager
    async def watch(
        self, path: str, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[Watch]:
        """Open a watch stream on a collection."""
        async with self.session.get(
            path,
            params={"watch": "true", **(params or {})},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        ) as response:
            if response.status != 200:
                raise AssertionError(f"watch: HTTP {response.status}: {await response.text()}")
            yield Watch(response)
