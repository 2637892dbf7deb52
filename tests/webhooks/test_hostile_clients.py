"""Clients that mean harm, on real sockets: they are bounded, and others are answered meanwhile."""

import asyncio
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
from tests.webhooks.reviews import FakeLister, encoded, pod_group, review_of
from webhooks import connections, server
from webhooks.intake import SMALL_BODY, Intake, Room
from webhooks.readiness import SERVING, Readiness
from webhooks.reviewer import Reviewer
from webhooks.routes import build
from webhooks.server import Listener, bound

MATERIAL = new_material(ServerNames.of_host("127.0.0.1"), datetime.now(UTC))
TLS = client_context(MATERIAL.ca_bundle)
REVIEW = encoded(review_of(POD_GROUP, pod_group()))
LARGE = SMALL_BODY + 1

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def listening(intake: Intake | None = None) -> AsyncIterator[tuple[str, int]]:
    readiness = Readiness()
    readiness.met(SERVING)
    app = build(Reviewer(FakeLister()), readiness, intake=intake)
    with bound("127.0.0.1", 0) as sock:
        async with Listener(app, server_context(MATERIAL), sock) as listener:
            yield listener.address


async def dialled(address: tuple[str, int], tls: ssl.SSLContext | None = TLS) -> Client:
    return await asyncio.open_connection(*address, ssl=tls)


def head(path: str, length: int) -> bytes:
    fields = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{fields}Content-Length: {length}\r\n\r\n".encode()


async def begun(address: tuple[str, int], path: str, length: int) -> Client:
    """A client that announces a body and sends nothing of it; the server has its head."""
    reader, writer = await dialled(address)
    request = head(path, length).replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    writer.write(request)
    assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
    return reader, writer


async def answer(address: tuple[str, int], path: str, body: bytes) -> tuple[int, bytes]:
    """Code and head of the answer to one whole request."""
    reader, writer = await dialled(address)
    writer.write(head(path, len(body)) + body)
    got = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return int(got.split()[1]), got.lower()


async def test_a_conversion_that_is_not_sent_keeps_no_review_out_and_the_next_waits_in_vain() -> (
    None
):
    rooms = Intake(conversions=Room(LARGE, waiting=1, wait_seconds=0.01))
    async with listening(rooms) as address:
        _, first = await begun(address, "/convert", LARGE)

        code, said = await answer(address, "/convert", b" " * LARGE)
        review, _ = await answer(address, "/mutate/podgroups", REVIEW)
        first.close()

    assert code == 429
    assert b"retry-after: 1" in said
    assert review == 200
    assert rooms.conversions.held == 0


async def test_a_client_that_goes_away_gives_its_room_back() -> None:
    rooms = Intake(reviews=Room(LARGE, wait_seconds=60))
    async with listening(rooms) as address:
        _, first = await begun(address, "/mutate/podgroups", LARGE)
        next_one = asyncio.create_task(answer(address, "/mutate/podgroups", REVIEW.rjust(LARGE)))
        first.transport.abort()

        assert (await next_one)[0] == 200


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
    seen: Callable[..., None] = server._TimeoutProtocol.connection_lost

    def connection_lost(self: Any, exc: Exception | None) -> None:
        seen(self, exc)
        lost.set()

    monkeypatch.setattr(server, "STALLED_SECONDS", 0.05)
    monkeypatch.setattr(server._TimeoutProtocol, "connection_lost", connection_lost)
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
    """The listener takes few connections."""

    def few(*args: Any) -> connections.Connections:
        return connections.Connections(*args, limit=limit, handshake_seconds=handshake_seconds)

    monkeypatch.setattr(server, "Connections", few)
