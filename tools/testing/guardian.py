"""A process that outlives a test run and ends what the run left behind.

`Guardian.begin()` starts it next to pytest and marks the environment, which every child process
inherits. When pytest ends, by itself or by SIGKILL, the guardian reads the end of its standard
input and kills every process that still has the mark. Unless pytest reported a normal end, it also
removes the run's temporary files. Linux only: it reads the environments in /proc.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

MARK: Final = "MUSTER_TEST_RUN"
"""The environment variable of a run's processes; nested runs append theirs."""

_PROC: Final = Path("/proc")
_ENDED: Final = b"ended"
_PAUSE: Final = 0.02  # seconds between two checks of processes that were just killed


class Guardian:
    """The guardian of one run, as seen by pytest."""

    def __init__(self, mark: str, process: "subprocess.Popen[bytes]") -> None:
        self._mark = mark
        self._process = process

    @classmethod
    def begin(cls) -> Self:
        """Start the guardian; children that are started from now on belong to the run."""
        mark = secrets.token_hex(8)
        # Without the variable: no run's guardian may kill this process.
        outer = {name: value for name, value in os.environ.items() if name != MARK}
        # A session of its own: Ctrl-C for pytest's process group must not end the guardian.
        process = subprocess.Popen(
            [sys.executable, "-S", "-E", __file__, mark],
            stdin=subprocess.PIPE,
            env=outer,
            start_new_session=True,
        )
        os.environ[MARK] = " ".join(filter(None, (os.environ.get(MARK), mark)))
        return cls(mark, process)

    def remove(self, folder: Path) -> None:
        """Have a folder removed if the run is killed."""
        self._tell(os.fsencode(folder))

    def left(self) -> list[str]:
        """Return the command lines of the run's processes that still run, except pytest."""
        return [_command(pid) for pid in _marked(self._mark) if pid != os.getpid()]

    def end(self) -> None:
        """End the remaining processes, and keep the temporary files."""
        self._tell(_ENDED)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        words = os.environ.pop(MARK, "").split()
        if words[:-1]:
            os.environ[MARK] = " ".join(words[:-1])

    def _tell(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()


def _marked(mark: str) -> Iterator[int]:
    """Yield the processes whose initial environment has the mark."""
    name, value = f"{MARK}=".encode(), mark.encode()
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile, or belongs to another user
            continue
        if any(line.startswith(name) and value in line for line in variables):
            yield int(entry.name)


def _command(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return f"process {pid}"


def watch(mark: str) -> None:
    """Wait for the end of the run, then end its processes and remove its files."""
    folders = sys.stdin.buffer.read().splitlines()
    # Again until none is left: a process may start another one while it is killed.
    while left := list(_marked(mark)):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(_PAUSE)
    if _ENDED not in folders:
        for folder in folders:
            shutil.rmtree(os.fsdecode(folder), ignore_errors=True)


if __name__ == "__main__":
    watch(sys.argv[1])
