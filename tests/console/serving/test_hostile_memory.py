"""Clients of the console's port, logged in or not, which must not increase its memory."""

import asyncio
import contextlib
import gc
import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from console.serving.connections import MOST_CONNECTIONS, MOST_HANDSHAKES
from console.serving.server import LOGIN_LIMIT, WHAT_IF_LIMIT
from tests.webhooks.server.test_hostile_clients import Client, dialled
from tests.webhooks.server.test_hostile_memory import MIB, TLS, long_heads, peak_of, pipelines
from tools.testing.effort import selected

ROOT = Path(__file__).parents[3]
MANIFEST = ROOT / "manifests/console/deployment.yaml"


@dataclass(frozen=True)
class Site:
    """The address, the process, and the cookie of a logged-in user."""

    address: tuple[str, int]
    pid: int
    cookie: str

    def request(self, path: str, body: int | None = None, *, known: bool = True) -> bytes:
        """Return the head of a request, as the console's page sends it."""
        host = f"{self.address[0]}:{self.address[1]}"
        lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"Host: {host}"]
        lines += [f"Origin: https://{host}", f"Cookie: {self.cookie if known else 'a=b'}"]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {body}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def code(self, path: str) -> int:
        reader, writer = await dialled(self.address, TLS)
        writer.write(self.request(path))
        line = await reader.readline()
        writer.close()
        return int(line.split()[1])


Attack = Callable[[Site], Awaitable[None]]


@contextmanager
def served() -> Iterator[Site]:
    command = [sys.executable, "-m", "tests.console.listener_process"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            key, port = (process.stdout.readline().strip() for _ in range(2))
            address = ("127.0.0.1", int(port))
            yield Site(address, process.pid, asyncio.run(logged_in(address, key)))
        finally:
            process.kill()


async def logged_in(address: tuple[str, int], key: str) -> str:
    reader, writer = await dialled(address, TLS)
    writer.write(f"GET /?key={key} HTTP/1.1\r\nHost: 127.0.0.1:{address[1]}\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.close()
    found = next(line for line in head.splitlines() if line.lower().startswith("set-cookie:"))
    return found.partition(": ")[2].partition(";")[0]


async def heads(site: Site) -> None:
    await long_heads(site.address)


async def piped(site: Site) -> None:
    await pipelines(site.address)


async def held(site: Site, number: int, sent: bytes, *, reading: bool = True) -> None:
    """Open many connections that send the same, and read nothing if not `reading`."""
    clients: list[Client] = []
    for _ in range(number):
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                reader, writer = await dialled(site.address, TLS)
                clients.append((reader, writer))
                if not reading:
                    writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(sent)
                await writer.drain()
    await asyncio.sleep(1)
    for _, writer in clients:
        writer.transport.abort()


async def logins_without_an_end(site: Site) -> None:
    start = site.request("/api/login", LOGIN_LIMIT, known=False)
    await held(site, MOST_CONNECTIONS // 4, start + b" " * (LOGIN_LIMIT - 1))


async def questions_without_an_end(site: Site) -> None:
    start = site.request("/api/what-if", WHAT_IF_LIMIT)
    await held(site, 64, start + b" " * (WHAT_IF_LIMIT - 1))


async def answers_that_nobody_takes(site: Site) -> None:
    await held(site, MOST_CONNECTIONS // 4, site.request("/api/map") * 20, reading=False)


async def streams_that_nobody_takes(site: Site) -> None:
    start = site.request("/api/events?views=map,queue")
    await held(site, MOST_CONNECTIONS // 4, start, reading=False)


async def handshakes_that_do_not_begin(site: Site) -> None:
    clients = []
    for _ in range(4 * MOST_HANDSHAKES):
        with contextlib.suppress(OSError, TimeoutError):
            clients.append(await dialled(site.address, None))
    for _, writer in clients:
        writer.transport.abort()


def requested_memory() -> int:
    """Return the requested memory of the manifests: the limit is for larger clusters."""
    found = yaml.safe_load_all(MANIFEST.read_text())
    deployment = next(it for it in found if it["kind"] == "Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return int(container["resources"]["requests"]["memory"].removesuffix("Mi")) * MIB


ATTACKS: dict[str, Attack] = {
    each.__name__: each
    for each in (
        heads,
        piped,
        logins_without_an_end,
        questions_without_an_end,
        answers_that_nobody_takes,
        streams_that_nobody_takes,
        handshakes_that_do_not_begin,
    )
}


@pytest.mark.parametrize("attack", selected(ATTACKS, ("answers_that_nobody_takes",)))
def test_the_memory_is_bounded_and_others_are_answered(attack: Attack) -> None:
    async def attacked(site: Site) -> int:
        begun = asyncio.ensure_future(attack(site))
        await asyncio.sleep(0)
        codes = []
        while not begun.done():
            # The oldest connection in the TLS handshake is dropped: a browser retries.
            with contextlib.suppress(ConnectionResetError):
                async with asyncio.timeout(60):
                    codes.append(await site.code("/api/session"))
            await asyncio.wait({begun}, timeout=0.5)
        await begun
        return max(*codes, await site.code("/api/session"))

    with served() as site, warnings.catch_warnings():
        # A dropped connection leaves a transport that no code has closed.
        warnings.simplefilter("ignore", ResourceWarning)
        worst = asyncio.run(attacked(site))
        gc.collect()
        peak = peak_of(site.pid)

    assert worst == 200
    assert peak < requested_memory(), f"{peak / MIB:.0f} MiB"
