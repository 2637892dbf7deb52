"""Logs, signals, memory and open files of a process."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kube.base import process
from kube.base.process import configure_logging, run_until

_PIECE = 64 * 1024


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


def test_a_process_goes_on_when_its_log_cannot_be_written(tmp_path: Path) -> None:
    """The lines come again as soon as there is space; the metric counts the failed writes."""
    program = """
import logging, resource, structlog
from kube.base.metrics import LOG_WRITES_FAILED
from kube.base.process import configure_logging
configure_logging("test")
log = structlog.get_logger()
log.info("before")
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
for _ in range(1000):
    log.info("full", padding="x" * 100)
    logging.getLogger("library").warning("full, too")
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
log.info("after")
print(LOG_WRITES_FAILED._value.get())
"""
    with (tmp_path / "log").open("wb") as log:
        ended = subprocess.run(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=log, check=False
        )

    assert ended.returncode == 0
    assert float(ended.stdout) >= 1000
    lines = (tmp_path / "log").read_text().splitlines()
    assert '"before"' in lines[0]
    assert '"after"' in lines[-1]
    assert "Traceback" not in "".join(lines)


def test_an_unknown_log_level_is_refused() -> None:
    with pytest.raises(ValueError, match="loud"):
        configure_logging("test", "loud")


PROGRAM = """
import asyncio, logging, structlog
from kube.base import process
from kube.base.process import configure_logging, run

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
    """Return the resident memory of this process in bytes."""
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


def test_as_many_files_may_be_open_as_the_hard_limit_allows() -> None:
    program = (
        "import resource; from kube.base.process import allow_open_files; allow_open_files();"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE); print(soft == hard > 1024)"
    )
    limit = f"ulimit -S -n 1024; exec {sys.executable} -c '{program}'"
    ended = subprocess.run(["/bin/sh", "-c", limit], check=True, capture_output=True, text=True)

    assert ended.stdout == "True\n"
