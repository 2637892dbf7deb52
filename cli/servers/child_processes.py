"""Child processes: output in files, awaited until ready, stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp


class LaunchError(Exception):
    """The failure of a child: it ended, or was not ready in time. Has the end of its output."""


Check = Callable[[], Awaitable[bool]]


@dataclass(slots=True)
class ChildProcess:
    """One running process: its name, its log, and the check for its readiness."""

    name: str
    process: asyncio.subprocess.Process
    log: Path
    check: Check

    def tail(self, lines: int = 15) -> str:
        """Return the last lines of its output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@dataclass(slots=True)
class ChildProcesses:
    """Every child of this process. Leaving the context ends them all, newest first."""

    logs: Path
    environment: Mapping[str, str]
    children: dict[str, ChildProcess] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        """Create the folder for logs."""
        self.logs.mkdir(parents=True, exist_ok=True)
        return self

    async def __aexit__(self, *_error: object) -> None:
        """End all children."""
        # Newest first: later children use earlier ones, as Muster's processes use the API server.
        for name in reversed(list(self.children)):
            await self.stop(name)

    async def start(self, name: str, arguments: Sequence[str], *, check: Check) -> None:
        """Start `python ARGUMENTS`; its output goes to LOGS/NAME.log."""
        log = self.logs / f"{name}.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(self.environment),
            )
        self.children[name] = ChildProcess(name, process, log, check)

    async def ready(self, name: str, within: float) -> None:
        """Wait until the child's check succeeds. Raises LaunchError with the end of its log."""
        child = self.children[name]
        try:
            async with asyncio.timeout(within):
                while not await child.check():
                    if child.process.returncode is not None:
                        code = child.process.returncode
                        raise LaunchError(f"{name} ended with code {code}:\n{child.tail()}")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise LaunchError(
                f"{name} was not ready within {within:g} s:\n{child.tail()}"
            ) from None

    async def stop(self, name: str, grace: float = 5.0) -> None:
        """Send SIGTERM to the child; kill it after `grace` seconds."""
        child = self.children.pop(name)
        if child.process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(child.process.wait(), grace)
        except TimeoutError:
            child.process.kill()
            await child.process.wait()


def responds(url: str) -> Check:
    """Return a check that a GET of `url` returns 200."""

    async def check() -> bool:
        timeout = aiohttp.ClientTimeout(total=2)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(url) as response,
            ):
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    return check


def file_exists(path: Path) -> Check:
    """Return a check that the file exists."""

    async def check() -> bool:
        return await asyncio.to_thread(path.exists)

    return check


def free_port() -> int:
    """Return a TCP port on loopback on which no process listens now."""
    with socket.socket() as listener:
        # The kernel chooses. Another process can still take the port before the caller uses it.
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
