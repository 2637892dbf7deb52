"""The same as `kube.client.connections` through an HTTP proxy of any kind, by aiohttp."""

from collections.abc import Mapping
from typing import Any

import aiohttp
from yarl import URL

from kube.client import fencing
from kube.client.connections import Response, ResponseTooLarge
from kube.credentials.rest_config import Tls


class _Request(aiohttp.ClientRequest):
    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        # Here the connection is available: nothing is awaited before the request is written.
        fencing.check(self.method, self.url.raw_path)
        return await super().send(conn)


class ProxiedPool:
    """Up to `limit` connections (0: any number) to one server through a proxy."""

    def __init__(self, server: str, tls: Tls | None, proxy: str, *, limit: int) -> None:
        self._server = server
        self._tls = tls
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit),
            cookie_jar=aiohttp.DummyCookieJar(),
            request_class=_Request,
            trust_env=False,
            proxy=proxy,
        )

    async def exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float,
        *,
        largest: int | None = None,
    ) -> Response:
        """Send one request and read the complete response. Raises as ConnectionPool does."""
        try:
            async with self._session.request(
                method,
                URL(f"{self._server}{path}", encoded=True),
                data=body,
                headers=headers,
                ssl=True if self._tls is None else self._tls.context,
                timeout=aiohttp.ClientTimeout(total=timeout),
            ) as response:
                payload = await _read(response.content, largest)
                after, date = (response.headers.get(name) for name in ("Retry-After", "Date"))
                return Response(response.status, payload, after, date)
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    async def open(self, connections: int) -> None:
        """Do nothing: aiohttp opens connections when they are needed."""

    async def close(self) -> None:
        """Drop all connections; running requests fail."""
        await self._session.close()


async def _read(content: aiohttp.StreamReader, largest: int | None) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in content.iter_any():
        parts.append(part)
        size += len(part)
        if largest is not None and size > largest:
            raise ResponseTooLarge("the response is larger than the limit")
    return b"".join(parts)
