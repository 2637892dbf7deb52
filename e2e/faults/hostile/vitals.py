"""Monitor of Muster's processes: they must run, respond and limit their memory."""

import http.client
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from e2e.harness import muster as processes
from e2e.harness.muster import Muster

_EVERY: Final = 0.05
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PATIENCE: Final = 60.0


@dataclass
class Vitals:
    """Monitor that polls every process's `/healthz` from its own thread.

    `slowest` is the most CPU time, in seconds, that a process used between a request and its
    response: the longest block of its event loop, whatever the load of the machine. Use it as a
    context manager.
    """

    muster: Muster
    slowest: dict[str, float] = field(default_factory=dict)
    _pids: dict[str, int] = field(default_factory=dict)
    _memory: dict[str, float] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        for name in processes.ALL:
            self._pids[name] = self.muster.pid(name)
            self._memory[name] = resident_mib(self._pids[name])
            self.slowest[name] = 0.0
            thread = threading.Thread(target=self._ask, args=(name,), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def __str__(self) -> str:
        """Return the figures of each process."""
        grown = self.growth()
        return ", ".join(
            f"{name}: longest stretch {seconds:.2f} s, grew by {grown.get(name, 0.0):.0f} MiB"
            for name, seconds in self.slowest.items()
        )

    def restarted(self) -> list[str]:
        """Return the processes that have ended or were replaced."""
        return [
            name
            for name, pid in self._pids.items()
            if not self.muster.running(name) or self.muster.pid(name) != pid
        ]

    def cpu_seconds(self) -> float:
        """Return the CPU time that all processes have used so far, in seconds."""
        return sum(map(_cpu_seconds, self._pids.values()))

    def growth(self) -> dict[str, float]:
        """Return the growth of resident memory in MiB since the start."""
        return {
            name: resident_mib(pid) - self._memory[name]
            for name, pid in self._pids.items()
            if self.muster.running(name)
        }

    def _ask(self, name: str) -> None:
        address = urlsplit(self.muster.page(name, "/healthz")).netloc
        pid = self._pids[name]
        while not self._ended.wait(_EVERY):
            before = _cpu_seconds(pid)
            self._wait_for_answer(address)
            self.slowest[name] = max(self.slowest[name], _cpu_seconds(pid) - before)

    def _wait_for_answer(self, address: str) -> None:
        connection = http.client.HTTPConnection(address, timeout=_PATIENCE)
        try:
            connection.request("GET", "/healthz")
            connection.getresponse()
        except OSError:
            return  # it has ended, or blocks for longer than the timeout
        finally:
            connection.close()


def _cpu_seconds(pid: int) -> float:
    """Return user and system time so far; 0 for a process that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def stalled_seconds() -> float:
    """Return for how long some process of this machine has waited for a CPU; 0 if unknown.

    A kernel without pressure stall information has no such figure.
    """
    try:
        some = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return 0.0
    return int(some.rpartition("total=")[2]) / 1e6


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no memory: it has ended")
