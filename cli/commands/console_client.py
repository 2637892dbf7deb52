"""A client of a console in the cluster, which takes a token as a user's browser does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from analysis.fit.messages import FitAnswer, FitRequest, FitWorkload
from kube.base.errors import ConfigError
from kube.credentials.loading import ClientConfig
from kube.credentials.loading import load as load_access

_PATIENCE: Final = 60.0
"""Seconds for one request. A console that takes longer ends the command."""

_NEEDS_FILE: Final = (
    "the kubeconfig has no token for the console: write one to a file, such as"
    " `kubectl create token NAME > FILE`, and use --token-file FILE"
)


@dataclass(frozen=True, slots=True)
class ConsoleServer:
    """The URL of a console; the files with a token, and with the authority of its certificate."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None

    @property
    def origin(self) -> str:
        """Scheme, host and port. Raises ConfigError."""
        parts = urlsplit(self.url)
        # A token must not be sent in clear text, but for tests of a machine's own console.
        local = parts.hostname in ("127.0.0.1", "localhost", "::1")
        if parts.scheme != "https" and not (parts.scheme == "http" and local):
            raise ConfigError(f"--server: {self.url!r} must be https://HOST[:PORT]")
        if not parts.netloc or parts.path not in ("", "/"):
            raise ConfigError(f"--server: {self.url!r} must be https://HOST[:PORT]")
        # As clients write the Host header, with which the console compares it.
        usual = {"https": ":443", "http": ":80"}[parts.scheme]
        return f"{parts.scheme}://{parts.netloc.removesuffix(usual)}"


def ask_console(
    server: ConsoleServer,
    access: ClientConfig,
    workloads: list[FitWorkload],
    namespace: str | None,
    *,
    together: bool,
) -> FitAnswer:
    """Return the answer of the console. Raises ConfigError for each refusal, and OSError."""
    return asyncio.run(_asked(server, access, workloads, namespace, together=together))


async def _asked(
    server: ConsoleServer,
    access: ClientConfig,
    workloads: list[FitWorkload],
    namespace: str | None,
    *,
    together: bool,
) -> FitAnswer:
    origin = server.origin
    token, default = await _token(server, access, wants_namespace=namespace is None)
    request = FitRequest(workloads=workloads, together=together, namespace=namespace or default)
    async with _session(origin, server.ca_file, token) as session:
        return await session.fit(request)


async def _token(
    server: ConsoleServer, access: ClientConfig, *, wants_namespace: bool
) -> tuple[str, str]:
    """Return the token, and the namespace of the context. Raises ConfigError."""
    if server.token_file is not None and not wants_namespace:
        return server.token_file.read_text().strip(), ""
    config = await load_access(access)
    if server.token_file is not None:
        return server.token_file.read_text().strip(), config.namespace
    header = await config.authorization() or ""
    scheme, _, token = header.partition(" ")
    if scheme != "Bearer" or not token:
        raise ConfigError(_NEEDS_FILE)
    return token, config.namespace


@dataclass(frozen=True, slots=True)
class _Session:
    origin: str
    http: aiohttp.ClientSession
    headers: dict[str, str]

    async def post(self, path: str, body: Any) -> tuple[bytes, str]:
        """Return the content of the response and its cookie. Raises ConfigError."""
        try:
            sent = self.http.post(
                self.origin + path,
                data=msgspec.json.encode(body),
                headers=self.headers,
                allow_redirects=False,
            )
            async with sent as response:
                content = await response.read()
                cookie = response.headers.get("Set-Cookie", "").partition(";")[0]
        except (aiohttp.ClientError, TimeoutError) as error:
            said = str(error) or "no response in time"
            raise ConfigError(f"{self.origin}: {said}") from error
        if response.status != 200:
            raise ConfigError(f"{self.origin}: {_message(content) or response.reason}")
        return content, cookie

    async def fit(self, request: FitRequest) -> FitAnswer:
        content, _ = await self.post("/api/fit", request)
        try:
            return msgspec.json.decode(content, type=FitAnswer)
        except msgspec.DecodeError as error:
            raise ConfigError(f"{self.origin}: not a console of this version: {error}") from error


@asynccontextmanager
async def _session(origin: str, ca_file: Path | None, token: str) -> AsyncIterator[_Session]:
    """Log in, and log out at the end: one user has few sessions."""
    context = ssl.create_default_context(cafile=ca_file)
    timeout = aiohttp.ClientTimeout(total=_PATIENCE)
    connector = aiohttp.TCPConnector(ssl=context)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(
        timeout=timeout, connector=connector, cookie_jar=jar, trust_env=True
    ) as http:
        # The console accepts requests of its own page only, which has this origin.
        headers = {"Origin": origin, "Content-Type": "application/json"}
        _, cookie = await _Session(origin, http, headers).post("/api/login", {"token": token})
        session = _Session(origin, http, {**headers, "Cookie": cookie})
        try:
            yield session
        finally:
            await session.post("/api/logout", {})


def _message(content: bytes) -> str:
    """Return the message of a refusal; empty if it is none of the console's."""
    try:
        found = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return ""
    return str(found.get("message", "")) if isinstance(found, dict) else ""
