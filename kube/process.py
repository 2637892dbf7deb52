"""What all processes of Muster share: logs, signals, the event loop, health and metrics."""

import asyncio
import ctypes
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, cast

import structlog
import uvloop
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse
from aiohttp.web_server import Server
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    disable_created_metrics,
    generate_latest,
)

Check = Callable[[], bool]
Details = Callable[[], Iterable[str]]
Page = Callable[[], Awaitable[bytes | Sequence[bytes]]]
"""JSON; a large one in parts, which are sent one by one."""
_Answer = Callable[[BaseRequest], Awaitable[StreamResponse]]

_TRIM_SECONDS: Final = 60.0
_SHUTDOWN_SECONDS: Final = 1.0
"""For requests that are under way when the server stops."""

# When each series began is of use to nobody, and was a fifth of them all.
disable_created_metrics()  # type: ignore[no-untyped-call]

# Without the values of local variables: objects of the cluster are large, and not for logs.
_tracebacks = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)
_malloc_trim = cast("Callable[[int], int] | None", getattr(ctypes.CDLL(None), "malloc_trim", None))
_log = structlog.get_logger()


def configure_logging(process: str, level: str = "info") -> None:
    """Write every log line, those of libraries too, as one JSON object on standard error.

    `level` is debug, info, warning or error. Raises ValueError for any other.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"unknown log level {level!r}")

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
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
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
    # Libraries log much at level info: only warnings of theirs are written.
    root.setLevel(max(number, logging.WARNING))


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
            if stop.is_set():
                task.cancel()
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal, number)
        loop.call_later(_TRIM_SECONDS, _trim_regularly, loop)
        await task

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_done())


def trim_memory() -> None:
    """Return all free pages to the system; a few milliseconds for hundreds of MiB.

    glibc itself returns only the end of its heap, which is nothing for hours where buffers of
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


class StatusServer:
    """HTTP on a loopback or given address: `/healthz`, `/readyz`, `/metrics` and more pages.

    Checks do no I/O. `/readyz` lists every check and is 503 until all hold. `details` are further
    lines there, of what deserves attention but does not make the process unready.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        live: Mapping[str, Check] | None = None,
        ready: Mapping[str, Check] | None = None,
        details: Details = tuple,
        pages: Mapping[str, Page] | None = None,
        actions: Mapping[str, Page] | None = None,
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        """`port` 0 takes a free one; `pages` maps a path to a coroutine giving JSON bytes.

        `actions` maps a path to what a POST does; its result is the response.
        """
        self.port = port
        self._host = host
        self._registry = registry
        self._answers: dict[str, tuple[str, _Answer]] = {
            "/healthz": ("GET", _checks(live or {})),
            "/readyz": ("GET", _checks(ready or {}, details)),
            "/metrics": ("GET", self._metrics),
            **{path: ("GET", _json(page)) for path, page in (pages or {}).items()},
            **{path: ("POST", _json(action)) for path, action in (actions or {}).items()},
        }

    async def start(self) -> None:
        """Listen. Raises OSError when the address is taken."""
        # aiohttp's server without its applications and routes, which cost more to import than all
        # that is served here: 20 ms of processor time at the start of each process.
        self._server = Server(self._answer, access_log=None)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._server, self._host, self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and its connections."""
        self._listener.close()
        self._server.pre_shutdown()
        await self._server.shutdown(timeout=_SHUTDOWN_SECONDS)

    async def __aenter__(self) -> Self:
        """Start listening."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        await self.stop()

    async def _answer(self, request: BaseRequest) -> StreamResponse:
        method, answer = self._answers.get(request.path, ("", None))
        if answer is None:
            return Response(status=404, text="404: Not Found")
        allowed = ("GET", "HEAD") if method == "GET" else (method,)
        if request.method not in allowed:
            text, headers = "405: Method Not Allowed", {"Allow": ",".join(allowed)}
            return Response(status=405, text=text, headers=headers)
        return await answer(request)

    async def _metrics(self, _request: BaseRequest) -> Response:
        return Response(
            body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )


def _checks(checks: Mapping[str, Check], details: Details = tuple) -> _Answer:
    async def answer(_request: BaseRequest) -> Response:
        results = {name: check() for name, check in checks.items()}
        lines = [f"[{'+' if good else '-'}]{name}" for name, good in results.items()]
        lines += [f"[!]{detail}" for detail in details()]
        good = all(results.values())
        lines.append("ok" if good else "not ok")
        return Response(text="\n".join(lines) + "\n", status=200 if good else 503)

    return answer


def _json(page: Page) -> _Answer:
    async def answer(request: BaseRequest) -> StreamResponse:
        body = await page()
        if isinstance(body, bytes):
            return Response(body=body, content_type="application/json")
        response = StreamResponse()
        response.content_type = "application/json"
        await response.prepare(request)
        for part in body:
            await response.write(part)
        return response

    return answer
