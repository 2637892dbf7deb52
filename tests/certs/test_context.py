"""TLS contexts: verified only by the bundle, with certificates that change while serving."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from certs.authority import new_material, renewed_server
from certs.context import client_context, reload, server_context
from certs.material import ServerNames

NOW = datetime.now(UTC)
LOOPBACK = ServerNames(dns=("muster-webhook.muster-system.svc",), ips=("127.0.0.1",))


@asynccontextmanager
async def serving(context: ssl.SSLContext) -> AsyncIterator[int]:
    """Run a TLS echo server; yields its port."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def dial(
    port: int, trust: ssl.SSLContext, name: str = "127.0.0.1"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=name)


@pytest.mark.parametrize("name", ["127.0.0.1", "muster-webhook.muster-system.svc"])
async def test_a_client_that_trusts_the_bundle_reaches_the_server_by_each_name(name: str) -> None:
    material = new_material(LOOPBACK, NOW)

    async with serving(server_context(material)) as port:
        _, writer = await dial(port, client_context(material.ca_bundle), name)
        tls = writer.get_extra_info("ssl_object")

        assert tls.version() == "TLSv1.3"
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("bundle", "name"),
    [
        pytest.param(
            new_material(LOOPBACK, NOW).ca_bundle, "127.0.0.1", id="the bundle is another CA's"
        ),
        pytest.param(None, "elsewhere.example", id="the name is not in the certificate"),
    ],
)
async def test_verification_fails_when(bundle: bytes | None, name: str) -> None:
    material = new_material(LOOPBACK, NOW)

    async with serving(server_context(material)) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await dial(port, client_context(bundle or material.ca_bundle), name)


async def test_new_certificates_serve_the_next_handshake_and_open_connections_live_on() -> None:
    material = new_material(LOOPBACK, NOW)
    context = server_context(material)
    trust = client_context(material.ca_bundle)

    async with serving(context) as port:
        reader, writer = await dial(port, trust)
        before = writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
        reload(context, renewed_server(material, LOOPBACK, NOW))
        writer.write(b"still here")
        answer = await reader.readexactly(10)
        _, other = await dial(port, trust)
        after = other.get_extra_info("ssl_object").getpeercert()["serialNumber"]

        assert answer == b"still here"
        assert before != after
        for open_writer in (writer, other):
            open_writer.close()
            await open_writer.wait_closed()
