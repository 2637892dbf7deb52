"""Clients that send nothing, send slowly, or read no response, on real sockets."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from starlette.applications import Starlette

from certs.authority import new_material
from certs.context import server_context
from certs.material import ServerNames
from console.access.guard import POLICY
from console.serving import connections, server
from console.serving.serving import LOOPBACK, listening, listening_socket
from tests.console.browser import Site, browser, site
from tests.console.cluster_builder import Builder

SOON = 0.2
"""Seconds, instead of the usual limits."""

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set short limits."""
    for name in ("QUIET_SECONDS", "STALLED_SECONDS", "HANDSHAKE_SECONDS"):
        monkeypatch.setattr(connections, name, SOON)
    monkeypatch.setattr(server, "BODY_SECONDS", SOON)


@asynccontextmanager
async def dialled(port: int, number: int = 1) -> AsyncIterator[list[Client]]:
    made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(number)]
    try:
        yield made
    finally:
        for _, writer in made:
            writer.close()


async def left(client: Client) -> bytes:
    """Return the data until the server ends the connection, also by a reset."""
    found = bytearray()
    try:
        while part := await client[0].read(1 << 16):
            found += part
    except ConnectionResetError:
        # A busy machine learns of both at once, and the reader gets the error first.
        found += client[0]._buffer  # type: ignore[attr-defined]
    return bytes(found)


def head(site: Site, path: str = "/", method: str = "GET", **fields: object) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{site.port}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def test_who_asks_nothing_is_sent_away(quick: None) -> None:
    async with site(Builder()) as served, dialled(served.port) as (client,):
        assert await left(client) == b""


async def test_a_head_that_comes_in_drops_is_not_waited_for(quick: None) -> None:
    async with site(Builder()) as served, dialled(served.port) as (client,):
        ended = asyncio.create_task(left(client))
        client[1].write(b"GET / HTTP/1.1\r\n")
        while not ended.done():
            client[1].write(b"X-Drop: 1\r\n")
            await asyncio.sleep(SOON / 10)

        assert await ended == b""


async def test_after_an_answer_drops_do_not_keep_the_connection(quick: None) -> None:
    async with site(Builder()) as served, dialled(served.port) as (client,):
        client[1].write(head(served))
        assert (await client[0].readline()).startswith(b"HTTP/1.1 200")
        ended = asyncio.create_task(left(client))
        while not ended.done():
            client[1].write(b"G" if client[1].transport.get_write_buffer_size() == 0 else b"")
            await asyncio.sleep(SOON / 10)

        assert POLICY.encode() in await ended


async def test_a_stream_is_not_silence(quick: None) -> None:
    cluster = Builder()
    async with (
        site(cluster) as served,
        browser(served) as page,
        page.events("views=queue") as events,
    ):
        await asyncio.sleep(3 * SOON)
        cluster.pod(name="later")
        assert (await events.until("queue"))["changed"][0]["name"] == "later"


async def test_a_body_that_does_not_come_is_given_up(quick: None) -> None:
    async with site(Builder()) as served, dialled(served.port) as (client,):
        own = f"http://127.0.0.1:{served.port}"
        more = {"Content_Type": "application/json", "Content_Length": 100}
        client[1].write(head(served, "/api/login", "POST", Origin=own, **more) + b"{")

        assert (await left(client)).startswith(b"HTTP/1.1 408")


async def test_who_takes_no_answer_loses_the_connection(quick: None) -> None:
    async with site(Builder()) as served:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", served.port))
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            asked = head(served, "/static/vendor/uplot/uPlot.esm.js")
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                await loop.sock_sendall(client, asked * 200)
                while True:  # the client learns of the end only by sending
                    await loop.sock_sendall(client, asked)
                    await asyncio.sleep(SOON / 10)


async def test_idle_connections_give_way_to_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 8)
    async with (
        site(Builder()) as served,
        browser(served) as page,
        page.events("views=queue") as events,
        dialled(served.port, 30) as idle,
    ):
        for _ in range(5):
            assert (await page.get("/"))[0] == 200

        assert await left(idle[0]) == b""
        served.cluster.pod(name="later")
        assert (await events.until("queue"))["changed"][0]["name"] == "later"


async def test_when_all_are_busy_new_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 2)
    async with (
        site(Builder()) as served,
        browser(served) as page,
        page.events("views=queue"),
        dialled(served.port) as (client,),
    ):
        client[1].write(head(served, Connection="close"))

        assert (await left(client)).startswith(b"HTTP/1.1 503")


async def test_slow_logins_do_not_keep_sessions_from_working(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MOST_LOGINS", 3)
    async with site(Builder()) as served, browser(served) as page, dialled(served.port, 3) as slow:
        own = f"http://127.0.0.1:{served.port}"
        more = {"Content_Type": "application/json", "Content_Length": 100, "Origin": own}
        for reader, writer in slow:
            writer.write(head(served, "/api/login", "POST", Expect="100-continue", **more))
            assert (await reader.readline()).startswith(b"HTTP/1.1 100")

        assert (await page.post("/api/login", {"token": "t"}, Origin=page.url))[0] == 503
        assert (await page.get("/api/session"))[0] == 200


@asynccontextmanager
async def by_tls() -> AsyncIterator[int]:
    """The port of a server that uses TLS and has no pages."""
    material = new_material(ServerNames.of_host("127.0.0.1"), datetime.now(UTC))
    tls: ssl.SSLContext = server_context(material)
    with listening_socket((LOOPBACK, 0)) as sock:
        async with listening(Starlette(), sock, tls):
            yield sock.getsockname()[1]


async def answered(port: int) -> bytes:
    """Return the first line that a TLS client receives."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    line = await reader.readline()
    writer.close()
    return line


async def test_tls_that_does_not_begin_is_given_up(quick: None) -> None:
    async with by_tls() as port, dialled(port) as (client,):
        assert await left(client) == b""
        assert (await answered(port)).startswith(b"HTTP/1.1 404")


async def test_of_many_whose_tls_does_not_begin_the_oldest_give_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MOST_HANDSHAKES", 4)
    async with by_tls() as port, dialled(port, 30) as silent:
        assert (await answered(port)).startswith(b"HTTP/1.1 404")
        for client in silent[:26]:
            assert await left(client) == b""
        assert not any(client[0].at_eof() for client in silent[27:])


async def test_who_speaks_no_tls_is_sent_away() -> None:
    async with by_tls() as port, dialled(port) as (client,):
        client[1].write(b"GET / HTTP/1.1\r\n\r\n")

        assert b"HTTP" not in await left(client)
        assert (await answered(port)).startswith(b"HTTP/1.1 404")
