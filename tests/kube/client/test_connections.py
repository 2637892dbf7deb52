"""Our own connections: reuse, closing, and responses of odd servers."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kube.base.errors import LeaseLost
from kube.client.connections import ConnectionPool, Response, ResponseTooLarge
from kube.client.fencing import fenced

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Server that responds to each request with the next bytes; None closes the connection."""

    def __init__(self, *answers: bytes | None) -> None:
        self.requests: list[bytes] = []
        self.connections: list[asyncio.StreamWriter] = []
        self.asked = asyncio.Event()
        self.url = ""
        self._answers = iter(answers)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self
            for writer in self.connections:
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        while True:
            head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
            length = next(
                (int(line[15:]) for line in head.split(b"\r\n") if line[:15] == b"Content-Length:"),
                0,
            )
            self.requests.append(head + await reader.readexactly(length))
            self.asked.set()
            answer = next(self._answers)
            if answer is None:
                writer.close()
                return
            writer.write(answer)


@asynccontextmanager
async def pair(
    *answers: bytes | None, limit: int = 0
) -> AsyncIterator[tuple[Server, ConnectionPool]]:
    async with Server(*answers).running() as server:
        pool = ConnectionPool(server.url, None, limit=limit)
        try:
            yield server, pool
        finally:
            await pool.close()


async def get(pool: ConnectionPool, path: str = "/x", timeout: float = 5) -> Response:
    return await pool.exchange("GET", path, {"A": "b"}, None, timeout)


async def test_a_request_says_what_it_must_and_no_more() -> None:
    async with pair(OK, OK) as (server, pool):
        await pool.exchange("POST", "/x?y=1", {"A": "b"}, b"{}", 5)
        await get(pool)

    host = server.url.removeprefix("http://").encode()
    assert server.requests == [
        b"POST /x?y=1 HTTP/1.1\r\nHost: " + host + b"\r\nA: b\r\nContent-Length: 2\r\n\r\n{}",
        b"GET /x HTTP/1.1\r\nHost: " + host + b"\r\nA: b\r\n\r\n",
    ]


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        pytest.param(OK, Response(200, b"ok"), id="a body of known length"),
        pytest.param(CHUNKED, Response(200, b"ok"), id="a body in chunks"),
        pytest.param(
            b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK, Response(200, b"ok"), id="a word in advance"
        ),
        pytest.param(
            b"HTTP/1.1 429 Slow\r\nretry-AFTER: 3\r\nContent-Length: 0\r\n\r\n",
            Response(429, b"", "3"),
            id="a wait that is asked for",
        ),
    ],
)
async def test_an_answer_comes_whole(sent: bytes, want: Response) -> None:
    async with pair(sent, OK) as (server, pool):
        assert await get(pool) == want
        assert await get(pool) == Response(200, b"ok")
    assert len(server.connections) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="closed without an answer"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", id="another protocol"),
    ],
)
async def test_no_answer_is_an_error_and_ends_the_connection(answer: bytes | None) -> None:
    async with pair(answer, OK) as (server, pool):
        with pytest.raises(ConnectionError):
            await get(pool)
        assert (await get(pool)).body == b"ok"
    assert len(server.connections) == 2


async def test_a_connection_the_server_wants_closed_is_not_used_again() -> None:
    last = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with pair(last, OK) as (server, pool):
        await get(pool)
        await get(pool)
    assert len(server.connections) == 2


async def test_a_late_response_is_not_taken_for_another_request() -> None:
    async with pair(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", OK) as (server, pool):
        with pytest.raises(TimeoutError):
            await get(pool, timeout=0.05)
        assert (await get(pool)).body == b"ok"
    assert len(server.connections) == 2


async def test_an_unrequested_response_closes_the_connection() -> None:
    async with pair(OK, OK) as (server, pool):
        await get(pool)
        server.connections[0].write(OK.replace(b"ok", b"no"))
        await server.connections[0].wait_closed()
        assert (await get(pool)).body == b"ok"
    assert len(server.connections) == 2


async def test_requests_share_so_many_connections_and_wait_for_one() -> None:
    async with pair(*[OK] * 5, limit=2) as (server, pool):
        answers = await asyncio.gather(*(get(pool) for _ in range(5)))
    assert [answer.body for answer in answers] == [b"ok"] * 5
    assert len(server.connections) == 2


async def test_a_connection_unused_for_lack_of_a_lease_is_kept() -> None:
    async with pair(OK, OK) as (server, pool):
        await get(pool)
        with fenced(lambda: False), pytest.raises(LeaseLost):
            await get(pool)
        await get(pool)
    assert len(server.connections) == 1
    assert len(server.requests) == 2


async def test_closing_ends_what_is_under_way_and_what_waits() -> None:
    async with Server(b"HTTP/1.1 200 OK\r\n").running() as server:
        pool = ConnectionPool(server.url, None, limit=1)
        running, waiting = (asyncio.ensure_future(get(pool)) for _ in range(2))
        await server.asked.wait()
        await pool.close()
        for request in (running, waiting):
            with pytest.raises(ConnectionError):
                await request
    assert len(server.connections) == 1


async def test_closing_does_not_wait_for_ever_for_a_connection_that_never_says_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """uvloop does so, when a connection is aborted right after its handshake."""
    async with pair(OK) as (_, pool):
        await pool.exchange("GET", "/", {}, None, 5)
        (connection,) = pool._open
        transport = connection._transport
        assert transport is not None
        monkeypatch.setattr(connection, "connection_lost", lambda _exc: None)

        await pool.close()

        assert transport.is_closing()


async def test_connections_opened_beforehand_are_used_and_not_opened_twice() -> None:
    async with pair(OK, OK) as (server, pool):
        await pool.open(2)
        await pool.open(2)
        await asyncio.gather(*(pool.exchange("GET", "/", {}, None, 5) for _ in range(2)))
        assert len(server.connections) == 2


async def test_a_failed_connection_is_reported() -> None:
    async with pair() as (server, pool):
        pass
    pool = ConnectionPool(server.url, None)
    with pytest.raises(OSError, match=r"(?i)connect"):
        await pool.open(20)


async def test_a_connection_closed_while_idle_is_forgotten_at_once() -> None:
    async with pair() as (server, pool):
        await pool.open(3)
        gone = asyncio.Event()
        kept = [weakref.ref(connection, lambda _: gone.set()) for connection in pool._idle]
        gc.disable()
        try:
            server.connections[0].close()
            async with asyncio.timeout(5):
                await gone.wait()
        finally:
            gc.enable()
        assert sum(ref() is not None for ref in kept) == len(pool._idle) == 2


async def test_a_response_larger_than_asked_for_is_not_read_to_its_end() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    async with pair(head + b"x" * 5000, OK) as (server, pool):
        with pytest.raises(ResponseTooLarge):
            await pool.exchange("GET", "/", {}, None, 5, largest=4999)
        answer = await pool.exchange("GET", "/", {}, None, 5, largest=2)

    assert answer.body == b"ok"
    assert len(server.connections) == 2
