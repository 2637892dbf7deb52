"""Hostile clients on real sockets: they are limited, and others get responses meanwhile."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from api.constants import POD_GROUP
from certs.authority import new_material
from certs.context import client_context, server_context
from certs.material import ServerNames
from kube.client.bounded_http import HEAD_BYTES
from tests.webhooks.review_requests import FakeLister, encoded, pod_group, review_of
from webhooks.routing.reviewer import Reviewer
from webhooks.server import connections, server
from webhooks.server.intake import ByteBudget, Intake
from webhooks.server.readiness import SERVING, Readiness
from webhooks.server.routes import build
from webhooks.server.server import Listener, bound

MATERIAL = new_material(ServerNames.of_host("127.0.0.1"), datetime.now(UTC))
TLS = client_context(MATERIAL.ca_bundle)
REVIEW = encoded(review_of(POD_GROUP, pod_group()))
LARGE = 256 * 1024

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def listening(intake: Intake | None = None) -> AsyncIterator[tuple[str, int]]:
    readiness = Readiness((SERVING,))
    readiness.met(SERVING)
    app = build(Reviewer(FakeLister()), readiness, intake=intake)
    with bound("127.0.0.1", 0) as sock:
        async with Listener(app, server_context(MATERIAL), sock) as listener:
            yield listener.address


async def dialled(
    address: tuple[str, int], tls: ssl.SSLContext | None = TLS, *, local: str = "127.0.0.1"
) -> Client:
    return await asyncio.open_connection(*address, ssl=tls, local_addr=(local, 0))


def head(path: str, length: int) -> bytes:
    fields = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{fields}Content-Length: {length}\r\n\r\n".encode()


async def begun(address: tuple[str, int], path: str, length: int) -> Client:
    """Return a client that announces a body and sends none of it; the server has its head."""
    reader, writer = await dialled(address)
    request = head(path, length).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    writer.write(request)
    assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
    return reader, writer


async def answer(
    address: tuple[str, int], path: str, body: bytes, tls: ssl.SSLContext = TLS
) -> tuple[int, bytes]:
    """Return code and head of the response to one complete request."""
    reader, writer = await dialled(address, tls)
    writer.write(head(path, len(body)) + body)
    got = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return int(got.split()[1]), got.lower()


async def test_bodies_that_are_announced_and_not_sent_keep_nobody_out() -> None:
    rooms = Intake(ByteBudget(LARGE), ByteBudget(LARGE))
    async with listening(rooms) as address:
        held = [await begun(address, "/mutate/podgroups", LARGE) for _ in range(9)]
        held += [await begun(address, "/convert", LARGE) for _ in range(9)]

        code, _ = await answer(address, "/mutate/podgroups", REVIEW.rjust(LARGE))
        for _, writer in held:
            writer.close()

    assert code == 200


@pytest.mark.parametrize("path", ["/mutate/podgroups", "/convert"])
async def test_a_body_that_does_not_come_on_gives_way_to_one_that_does(path: str) -> None:
    rooms = Intake(ByteBudget(LARGE), ByteBudget(LARGE))
    room = rooms.conversions if path == "/convert" else rooms.reviews
    async with listening(rooms) as address:
        reader, slow = await begun(address, path, LARGE)
        slow.write(b" " * (LARGE - 1))
        while not room.held:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.001)

        code, _ = await answer(address, path, b" " * LARGE)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1024)
        slow.close()

    assert code == 400, "it was read: it is no review"
    assert room.held == 0


async def test_idle_connections_give_way_to_a_review(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, limit=4, handshake_seconds=60)
    async with listening() as address:
        held = []
        for _ in range(4):
            reader, writer = await dialled(address)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            held.append((reader, writer))

        code, _ = await answer(address, "/mutate/podgroups", REVIEW)
        with contextlib.suppress(ConnectionError):
            await held[0][0].read()
        held[3][1].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        rest = await held[3][0].readuntil(b"HTTP/1.1 200")
        for _, writer in held:
            writer.close()

    assert code == 200
    assert rest, "the longest idle one gave way, no other"


async def test_a_client_with_many_connections_gives_way_before_one_with_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited(monkeypatch, limit=3, handshake_seconds=60)
    async with listening() as address:
        reader, few = await dialled(address, local="127.0.0.2")
        many = [await dialled(address) for _ in range(4)]

        few.write(head("/mutate/podgroups", len(REVIEW)) + REVIEW)
        said = await reader.readline()
        for _, writer in (*many, (reader, few)):
            writer.close()

    assert said.startswith(b"HTTP/1.1 200")


async def test_a_request_before_the_answer_to_the_one_before_ends_the_connection() -> None:
    request = head("/mutate/podgroups", len(REVIEW)) + REVIEW
    async with listening() as address:
        reader, writer = await dialled(address)
        writer.write(request * 3)
        answered = await reader.read()
        writer.close()

    assert answered.count(b"HTTP/1.1 200") == 1
    assert b"connection: close" in answered.lower()


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        pytest.param(b"GET /healthz HTTP/1.1\r\nX: ", b"a" * 1024, id="one long header"),
        pytest.param(b"GET /healthz HTTP/1.1\r\n", b"x-a: b\r\n" * 100, id="many headers"),
        pytest.param(b"GET /", b"a" * 1024, id="a long path"),
        pytest.param(
            head("/convert", 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
            + b"0\r\n",
            b"x-a: b\r\n" * 100,
            id="many trailers",
        ),
        pytest.param(
            head("/convert", 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"),
            b"1;abcdefgh\r\n1\r\n" * 100,
            id="many small chunks",
        ),
    ],
)
async def test_what_is_sent_beside_a_body_is_bounded(start: bytes, piece: bytes) -> None:
    async with listening() as address:
        reader, writer = await dialled(address)
        writer.write(start)
        sent = 0
        while not reader.at_eof() and sent < 64 * HEAD_BYTES:
            writer.write(piece)
            sent += len(piece)
            await asyncio.sleep(0)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            if reader._transport.is_closing():  # type: ignore[attr-defined]
                break
        with contextlib.suppress(ConnectionError):
            assert (await reader.read()).startswith(b"HTTP/1.1 431")
        writer.close()

    assert sent < 64 * HEAD_BYTES


async def test_clients_without_a_handshake_are_closed_and_others_take_their_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited(monkeypatch, limit=2, handshake_seconds=0.05)
    async with listening() as address:
        silent = [await dialled(address, None) for _ in range(3)]

        assert (await answer(address, "/mutate/podgroups", REVIEW))[0] == 200
        assert [await reader.read() for reader, _ in silent] == [b""] * 3
        for _, writer in silent:
            writer.close()


async def test_garbage_instead_of_a_handshake_frees_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited(monkeypatch, limit=1, handshake_seconds=60)
    async with listening() as address:
        _, writer = await dialled(address, None)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")

        assert (await answer(address, "/mutate/podgroups", REVIEW))[0] == 200
        writer.close()


async def test_a_connection_that_sends_nothing_frees_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited(monkeypatch, limit=1, handshake_seconds=60)
    monkeypatch.setattr(server, "FIRST_SECONDS", 0.05)
    async with listening() as address:
        _, idle = await dialled(address)

        assert (await answer(address, "/mutate/podgroups", REVIEW))[0] == 200
        idle.close()


async def test_an_answer_that_nobody_takes_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = asyncio.Event()
    seen: Callable[..., None] = server._Protocol.connection_lost

    def connection_lost(self: Any, exc: Exception | None) -> None:
        seen(self, exc)
        lost.set()

    monkeypatch.setattr(server, "STALLED_SECONDS", 0.05)
    monkeypatch.setattr(server._Protocol, "connection_lost", connection_lost)
    padded = pod_group()
    padded["metadata"]["annotations"] = {"padding": "x" * 2**20}
    wanted = "scheduling.muster.dev/v1alpha2"
    request = {"uid": "u", "desiredAPIVersion": wanted, "objects": [padded] * 12}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    body = json.dumps({**kind, "request": request}).encode()
    async with listening() as address:
        _, writer = await dialled(address)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(head("/convert", len(body)) + body)

        await lost.wait()
        writer.transport.abort()


def limited(monkeypatch: pytest.MonkeyPatch, *, limit: int, handshake_seconds: float) -> None:
    """Limit the number of connections of the listener."""

    def few(*args: Any) -> connections.Connections:
        return connections.Connections(*args, limit=limit, handshake_seconds=handshake_seconds)

    monkeypatch.setattr(server, "Connections", few)
