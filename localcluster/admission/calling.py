"""HTTPS client for webhooks, with the CA bundle and the TLS server name of each."""

import asyncio
import functools
import ssl
from typing import Any, Protocol

import aiohttp

from localcluster.schemas.webhook_rules import bundle_context

Object = dict[str, Any]

MAX_ANSWER = 8 * 1024 * 1024


class Services(Protocol):
    """The addresses of Services; a mapping satisfies this protocol."""

    def get(self, service: tuple[str, str], /) -> tuple[str, int] | None:
        """Return the host and port of the Service (namespace, name), or None if it has none."""


class CallError(Exception):
    """The webhook call failed, or its response could not be read."""


@functools.lru_cache(maxsize=64)
def _context(bundle: str) -> ssl.SSLContext:
    return bundle_context(bundle) if bundle else ssl.create_default_context()


class Caller:
    """Connection pool for webhooks."""

    def __init__(self, services: Services) -> None:
        """Create a caller that resolves Services through `services`.

        The addresses in `services` may change while the caller is in use.
        """
        self._services = services
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, client: Object, body: bytes, timeout_seconds: int) -> bytes:
        """Send a review to a clientConfig and return the body of the response. Raises CallError."""
        shown, url, server_name = self._target(client, timeout_seconds)
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        if server_name:
            headers["Host"] = f"{server_name}:{client['service'].get('port', 443)}"
        try:
            async with self._open().post(
                url,
                data=body,
                headers=headers,
                ssl=_context(client.get("caBundle") or ""),
                server_hostname=server_name,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds),
                allow_redirects=False,
            ) as answer:
                content = await answer.content.read(MAX_ANSWER)
                _expect_success(answer.status, content)
                return content
        except TimeoutError as error:
            raise CallError(f'Post "{shown}": context deadline exceeded') from error
        except (aiohttp.ClientError, ssl.SSLError, ConnectionError) as error:
            raise CallError(f'Post "{shown}": {_network_words(error)}') from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self._session

    def _target(self, client: Object, timeout_seconds: int) -> tuple[str, str, str | None]:
        """Return the URL shown in messages, the URL to connect to, and the TLS server name."""
        query = f"?timeout={timeout_seconds}s"
        if client.get("url"):
            url = client["url"] + query
            return url, url, None
        service = client["service"]
        name = f"{service['name']}.{service['namespace']}.svc"
        path = (service.get("path") or "/") + query
        shown = f"https://{name}:{service.get('port', 443)}{path}"
        address = self._services.get((service["namespace"], service["name"]))
        if address is None:
            raise CallError(f'Post "{shown}": service "{service["name"]}" not found')
        host, port = address
        return shown, f"https://{host}:{port}{path}", name


def _expect_success(status: int, content: bytes) -> None:
    if status == 404:
        raise CallError("the server could not find the requested resource")
    if not 200 <= status < 300:
        text = content.decode("utf-8", "replace")[:2048].replace('"', '\\"')
        raise CallError(
            f'an error on the server ("{text}") has prevented the request from succeeding'
        )


def _network_words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {_certificate_words(error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        address = f"{error.host}:{error.port}"
        if isinstance(error.os_error, ConnectionRefusedError):
            return f"dial tcp {address}: connect: connection refused"
        return f"dial tcp {address}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _certificate_words(error: aiohttp.ClientConnectorCertificateError) -> str:
    reason = getattr(error.certificate_error, "verify_message", "") or str(error)
    if "self-signed" in reason or "unable to get" in reason:
        return "certificate signed by unknown authority"
    if "expired" in reason:
        return "certificate has expired or is not yet valid"
    return reason


async def gather_first_error(calls: list[Any]) -> None:
    """Run all calls concurrently, wait for all, then raise the error of the first that failed."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
