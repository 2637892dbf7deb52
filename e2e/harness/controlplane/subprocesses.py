"""Commands of a build: run to their end, or followed line by line."""

import os
import re
import select
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from e2e.harness.controlplane.errors import BuildError

_TICK = 1.0
_KEPT_LINES = 80
_IMPORT_PATH = re.compile(r"[\w.~/@+-]+")


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Return the standard output of the command. Raises BuildError."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise _failure(command, folder, done.stderr.splitlines())
    return done.stdout


def follow(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], *, tick: float = _TICK
) -> Iterator[str | None]:
    """Yield each line of the command's standard error, and None at each tick without a line.

    Raises BuildError with the last lines, if the command fails.
    """
    kept: deque[str] = deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        try:
            for line in _lines(process.stderr.fileno(), tick):
                if line is not None and not is_import_path(line):
                    kept.append(line)
                yield line
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise _failure(command, folder, kept)


def is_import_path(line: str) -> bool:
    """Return True if `go build -v` writes this line when it starts a package."""
    return _IMPORT_PATH.fullmatch(line) is not None


def _lines(descriptor: int, tick: float) -> Iterator[str | None]:
    rest = b""
    while True:
        if not select.select([descriptor], [], [], tick)[0]:
            yield None
            continue
        chunk = os.read(descriptor, 1 << 16)
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole if chunk else [rest]:
            yield line.decode(errors="replace")
        if not chunk:
            return


def _failure(command: Sequence[str], folder: Path, told: Sequence[str] | deque[str]) -> BuildError:
    text = "\n".join(told)[-4000:]
    return BuildError(f"{' '.join(command)} (in {folder}) failed:\n{text}")
