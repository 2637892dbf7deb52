"""A port that forwards bytes to one of several servers, and can lose or delay them.

It is the load balancer in front of replicated servers, and a process's link to them: a link of its
own can be cut, in one direction too, delayed and throttled. It needs no root and no kernel module.
TLS passes through unchanged: the server's certificate must be valid for 127.0.0.1.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import yaml

from e2e.harness.support import ports

_CHUNK = 1 << 16


class Direction(Enum):
    """The direction of bytes: of requests to the server, or of its responses and events."""

    REQUESTS = "requests"
    RESPONSES = "responses"


BOTH = tuple(Direction)


@dataclass(eq=False, slots=True)
class _Way:
    """One direction to one target: `delay` in seconds, `rate` in bytes per second."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    delay: float = 0.0
    rate: float = math.inf

    async def passes(self, source: asyncio.StreamReader) -> bytes | None:
        """Wait until the way is open; return what arrived meanwhile, None if the sender gave up.

        A sender that gave up sends nothing again, so what it sent is lost.
        """
        arrived = b""
        opened = asyncio.ensure_future(self.open.wait())
        while not opened.done():
            reading = asyncio.ensure_future(source.read(_CHUNK))
            await asyncio.wait({opened, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                # The bytes stay in the reader, which has not returned them.
                reading.cancel()
                await asyncio.wait({reading})
            elif not (part := reading.result()):
                await opened
                return None
            else:
                arrived += part
        return arrived

    async def pace(self, size: int) -> None:
        """Wait as long as so many bytes take."""
        if seconds := self.delay + size / self.rate:
            await asyncio.sleep(seconds)


@dataclass(eq=False, slots=True)
class _Flow:
    """One client's connection; `target` is set once it is forwarded."""

    writers: list[asyncio.StreamWriter]
    target: int | None = None


class Forwarder:
    """Listener on a free loopback port that connects each client to one of `targets`.

    Targets are loopback ports. They take turns, without those that refuse a connection and those
    that are not `healthy`, unless none is.
    """

    def __init__(self, *targets: int, healthy: Callable[[int], bool] = lambda _: True) -> None:
        (self.port,) = ports.free(1)
        self._ways = {target: {each: _Way() for each in Direction} for target in targets}
        self._healthy = healthy
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._flows: dict[asyncio.Task[None], _Flow] = {}
        self.heal()

    @property
    def targets(self) -> Sequence[int]:
        return list(self._ways)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self.heal()
        self.reset()
        if self._flows:
            await asyncio.wait(list(self._flows))

    def connections(self, target: int) -> int:
        """Return the number of connections to a target."""
        return sum(flow.target == target for flow in self._flows.values())

    def reset(self, *targets: int) -> None:
        """Break every connection (to these targets), as a restarted load balancer does.

        New ones are accepted.
        """
        for flow in self._flows.values():
            if not targets or flow.target in targets:
                for writer in flow.writers:
                    writer.transport.abort()

    def freeze(self, *targets: int, directions: Sequence[Direction] = BOTH) -> None:
        """Delay all bytes and keep the connections open, as a network that drops packets.

        What a client sent and gave up before `thaw` never arrives.
        """
        for way in self._chosen(targets, directions):
            way.open.clear()

    def thaw(self, *targets: int) -> None:
        """Forward the delayed bytes, and all later ones."""
        for way in self._chosen(targets, BOTH):
            way.open.set()

    def slow(
        self,
        *targets: int,
        delay: float = 0.0,
        rate: float = math.inf,
        directions: Sequence[Direction] = BOTH,
    ) -> None:
        """Delay bytes by that many seconds, and limit them to that many per second."""
        for way in self._chosen(targets, directions):
            way.delay, way.rate = delay, rate

    def heal(self) -> None:
        """Forward everything at once again."""
        self.thaw()
        self.slow()

    def _chosen(self, targets: Sequence[int], directions: Sequence[Direction]) -> Iterator[_Way]:
        for target in targets or self._ways:
            for direction in directions:
                yield self._ways[target][direction]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        flow = self._flows[task] = _Flow([writer])
        try:
            with contextlib.suppress(OSError):
                onward, upstream = await self._connect(flow)
                await self._join(flow, reader, upstream, onward, writer)
        finally:
            del self._flows[task]
            for each in flow.writers:
                each.transport.abort()

    async def _connect(self, flow: _Flow) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the next target. Raises OSError if all refuse."""
        refused: OSError = ConnectionRefusedError("there is no target")
        for target in self._order():
            flow.target = target
            ways = self._ways[target]
            for way in ways.values():
                await way.open.wait()
            await ways[Direction.REQUESTS].pace(0)
            try:
                onward, upstream = await asyncio.open_connection("127.0.0.1", target)
            except OSError as error:
                refused = error
                continue
            flow.writers.append(upstream)
            return onward, upstream
        raise refused

    def _order(self) -> list[int]:
        """Return the targets in the order of attempts, healthy ones first."""
        self._turn += 1
        turn = self._turn % len(self._ways)
        order = [*self.targets[turn:], *self.targets[:turn]]
        return sorted(order, key=self._healthy, reverse=True)

    async def _join(
        self,
        flow: _Flow,
        reader: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
        onward: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Copy in both directions until either ends."""
        assert flow.target is not None
        ways = self._ways[flow.target]
        pumps = {
            asyncio.ensure_future(_pump(reader, upstream, ways[Direction.REQUESTS])),
            asyncio.ensure_future(_pump(onward, writer, ways[Direction.RESPONSES])),
        }
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: _Way) -> None:
    """Copy one direction until its end, which a closed way does not report either."""
    with contextlib.suppress(OSError):
        while chunk := await source.read(_CHUNK):
            if not way.open.is_set():
                if (more := await way.passes(source)) is None:
                    return
                chunk += more
            await way.pace(len(chunk))
            sink.write(chunk)
            await sink.drain()
    await way.open.wait()


def redirect(kubeconfig: Path, path: Path, port: int) -> Path:
    """Write a kubeconfig for the same access through a loopback port."""
    document = yaml.safe_load(kubeconfig.read_text())
    for entry in document["clusters"]:
        entry["cluster"]["server"] = f"https://127.0.0.1:{port}"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def port_of(kubeconfig: Path) -> int:
    """Return the port of the (first) server."""
    document = yaml.safe_load(kubeconfig.read_text())
    return int(document["clusters"][0]["cluster"]["server"].rpartition(":")[2])
