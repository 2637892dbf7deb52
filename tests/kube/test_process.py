"""Logs, signals, health, metrics and memory of a process."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram

from kube import process
from kube.process import StatusServer, configure_logging, run_until

_PIECE = 64 * 1024


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
    monkeypatch.setattr(process, "_SHUTDOWN_SECONDS", 0.01)
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
            await StatusServer(port=server.port).start()


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


async def test_parts_run_until_told_to_stop() -> None:
    stop = asyncio.Event()
    ended = []

    async def part(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    running = asyncio.ensure_future(run_until(stop, part("a"), part("b")))
    await asyncio.sleep(0)
    stop.set()
    await running

    assert sorted(ended) == ["a", "b"]


async def test_a_part_that_fails_ends_the_others_and_is_raised() -> None:
    ended = asyncio.Event()

    async def patient() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def broken() -> None:
        raise LookupError("broken")

    with pytest.raises(ExceptionGroup) as caught:
        await run_until(asyncio.Event(), patient(), broken())

    assert caught.group_contains(LookupError)
    assert ended.is_set()


def test_an_unknown_log_level_is_refused() -> None:
    with pytest.raises(ValueError, match="loud"):
        configure_logging("test", "loud")


PROGRAM = """
import asyncio, logging, structlog
from kube import process
from kube.process import configure_logging, run

async def main(stop):
    configure_logging("test")
    log = structlog.get_logger()
    logging.getLogger("library").warning("from %s", "below")
    log.debug("unseen")
    secret = "of a tenant"
    try:
        1 / len(secret[:0])
    except ZeroDivisionError:
        log.exception("failed", pod="ns/p")
    print("ready", flush=True)
    await stop.wait()
    print("stopping", flush=True)
    await asyncio.sleep({linger})

run(main)
"""


def start(linger: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(linger=linger)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_log_line_is_json_and_a_signal_ends_the_process() -> None:
    process = start(linger=0)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)

    library, failed, signalled = lines(errors)
    assert process.returncode == 0
    assert (library["event"], library["level"]) == ("from below", "warning")
    assert (failed["event"], failed["pod"], failed["process"]) == ("failed", "ns/p", "test")
    assert failed["exception"][0]["exc_type"] == "ZeroDivisionError"
    assert failed["exception"][0]["frames"][-1]["name"] == "main"
    assert "of a tenant" not in errors
    assert (signalled["event"], signalled["signal"]) == ("signal", "SIGTERM")


def test_a_second_signal_does_not_wait_for_a_slow_end() -> None:
    process = start(linger=3600)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "stopping\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)

    assert process.returncode != 0


def test_freed_memory_is_trimmed_regularly(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    stops: list[asyncio.Event] = []

    def trim_memory() -> None:
        times.append(1)
        if len(times) == 3:
            stops[0].set()

    async def main(stop: asyncio.Event) -> None:
        stops.append(stop)
        await asyncio.wait_for(stop.wait(), 10)

    monkeypatch.setattr(process, "_TRIM_SECONDS", 0.001)
    monkeypatch.setattr(process, "trim_memory", trim_memory)

    process.run(main)

    assert len(times) >= 3


def resident() -> int:
    """Resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(process._malloc_trim is None, reason="not glibc")
def test_memory_freed_between_live_objects_is_returned_to_the_system() -> None:
    pieces = [bytes([number % 256]) * _PIECE for number in range(1_600)]
    kept = pieces[::16]
    pieces.clear()
    before = resident()

    process.trim_memory()

    assert before - resident() > 800 * _PIECE
    assert [piece[0] for piece in kept] == [number % 256 for number in range(0, 1_600, 16)]
