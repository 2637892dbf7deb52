"""A child process with its own log file, which cannot outlive this interpreter."""

import asyncio
import atexit
import contextlib
import ctypes
import os
import signal
import subprocess
import weakref
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tools.testing.guardian import MARK

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_RUNNING: "weakref.WeakSet[Process]" = weakref.WeakSet()


class ProcessFailedError(RuntimeError):
    """A process ended by itself, or was not ready in time; the message has the end of its log."""

    def __init__(self, name: str, cause: str, log: Path) -> None:
        self.name = name
        self.log = log
        end = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""
        super().__init__(f"{name} {cause}; the end of {log}:\n{end}")


class Process:
    """A command that is started, killed and restarted with the same arguments.

    It is always ended by SIGKILL: on SIGTERM kube-apiserver drains for a minute, and everything
    under test must survive a crash anyway.
    """

    def __init__(self, name: str, command: Sequence[str | Path], *, logs: Path) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = logs / f"{name}.log"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._child is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        if self.running:
            raise RuntimeError(f"{self.name} runs already")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(),
                cwd="/",
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, loaded before
            )
        _RUNNING.add(self)

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended.

        Do nothing if it has ended already.
        """
        if self._child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._child.kill()
        self._child.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, SIGSTOP and SIGCONT for instance."""
        os.kill(self.pid, number)

    async def ready(self, probe: Callable[[], Awaitable[bool]], timeout: float) -> None:
        """Wait until `probe` returns True.

        Raises ProcessFailedError at its end or at the timeout.
        """
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            if not self.running:
                raise ProcessFailedError(self.name, "ended while starting", self.log)
            if await probe():
                return
            if asyncio.get_running_loop().time() > deadline:
                raise ProcessFailedError(
                    self.name, f"was not ready after {timeout:.0f} s", self.log
                )
            await asyncio.sleep(0.05)


def _environment() -> dict[str, str]:
    """Return an environment without the caller's settings (proxies, kubeconfigs)."""
    kept = {name: os.environ[name] for name in (MARK, "TMPDIR") if name in os.environ}
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        # A quarter of the garbage collections: memory is plentiful, processors are not.
        "GOGC": "400",
        **kept,
    }


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@atexit.register
def _kill_all() -> None:
    for process in list(_RUNNING):
        process.kill()
