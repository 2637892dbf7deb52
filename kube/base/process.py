"""The common part of all processes of Muster: logs, signals, the event loop, memory, open files."""

import asyncio
import ctypes
import logging
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TextIO, cast

import structlog
import uvloop

from kube.base.build import Build
from kube.base.metrics import BUILD_INFO, LOG_WRITES_FAILED

_TRIM_SECONDS: Final = 60.0
"""Seconds between two requests to glibc to return freed memory to the system."""

# Without the values of local variables: objects of the cluster are large, and not for logs.
_tracebacks = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)
_malloc_trim = cast("Callable[[int], int] | None", getattr(ctypes.CDLL(None), "malloc_trim", None))
_log = structlog.get_logger()


class _LogOutput:
    """Standard error for log lines. On a full disk lines are lost, and the process goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except OSError:
            LOG_WRITES_FAILED.inc()

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            LOG_WRITES_FAILED.inc()


def configure_logging(process: str, level: str = "info") -> None:
    """Write every log line, those of libraries too, as one JSON object on standard error.

    `level` is debug, info, warning or error. Raises ValueError for any other.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"unknown log level {level!r}")
    output = cast("TextIO", _LogOutput(sys.stderr))

    def name_process(_logger: Any, _method: str, line: Any) -> Any:
        line["process"] = process
        return line

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_process,
        _tracebacks,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(output),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    # Libraries log much at level info: only their warnings are written.
    root.setLevel(max(number, logging.WARNING))


def announce(build: Build) -> None:
    """Log the version and the commit at the start of a process, and set the metric."""
    BUILD_INFO.labels(build.version, build.commit).set(1)
    _log.info("starting", version=build.version, commit=build.commit)


def run(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run a process to its end on uvloop.

    `main` gets an event that the first SIGTERM or SIGINT sets; the second one cancels it.
    """

    async def until_done() -> None:
        stop = asyncio.Event()
        task = asyncio.ensure_future(main(stop))
        loop = asyncio.get_running_loop()

        def on_signal(number: signal.Signals) -> None:
            _log.info("signal", signal=number.name)
            # The first signal ends the process in order, the second one immediately.
            if stop.is_set():
                task.cancel()
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal, number)
        loop.call_later(_TRIM_SECONDS, _trim_regularly, loop)
        await task

    allow_open_files()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_done())


def allow_open_files() -> None:
    """Raise the soft limit of open files to the hard one, as Go's programs do.

    Container runtimes leave it at 1,024: watches and requests would have to share these with the
    clients of the process.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # the system does not allow as many
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def trim_memory() -> None:
    """Return all free pages to the system; a few milliseconds for hundreds of MiB.

    glibc itself returns only the end of its heap. That is nothing for hours where buffers of
    connections and responses are allocated between smaller objects that stay. With another C
    library this does nothing.
    """
    if _malloc_trim is not None:
        _malloc_trim(0)


def _trim_regularly(loop: asyncio.AbstractEventLoop) -> None:
    trim_memory()
    loop.call_later(_TRIM_SECONDS, _trim_regularly, loop)


async def run_until(stop: asyncio.Event, *parts: Coroutine[Any, Any, None]) -> None:
    """Run all parts concurrently until `stop` is set, then cancel them and wait for their end.

    A part that fails ends the others; the failures are raised as an exception group.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in parts]
        await stop.wait()
        for task in tasks:
            task.cancel()
