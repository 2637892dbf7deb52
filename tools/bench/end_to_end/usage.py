"""The cost of processes, from /proc."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_IDLE = 0.1


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def idle(pids: Iterable[int], patience: float = 30.0) -> None:
    """Wait until the processes take less than a tenth of a core for a second.

    The API server still converts and caches objects that were just created.
    """
    watched = list(pids)
    for _ in range(int(patience)):
        before = sum(map(cpu_seconds, watched))
        await asyncio.sleep(1)
        if sum(map(cpu_seconds, watched)) - before < _IDLE:
            return


def peak_mib(pid: int) -> float:
    """Return the peak memory of the process. Raises RuntimeError for a dead one."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no memory: it has ended")


class Meter:
    """CPU seconds since its creation; a process that began later counts from its own start."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._before = {name: cpu_seconds(pid) for name, pid in pids.items()}

    def read(self, pids: Mapping[str, int]) -> dict[str, float]:
        return {
            name: round(cpu_seconds(pid) - self._before.get(name, 0.0), 2)
            for name, pid in pids.items()
        }
