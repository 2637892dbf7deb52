"""A scripted API server on a real socket, to test clients with odd responses."""

import asyncio
import datetime as dt
import ipaddress
import json
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from localcluster.testing.listening import Listener


@dataclass(frozen=True)
class Seen:
    """One received request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Reply:
    """A complete response; a body of bytes is sent unchanged."""

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def failure(
    code: int,
    reason: str,
    message: str = "",
    *,
    causes: list[dict[str, str]] | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """Return a `metav1.Status` response."""
    return Reply(status_body(code, reason, message, causes), code, headers or {})


def status_body(
    code: int, reason: str, message: str = "", causes: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if causes:
        body["details"] = {"causes": causes}
    return body


class Drop:
    """A response that closes the connection without data."""


class Stream:
    """A watch response that the test feeds line by line."""

    def __init__(self, *events: Any) -> None:
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        for event in events:
            self.send(event)

    def send(self, event: Any) -> None:
        self._lines.put_nowait(json.dumps(event).encode() + b"\n")

    def send_bytes(self, line: bytes) -> None:
        self._lines.put_nowait(line)

    def end(self) -> None:
        self._lines.put_nowait(None)

    async def next(self) -> bytes | None:
        return await self._lines.get()


Answer = Reply | Drop | Stream
Handler = Callable[[Seen], Awaitable[Answer]]


class ScriptedServer:
    """Server that takes responses from a queue in order, or from a handler.

    A request without a response waits until one is queued.
    """

    def __init__(self, *answers: Answer, tls: bool = True) -> None:
        self.seen: list[Seen] = []
        self.handler: Handler | None = None
        self._answers: deque[Answer] = deque(answers)
        self._changed = asyncio.Condition()
        self._tls = tls
        self._listener: Listener | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def answer(self, *answers: Answer) -> None:
        """Queue more responses."""
        async with self._changed:
            self._answers.extend(answers)
            self._changed.notify_all()

    async def received(self, count: int) -> list[Seen]:
        """Wait until that many requests have arrived."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.seen) >= count)
        return self.seen

    async def start(self) -> None:
        """Listen, on the previous port if there was one."""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._serve)
        context = None
        if self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(server_certificate())
        self._listener = Listener(app, context)
        await self._listener.start(self.port)
        self.port = self._listener.port

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def kubeconfig(self, folder: Path, user: dict[str, Any] | None = None) -> Path:
        """Write a kubeconfig for this server."""
        cluster: dict[str, Any] = {"server": self.url}
        if self._tls:
            cluster["certificate-authority"] = server_certificate()
        path = folder / "kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "test",
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                    "clusters": [{"name": "test", "cluster": cluster}],
                    "users": [{"name": "test", "user": user or {"token": "letmein"}}],
                }
            )
        )
        return path

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        seen = Seen(
            request.method,
            request.raw_path.partition("?")[0],
            dict(request.query),
            dict(request.headers),
            json.loads(raw) if raw else None,
        )
        async with self._changed:
            self.seen.append(seen)
            self._changed.notify_all()
        answer = await (self.handler(seen) if self.handler else self._next())
        match answer:
            case Reply(bytes() as body):
                return web.Response(body=body, status=answer.status, headers=answer.headers)
            case Reply():
                return web.json_response(answer.body, status=answer.status, headers=answer.headers)
            case Stream():
                return await self._stream(request, answer)
            case Drop():
                assert request.transport is not None
                request.transport.abort()
                return web.Response()

    async def _next(self) -> Answer:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._answers))
            return self._answers.popleft()

    async def _stream(self, request: web.Request, stream: Stream) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while (line := await stream.next()) is not None:
            await response.write(line)
        return response


@cache
def server_certificate(common_name: str = "test API server") -> str:
    """Return the path of a PEM file with a key and a self-signed certificate for 127.0.0.1."""
    import tempfile

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    with tempfile.NamedTemporaryFile(suffix=".pem", delete=False) as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
    return file.name
