"""A webhook for tests: real TLS on loopback, responses by path."""

import base64
import datetime as dt
import ipaddress
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from localcluster.testing.listening import Listener

Review = dict[str, Any]
Answer = Callable[[Review], Any]


def make_certificate(folder: Path, *names: str) -> Path:
    """Write a self-signed certificate with its key for host names and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{names[0]}.pem"
    path.write_bytes(certificate.public_bytes(pem) + private)
    return path


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def bundle(path: Path) -> str:
    """Return the certificate at `path` as a caBundle."""
    pem = path.read_text().split("-----BEGIN PRIVATE KEY")[0]
    return base64.b64encode(pem.encode()).decode()


class HookServer:
    """Webhook server that records reviews by path; `answers` maps a path to its response."""

    def __init__(self, certificate: Path) -> None:
        self.certificate = certificate
        self.answers: dict[str, Answer] = {}
        self.seen: list[tuple[str, Review]] = []
        self.hosts: list[str] = []
        self.port = 0
        self._listener: Listener | None = None

    async def start(self) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate)
        app = web.Application()
        app.router.add_post("/{path:.*}", self._handle)
        self._listener = Listener(app, context)
        await self._listener.start()
        self.port = self._listener.port

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()

    @property
    def bundle(self) -> str:
        return bundle(self.certificate)

    def requests(self, path: str) -> list[dict[str, Any]]:
        return [review["request"] for seen, review in self.seen if seen == path]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        review = await request.json()
        self.seen.append((request.path, review))
        self.hosts.append(request.headers["Host"])
        said = self.answers[request.path](review["request"])
        if hasattr(said, "__await__"):
            said = await said
        if isinstance(said, web.StreamResponse):
            return said
        response = {"uid": review["request"]["uid"], **said}
        return web.json_response(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )


def allow(_request: Review) -> Review:
    """Allow every request."""
    return {"allowed": True}


def patching(*operations: dict[str, Any]) -> Answer:
    """Return a response function that allows and patches."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
