"""Health, metrics and debug pages of a process, and the cost of hostile clients."""

import asyncio

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kube.base import status_server
from kube.base.status_server import CONNECTIONS, HEAD_BYTES, StatusServer

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def fetch(server: StatusServer, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{server.port}{path}") as response,
    ):
        return response.status, await response.text()


async def test_readiness_names_every_check_and_waits_for_all() -> None:
    synced = False
    checks = {"caches-synced": lambda: synced, "certificate": lambda: True}

    async with StatusServer(ready=checks) as server:
        assert await fetch(server, "/readyz") == (503, "[-]caches-synced\n[+]certificate\nnot ok\n")
        synced = True
        assert await fetch(server, "/readyz") == (200, "[+]caches-synced\n[+]certificate\nok\n")


async def test_details_are_shown_and_do_not_make_a_process_unready() -> None:
    details = ["pods: set aside: ns/a (OverflowError)"]

    async with StatusServer(ready={"caches": lambda: True}, details=lambda: details) as server:
        status, text = await fetch(server, "/readyz")

    assert (status, text) == (200, f"[+]caches\n[!]{details[0]}\nok\n")


async def test_a_process_without_checks_is_alive() -> None:
    async with StatusServer() as server:
        assert await fetch(server, "/healthz") == (200, "ok\n")


async def test_no_series_says_when_another_began() -> None:
    registry = CollectorRegistry()
    Counter("made", "Made.", ["by"], registry=registry).labels("us").inc()
    Histogram("took", "Took.", registry=registry).observe(1)

    async with StatusServer(registry=registry) as server:
        _, text = await fetch(server, "/metrics")

    assert 'made_total{by="us"} 1.0' in text
    assert "_created" not in text


async def test_metrics_are_those_of_the_registry() -> None:
    registry = CollectorRegistry()
    Counter("seen", "Things seen.", registry=registry).inc(3)

    async with StatusServer(registry=registry) as server:
        status, text = await fetch(server, "/metrics")

    assert status == 200
    assert "seen_total 3.0" in text


async def test_more_pages_can_be_served() -> None:
    async def snapshot() -> bytes:
        return b'{"pods":[]}'

    async with StatusServer(pages={"/debug/snapshot": snapshot}) as server:
        assert await fetch(server, "/debug/snapshot") == (200, '{"pods":[]}')
        assert (await fetch(server, "/debug/other"))[0] == 404


async def test_a_page_is_read_only() -> None:
    async with StatusServer() as server, aiohttp.ClientSession() as session:
        address = f"http://127.0.0.1:{server.port}/healthz"
        async with session.post(address) as refused:
            assert (refused.status, refused.headers["Allow"]) == (405, "GET,HEAD")
        async with session.head(address) as head:
            assert (head.status, await head.read()) == (200, b"")
        async with session.get(f"{address}?verbose") as verbose:
            assert verbose.status == 200


async def test_a_failing_page_does_not_end_the_server() -> None:
    async def broken() -> bytes:
        raise LookupError("broken")

    async with StatusServer(pages={"/debug/broken": broken}) as server:
        assert (await fetch(server, "/debug/broken"))[0] == 500
        assert await fetch(server, "/healthz") == (200, "ok\n")


async def test_a_request_under_way_is_given_up_soon_after_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_server, "_SHUTDOWN_SECONDS", 0.01)
    asked = asyncio.Event()

    async def endless() -> bytes:
        asked.set()
        await asyncio.Event().wait()
        return b""

    async with StatusServer(pages={"/debug/endless": endless}) as server:
        request = asyncio.ensure_future(fetch(server, "/debug/endless"))
        await asked.wait()
    with pytest.raises(aiohttp.ClientError):
        await asyncio.wait_for(request, 20)


async def test_an_address_that_is_taken_is_an_error() -> None:
    async with StatusServer() as server:
        with pytest.raises(OSError, match="address already in use"):
            async with StatusServer(port=server.port):
                pass


async def test_a_large_page_is_sent_in_parts() -> None:
    async def snapshot() -> list[bytes]:
        return [b'{"pods":[', b"1", b",2", b"]}"]

    async with StatusServer(pages={"/debug/snapshot": snapshot}) as server:
        assert await fetch(server, "/debug/snapshot") == (200, '{"pods":[1,2]}')


async def test_an_action_is_run_by_post_only() -> None:
    done: list[str] = []

    async def act() -> bytes:
        done.append("it")
        return b"{}"

    async with StatusServer(actions={"/debug/act": act}) as server:
        assert (await fetch(server, "/debug/act"))[0] == 405
        assert done == []
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://127.0.0.1:{server.port}/debug/act") as response,
        ):
            assert (response.status, await response.text()) == (200, "{}")
    assert done == ["it"]


async def dialled(server: StatusServer, local: str = "127.0.0.1") -> Client:
    return await asyncio.open_connection("127.0.0.1", server.port, local_addr=(local, 0))


def close(*clients: Client) -> None:
    for _, writer in clients:
        writer.close()


async def test_idle_connections_keep_no_probe_out() -> None:
    async with StatusServer() as server:
        held = [await dialled(server) for _ in range(2 * CONNECTIONS)]

        assert await fetch(server, "/healthz") == (200, "ok\n")
        assert len(server._open) <= CONNECTIONS
        assert await held[0][0].read() == b"", "the oldest is closed"
        held[-1][1].write(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert await held[-1][0].readline() == b"HTTP/1.1 200 OK\r\n"
        close(*held)


async def test_a_client_with_few_connections_keeps_them() -> None:
    async with StatusServer() as server:
        reader, writer = await dialled(server, "127.0.0.2")
        held = [await dialled(server) for _ in range(2 * CONNECTIONS)]

        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        close((reader, writer), *held)


async def test_clients_that_wait_for_a_slow_page_keep_no_probe_out() -> None:
    async def endless() -> bytes:
        await asyncio.Event().wait()
        return b""

    async with StatusServer(pages={"/debug/endless": endless}) as server:
        held = [await dialled(server) for _ in range(2 * CONNECTIONS)]
        for _, writer in held:
            writer.write(b"GET /debug/endless HTTP/1.1\r\n\r\n")

        assert await fetch(server, "/healthz") == (200, "ok\n")
        close(*held)


async def test_a_request_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_server, "HEAD_SECONDS", 0.01)
    async with StatusServer() as server:
        reader, writer = await dialled(server)
        writer.write(b"GET /healthz HTTP/1.1\r\n")

        assert await reader.read() == b""
        writer.close()


async def test_a_long_head_is_refused() -> None:
    async with StatusServer() as server:
        reader, writer = await dialled(server)
        writer.write(b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 4 * HEAD_BYTES)

        assert await reader.readline() == b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
        writer.close()


async def test_a_connection_carries_one_request() -> None:
    async with StatusServer() as server:
        reader, writer = await dialled(server)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n" * 3)

        answered = b""
        try:
            while piece := await reader.read(1024):
                answered += piece
        except ConnectionResetError:  # it had not read the others
            pass
        assert answered.count(b"HTTP/1.1 200 OK") == 1
        writer.close()


@pytest.mark.parametrize("line", [b"", b"GET", b"GET /healthz", b"GET /healthz SPDY/1", b"\xff"])
async def test_what_is_no_request_is_refused(line: bytes) -> None:
    async with StatusServer() as server:
        reader, writer = await dialled(server)
        writer.write(line + b"\r\n\r\n")

        assert await reader.readline() == b"HTTP/1.1 400 Bad Request\r\n"
        writer.close()


class _Counting(Collector):
    """Collector that counts its calls."""

    times = 0

    def collect(self) -> list[Metric]:
        self.times += 1
        return []


async def test_all_who_ask_at_once_share_one_answer() -> None:
    registry, counting = CollectorRegistry(auto_describe=False), _Counting()
    registry.register(counting)
    counting.times = 0
    async with StatusServer(registry=registry) as server, asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(fetch(server, "/metrics"))

    assert 1 <= counting.times < CONNECTIONS / 2


async def test_a_costly_page_rests_before_it_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses at most a tenth of the time, however many clients request it."""
    now = 0.0
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(max(0.0, seconds))

    async def page() -> bytes:
        nonlocal now
        now += 2.0
        return b"{}"

    monkeypatch.setattr(status_server, "_now", lambda: now)
    monkeypatch.setattr(status_server, "_sleep", sleep)
    async with StatusServer(pages={"/debug/snapshot": page}) as server:
        for _ in range(2):
            assert await fetch(server, "/debug/snapshot") == (200, "{}")

    assert rests == [0.0, 18.0]
