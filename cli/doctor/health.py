"""The processes themselves: the result of `/readyz`, and the objects that they skip."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import aiohttp

from api.reading import dig, mapping, mappings, text
from cli.doctor.findings import About, Check, Finding, Limited
from cli.doctor.leaders import TOLERANCE, wrong_clock
from kube.base.clock import moment, seconds_of
from kube.base.errors import ApiError, Forbidden, KubeError, ServerError, Unreachable
from kube.client.client import Client
from kube.client.connections import Response
from kube.client.meta import Json
from kube.client.resources import PODS

HEALTH_PORT: Final = "health"
READY_SECONDS: Final = 5.0
"""Seconds that a process has for `/readyz`, which costs it nothing."""

_LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a page of a process. A larger one is an error."""

_SECONDS: Final = 10.0
"""Seconds that a process has for a page."""

_AT_ONCE: Final = 8
"""Concurrent requests to processes."""

_TIMES: Final = ("eventTime", "lastTimestamp", "firstTimestamp")
_RECENT: Final = timedelta(hours=1)
_CORRECT: Final = "correct or delete these objects: docs/configuration.md, What is set aside"


@dataclass(frozen=True, slots=True)
class Process:
    """One process of Muster: a pod, or a process outside of the cluster with its URL."""

    about: About
    path: str = ""
    url: str = ""

    async def get(
        self, client: Client, page: str, largest: int = _LARGEST, seconds: float = _SECONDS
    ) -> Response:
        """Return one of its pages. Raises kube errors."""
        if self.path:
            return await client.behind(f"{self.path}{page}", timeout=seconds, largest=largest)
        return await _get(f"{self.url}{page}", largest, seconds)


@dataclass(frozen=True, slots=True)
class Ready:
    """The response of `/readyz`. `ahead` is the process's clock minus the API server's."""

    text: str
    ahead: timedelta | None = None


async def _get(url: str, largest: int, seconds: float) -> Response:
    timeout = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            parts, size = [], 0
            async for part in response.content.iter_chunked(65_536):
                parts.append(part)
                size += len(part)
                # The size is counted here: Content-Length may be absent or wrong.
                if size > largest:
                    break
            body = b"".join(parts)[:largest]
            if response.status >= 400:
                raise ServerError(
                    response.status, "", body.decode(errors="replace"), path=url, method="GET"
                )
            return Response(response.status, body, date=response.headers.get("Date"))
    except (aiohttp.ClientError, OSError, ValueError) as problem:
        raise Unreachable("GET", url, str(problem) or type(problem).__name__) from problem


def processes(pods: Iterable[Json], urls: Sequence[str]) -> list[Process]:
    """Return Muster's running pods, through the API server's proxy, and the given URLs."""
    found = []
    for pod in pods:
        about, port = About.of("Pod", pod), port_of(pod, HEALTH_PORT)
        if port and text(dig(pod, "status", "phase")) == "Running":
            path = f"{PODS.path(about.namespace, f'{about.name}:{port}')}/proxy"
            found.append(Process(about, path=path))
    return [*found, *(Process(About("Process", url), url=url.rstrip("/")) for url in urls)]


def port_of(pod: Json, name: str) -> int:
    """Return the number of a named port; 0 if the pod has none of this name."""
    for container in mappings(pod, "spec", "containers"):
        for port in mappings(container, "ports"):
            number = port.get("containerPort")
            if port.get("name") == name and isinstance(number, int):
                return number
    return 0


async def read_ready(client: Client, found: Sequence[Process]) -> list[Ready | KubeError]:
    """Return the response of each `/readyz`, ready or not."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def read(process: Process) -> Ready | KubeError:
        async with limit:
            try:
                said = await process.get(client, "/readyz", 65_536, READY_SECONDS)
            except ServerError as problem:
                # 503 is a result, too: its body lists the checks, one a line.
                return Ready(problem.message) if problem.message.startswith("[") else problem
            except KubeError as problem:
                return problem
            seconds = seconds_of(said.date or "")
            now = client.server_clock.now().timestamp()
            ahead = None if seconds is None else timedelta(seconds=seconds - now)
            return Ready(said.body.decode(errors="replace"), ahead)

    return list(await asyncio.gather(*map(read, found)))


def check_processes(
    processes: Sequence[Process], said: Sequence[Ready | KubeError]
) -> Iterator[Finding]:
    """Check each response; errors of one kind are one finding, as they have one cause."""
    unread: dict[type[KubeError], list[Finding]] = {}
    for process, one in zip(processes, said, strict=True):
        if isinstance(one, KubeError):
            unread.setdefault(type(one), []).extend(check_ready(process, one))
        else:
            yield from check_ready(process, one)
    for first, *others in unread.values():
        more = f"; the same for {len(others)} more" if others else ""
        yield replace(first, problem=f"{first.problem}{more}")


def check_ready(process: Process, said: Ready | KubeError) -> Iterator[Finding]:
    """Yield the failed checks, the skipped objects, and a wrong clock."""
    about, check = process.about, Check("health", process.about)
    if isinstance(said, KubeError):
        action = "check that it runs, and that a NetworkPolicy does not block its port"
        if isinstance(said, Forbidden):
            action = "run muster doctor as a user who can get pods/proxy"
        refused = isinstance(said, ApiError)
        yield check.warning(f"its /readyz cannot be read: {said}" if refused else f"{said}", action)
        return
    if said.ahead is not None and abs(said.ahead) > TOLERANCE:
        yield wrong_clock(about, "its clock", said.ahead)
    lines = said.text.splitlines()
    if failed := [line[3:] for line in lines if line.startswith("[-]")]:
        yield check.error(
            f"it is not ready: {', '.join(failed)}",
            "check its log, which states what it waits for",
        )
    for line in lines:
        if line.startswith("[!]"):
            yield Check("set-aside", about).warning(line[3:], _CORRECT)
    if not failed:
        yield check.info("it is ready")


def check_event(event: Json, found: Limited, seen: set[About], now: datetime) -> None:
    """Add the object that an event of the last hour reports as skipped, once."""
    times = (moment(text(event.get(key))) for key in _TIMES)
    last = max((one for one in times if one is not None), default=None)
    regarding = mapping(event.get("involvedObject"))
    about = About(*(text(regarding.get(key)) for key in ("kind", "name", "namespace")))
    # Any user may write an event with this reason.
    ours = text(event.get("reportingComponent")).startswith("muster-")
    if not ours or last is None or now - last > _RECENT or about in seen:
        return
    if not found.full(about.namespace):
        seen.add(about)
    found.warn(about, text(event.get("message")), _CORRECT)
