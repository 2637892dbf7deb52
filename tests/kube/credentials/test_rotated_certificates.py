"""Certificates that are rotated while a process runs: authorities, and those of clients."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from certs.authority import new_material
from certs.context import reload, server_context
from certs.material import Material, ServerNames
from kube.base.errors import Unreachable
from kube.client.client import Client
from kube.credentials import loading
from kube.credentials.loading import load
from kube.credentials.rest_config import RestConfig, Tls, TlsMaterial
from tests.support.api_server import server_certificate
from tests.support.clock import FakeClock

MINUTE = 61.0
ANSWER = b"HTTP/1.1 200 OK\r\nConnection: %s\r\nContent-Length: 2\r\n\r\n{}"
SOURCES = ("service account", "kubeconfig", "two kubeconfigs")


def material() -> Material:
    return new_material(ServerNames.of_host("127.0.0.1"), datetime.now(UTC))


@dataclass
class Server:
    """An API server with a replaceable certificate, which requests client certificates."""

    port: int
    context: ssl.SSLContext
    shown: list[bytes | None]
    """The client certificate, in DER, of each request."""
    connection: bytes = b"close"

    def show(self, of: Material) -> None:
        reload(self.context, of.serving)

    def trust_client(self, certificate: bytes) -> None:
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.context.load_verify_locations(cadata=text(certificate))


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    context, shown = server_context(material().serving), list[bytes | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                tls = writer.get_extra_info("ssl_object")
                shown.append(tls.getpeercert(binary_form=True))
                writer.write(ANSWER % found.connection)
                if found.connection == b"close":
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    found = Server(listening.sockets[0].getsockname()[1], context, shown)
    async with listening:
        yield found


async def loaded(
    source: str, server: Server, folder: Path, patch: pytest.MonkeyPatch
) -> RestConfig:
    """Load the configuration from one of the sources; all have the files in `folder`."""
    if source == "service account":
        for attribute, file in (("TOKEN", "token"), ("AUTHORITIES", "ca.crt")):
            patch.setattr(loading, attribute, folder / file)
        (folder / "token").write_text("t")
        patch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        patch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
        return await load()
    cluster = {"server": f"https://127.0.0.1:{server.port}", "certificate-authority": "ca.crt"}
    user = {"token": "t"}
    if (folder / "client.crt").exists():
        user = {"client-certificate": "client.crt", "client-key": "client.key"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": user}],
    }
    files = [folder / "kubeconfig"]
    files[0].write_text(yaml.safe_dump(document))
    if source == "two kubeconfigs":
        files.append(folder / "second")
        files[1].write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config"}))
    patch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
    patch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return await load()


async def get(client: Client) -> None:
    assert await client.request("GET", "/version") == b"{}"


async def watch(client: Client) -> None:
    assert [line async for line in client.watch_lines("/pods", {}, inactivity=5)] == [b"{}"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("ask", [get, watch])
async def test_a_rotated_authority_is_trusted_without_a_restart(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    ask: Callable[[Client], Awaitable[None]],
) -> None:
    old, new, authorities = material(), material(), tmp_path / "ca.crt"
    authorities.write_bytes(old.ca_cert)
    server.show(old)
    clock = FakeClock()
    async with Client(await loaded(source, server, tmp_path, monkeypatch), clock=clock) as client:
        await ask(client)
        authorities.write_bytes(old.ca_cert + new.ca_cert)  # hours before, in a cluster
        server.show(new)
        clock.jump(MINUTE)
        await ask(client)

        authorities.write_bytes(new.ca_cert)
        clock.jump(MINUTE)
        await ask(client)
        server.show(old)
        clock.jump(MINUTE)
        with pytest.raises(Unreachable, match=r"(?i)certificate"):
            await ask(client)


@pytest.mark.parametrize("source", SOURCES[1:])
async def test_a_rotated_client_certificate_is_shown_from_then_on(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    ours = material()
    first, second = certificate("first"), certificate("second")
    (tmp_path / "ca.crt").write_bytes(ours.ca_cert)
    server.show(ours)
    server.connection = b"keep-alive"
    for each in (first, second):
        server.trust_client(each)
    put_client(tmp_path, first)
    clock = FakeClock()
    async with Client(await loaded(source, server, tmp_path, monkeypatch), clock=clock) as client:
        await get(client)
        await get(client)
        put_client(tmp_path, second)
        clock.jump(MINUTE)
        await get(client)  # not on the connection of the first, which expires

    assert server.shown == [der(it) for it in (first, first, second)]


def test_files_that_are_half_written_change_nothing(tmp_path: Path) -> None:
    certificates = [material().ca_cert, b"", b"-----BEGIN CERTIFICATE-----\n", material().ca_cert]
    file = tmp_path / "ca.crt"
    file.write_bytes(certificates[0])
    tls = Tls("https://server", lambda: TlsMaterial(authorities=file.read_bytes()))
    seen = [tls.context]
    for certificate in certificates[1:3]:
        file.write_bytes(certificate)
        tls.renew()
        seen.append(tls.context)
    file.unlink()
    tls.renew()
    seen.append(tls.context)
    file.write_bytes(certificates[0])
    tls.renew()
    seen.append(tls.context)
    file.write_bytes(certificates[3])
    tls.renew()

    assert seen == [seen[0]] * 5
    assert tls.context is not seen[0]


async def test_credentials_are_read_again_soon_after_a_request_without_an_answer(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, authorities = material(), material(), tmp_path / "ca.crt"
    authorities.write_bytes(old.ca_cert)
    server.show(new)
    clock = FakeClock()
    connection = await loaded("service account", server, tmp_path, monkeypatch)
    async with Client(connection, clock=clock) as client:
        for _ in range(2):
            with pytest.raises(Unreachable):
                await get(client)
            clock.jump(30)
        told = list(client.details())
        authorities.write_bytes(new.ca_cert)
        await get(client)

        assert len(told) == 1
        assert told[0].startswith(f"no response from https://127.0.0.1:{server.port} for 60 s: ")
        assert "certificate verify failed" in told[0]
        assert list(client.details()) == []


def certificate(name: str) -> bytes:
    return Path(server_certificate(name)).read_bytes()


def put_client(folder: Path, pem: bytes) -> None:
    for name in ("client.crt", "client.key"):
        (folder / name).write_bytes(pem)


def text(pem: bytes) -> str:
    return pem[pem.index(b"-----BEGIN CERTIFICATE") :].decode()


def der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(text(pem))
