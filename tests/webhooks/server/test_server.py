"""The listener over real TLS: routes, limits, readiness, and a shutdown that loses no review."""

import asyncio
import io
import json
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from api.constants import POD_GROUP
from certs.authority import new_material
from certs.context import client_context, server_context
from certs.material import ServerNames
from tests.webhooks.review_requests import FakeLister, encoded, pod_group, read, review_of
from webhooks.reviews.metrics import REVIEWS
from webhooks.routing.reviewer import Reviewer
from webhooks.server import server
from webhooks.server.readiness import SERVING, Readiness
from webhooks.server.routes import BODY_LIMIT, build
from webhooks.server.server import Listener, bound

MATERIAL = new_material(ServerNames.of_host("127.0.0.1"), datetime.now(UTC))
REVIEW = review_of(POD_GROUP, pod_group())


@dataclass
class Served:
    """A listener, its readiness, and a way to call it."""

    listener: Listener
    readiness: Readiness
    session: aiohttp.ClientSession
    tls: ssl.SSLContext

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.listener.address[1]}{path}"

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
        fields = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        data = io.BytesIO(body) if isinstance(body, bytes) else body
        async with self.session.post(self.url(path), data=data, headers=fields) as answer:
            return answer.status, json.loads(await answer.read())

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(self.url(path)) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    readiness = Readiness((SERVING,))
    readiness.met(SERVING)
    trust = client_context(MATERIAL.ca_bundle)
    connector = aiohttp.TCPConnector(ssl=trust)
    app = build(Reviewer(FakeLister()), readiness)
    with bound("127.0.0.1", 0) as sock:
        async with (
            aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            Listener(app, server_context(MATERIAL), sock) as listener,
        ):
            yield Served(listener, readiness, session, trust)


async def test_a_review_is_answered(served: Served) -> None:
    code, body = await served.post("/mutate/podgroups?timeout=5s", encoded(REVIEW))

    answer = read(json.dumps(body).encode(), REVIEW)
    assert code == 200
    assert answer.allowed
    assert answer.result is not None
    assert answer.result["metadata"]["finalizers"]


@pytest.mark.parametrize(
    ("path", "body", "headers", "want"),
    [
        pytest.param("/mutate/podgroups", b"{", {}, (400, "BadRequest"), id="broken JSON"),
        pytest.param("/mutate/nodes", b"{}", {}, (404, "NotFound"), id="a path without a webhook"),
        pytest.param(
            "/mutate/podgroups",
            b"a: b",
            {"Content_Type": "application/yaml"},
            (415, "UnsupportedMediaType"),
            id="another content type",
        ),
        pytest.param(
            "/mutate/podgroups",
            b" " * (BODY_LIMIT + 1),
            {},
            (413, "RequestEntityTooLarge"),
            id="a body over the limit that says so",
        ),
    ],
)
async def test_what_is_no_review_is_refused_as_a_status(
    served: Served, path: str, body: bytes, headers: dict[str, str], want: tuple[int, str]
) -> None:
    code, status = await served.post(path, body, **headers)

    assert (code, status["reason"]) == want
    assert status["kind"] == "Status"
    assert status["code"] == code
    assert status["message"]


async def test_a_body_of_the_limit_is_read_and_one_sent_in_pieces_is_cut_off(
    served: Served,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(BODY_LIMIT // 2**20 + 1):
            yield b" " * 2**20

    padded = encoded(REVIEW).rjust(BODY_LIMIT)

    assert (await served.post("/mutate/podgroups", padded))[0] == 200
    assert (await served.post("/mutate/podgroups", pieces()))[0] == 413


async def test_readiness_names_what_is_missing(served: Served) -> None:
    served.readiness.unmet("priorityclasses", "not checked yet")
    before = await served.get("/readyz")
    for check in served.readiness.problems:
        served.readiness.met(check)
    after = await served.get("/readyz")
    served.readiness.unmet("registration", "the caBundle is another's")
    lost = await served.get("/readyz")

    assert before[0] == 503
    assert "priorityclasses: not checked yet" in before[1]
    assert after == (200, "ok")
    assert lost == (503, "registration: the caBundle is another's")
    assert await served.get("/healthz") == (200, "ok")


async def test_the_pages_are_described_in_openapi(served: Served) -> None:
    status, document = await served.get("/openapi.json")

    assert status == 200
    assert set(json.loads(document)["paths"]) == {"/healthz", "/readyz"}


async def test_reviews_are_counted_by_route_and_outcome(served: Served) -> None:
    counted = REVIEWS.labels("validate/workloads", "malformed")._value
    before = counted.get()
    await served.post("/validate/workloads", b"{}")

    assert counted.get() == before + 1
    assert (await served.get("/metrics"))[0] == 404, "the health port has them"


async def test_a_review_on_its_way_is_answered_when_the_server_stops() -> None:
    body = encoded(REVIEW)
    head = (
        "POST /mutate/podgroups HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    with bound("127.0.0.1", 0) as sock:
        app = build(Reviewer(FakeLister()), Readiness((SERVING,)))
        async with Listener(app, server_context(MATERIAL), sock) as listener:
            reader, writer = await asyncio.open_connection(
                *listener.address, ssl=client_context(MATERIAL.ca_bundle)
            )
            # The listener has the request once it responds to this part of it.
            writer.write(head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
            assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
            stopping = asyncio.create_task(listener.__aexit__(None, None, None))
            await asyncio.sleep(0)
            writer.write(body)
            answer = await reader.read()
            await stopping

    assert b"HTTP/1.1 200 OK" in answer
    assert b'"allowed":true' in answer
    writer.close()


HEAD = b"POST /mutate/podgroups HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
HALF = HEAD + b"Content-Length: 100\r\n\r\n{"


async def test_a_client_that_is_too_slow_is_told_so() -> None:
    app = build(Reviewer(FakeLister()), Readiness((SERVING,)), body_seconds=0.01)
    with bound("127.0.0.1", 0) as sock:
        async with Listener(app, server_context(MATERIAL), sock) as listener:
            reader, writer = await asyncio.open_connection(
                *listener.address, ssl=client_context(MATERIAL.ca_bundle)
            )
            writer.write(HALF)
            answer = await reader.readline()
            writer.close()

    assert answer == b"HTTP/1.1 408 Request Timeout\r\n"


async def test_a_client_that_goes_away_is_no_error(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await asyncio.open_connection(*served.listener.address, ssl=served.tls)
    writer.write(HALF)
    await writer.drain()
    writer.close()
    await writer.wait_closed()

    assert await served.get("/healthz") == (200, "ok")
    assert caplog.records == []


async def test_while_draining_every_answer_ends_its_connection(served: Served) -> None:
    async def answer() -> tuple[str, bool]:
        async with served.session.post(
            served.url("/mutate/podgroups"),
            data=encoded(REVIEW),
            headers={"Content-Type": "application/json"},
        ) as response:
            allowed = json.loads(await response.read())["response"]["allowed"]
            return response.headers.get("Connection", ""), allowed

    before = await answer()
    served.readiness.unmet(SERVING, "the process was stopped")
    after = await answer()

    assert before == ("", True)
    assert after == ("close", True)


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(b"", id="nothing is sent"),
        pytest.param(HEAD, id="the head never ends"),
    ],
)
async def test_a_connection_on_which_no_request_comes_is_closed(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.01)
    monkeypatch.setattr(server, "FIRST_SECONDS", 0.01)
    with bound("127.0.0.1", 0) as sock:
        app = build(Reviewer(FakeLister()), Readiness((SERVING,)))
        async with Listener(app, server_context(MATERIAL), sock) as listener:
            reader, writer = await asyncio.open_connection(
                *listener.address, ssl=client_context(MATERIAL.ca_bundle)
            )
            writer.write(begun)
            answer = await reader.read()
            writer.close()

    assert answer == b""


def conversion_review(*objects: dict[str, Any], version: str = "v1alpha2") -> dict[str, Any]:
    wanted = f"scheduling.muster.dev/{version}"
    request = {"uid": "u1", "desiredAPIVersion": wanted, "objects": list(objects)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": request,
    }


async def test_objects_are_converted_there_and_back(served: Served) -> None:
    groups = [pod_group(f"g{n}") for n in range(3)]

    code, there = await served.post("/convert?timeout=30s", encoded(conversion_review(*groups)))
    old = there["response"]["convertedObjects"]
    _, back = await served.post("/convert", encoded(conversion_review(*old, version="v1alpha3")))

    assert code == 200
    assert (there["kind"], there["apiVersion"]) == ("ConversionReview", "apiextensions.k8s.io/v1")
    assert there["response"]["uid"] == "u1"
    assert there["response"]["result"] == {"status": "Success"}
    assert {obj["apiVersion"] for obj in old} == {"scheduling.muster.dev/v1alpha2"}
    assert [obj["spec"] for obj in back["response"]["convertedObjects"]] == [
        group["spec"] for group in groups
    ]


async def test_a_long_list_is_converted_beyond_the_limit_of_a_review(served: Served) -> None:
    padding = {"annotations": {"padding": "x" * 250_000}}
    groups = [pod_group(f"g{n}") for n in range(40)]
    for group in groups:
        group["metadata"] |= padding

    code, answer = await served.post("/convert", encoded(conversion_review(*groups)))

    assert code == 200
    assert len(answer["response"]["convertedObjects"]) == 40


async def test_what_cannot_be_converted_is_said_and_nothing_else_is_converted(
    served: Served,
) -> None:
    foreign = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}

    code, answer = await served.post("/convert", encoded(conversion_review(pod_group(), foreign)))

    assert code == 200
    assert answer["response"]["result"]["status"] == "Failure"
    assert "cannot convert Pod v1" in answer["response"]["result"]["message"]
    assert "convertedObjects" not in answer["response"]


async def test_what_is_no_conversion_review_is_refused(served: Served) -> None:
    code, status = await served.post("/convert", encoded(REVIEW))

    assert (code, status["reason"]) == (400, "BadRequest")
    assert {cause["field"] for cause in status["details"]["causes"]} >= {"apiVersion", "kind"}


async def test_a_taken_port_is_an_error_at_once() -> None:
    with bound("127.0.0.1", 0) as sock, pytest.raises(OSError, match="in use"):
        bound("127.0.0.1", sock.getsockname()[1])


def test_no_answer_waits_for_the_client_to_confirm_its_head() -> None:
    with bound("127.0.0.1", 0) as listening:
        listening.setblocking(True)
        with socket.create_connection(listening.getsockname()):
            connection, _ = listening.accept()
    with connection:
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
