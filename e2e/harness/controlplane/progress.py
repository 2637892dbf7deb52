"""Progress of a build: the current step, its progress, and the duration of the last build."""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from e2e.harness.controlplane.subprocesses import is_import_path

HEARTBEAT = 30.0
_REDRAW = 1.0
_CLEAR = "\r\x1b[K"
_FETCHING = re.compile(r"go: downloading (\S+)")


@dataclass(frozen=True, slots=True)
class Last:
    """The statistics of the last successful run of a step."""

    seconds: float
    packages: int


class Progress:
    """Writer of progress to `out`: one live line if `live` (a terminal), else a line per 30 s."""

    def __init__(
        self,
        out: TextIO,
        durations: Path,
        *,
        live: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = out
        self._durations = durations
        self._live = live
        self._clock = clock
        self._number = 0
        self._steps = 0

    def begin(self, what: str, steps: int) -> None:
        """Announce the steps."""
        self._number, self._steps = 0, steps
        self._say(f"{what}: {_count(steps, 'step')}")

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[Callable[[str | None], None]]:
        """Run one step; it yields a callback for the lines of its command, and None as time passes.

        A step without an error is stored as the last run.
        """
        last = self._read().get(name)
        self._number += 1
        before = f"took {_duration(last.seconds)} last time" if last else "no last time to go by"
        self._say(f"{self._number} of {self._steps}: {what}; {before}")
        step = _Step(self._clock(), last)
        said = step.started

        def heard(line: str | None) -> None:
            nonlocal said
            step.hear(line)
            now = self._clock()
            if now - said >= (_REDRAW if self._live else HEARTBEAT):
                said = now
                self._show(f"  {name}: {step.describe(now)}")

        try:
            yield heard
        finally:
            if self._live:
                self._write(_CLEAR)
        seconds = self._clock() - step.started
        self._say(f"  {name}: done in {_duration(seconds)}")
        self._keep(name, Last(round(seconds, 1), step.packages))

    def _show(self, line: str) -> None:
        if self._live:
            width = shutil.get_terminal_size().columns
            self._write(_CLEAR + line[: width - 1])
        else:
            self._say(line)

    def _say(self, line: str) -> None:
        # In one write: other suites may run at the same time.
        self._write(f"{line}\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def _read(self) -> dict[str, Last]:
        try:
            found = json.loads(self._durations.read_text())
            return {name: Last(**last) for name, last in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}  # without durations the build is the same

    def _keep(self, name: str, last: Last) -> None:
        kept = {**self._read(), name: last}
        self._durations.parent.mkdir(parents=True, exist_ok=True)
        self._durations.write_text(
            json.dumps({name: asdict(last) for name, last in sorted(kept.items())}, indent=1)
        )


class _Step:
    """The output of one step's command."""

    def __init__(self, started: float, last: Last | None) -> None:
        self.started = started
        self.packages = 0
        self._last = last
        self._fetched = 0
        self._now = ""

    def hear(self, line: str | None) -> None:
        if line is None:
            return
        if fetching := _FETCHING.match(line):
            self._fetched += 1
            self._now = f"fetching {fetching[1]}"
        elif is_import_path(line):
            self.packages += 1
            self._now = f"compiling {line}"

    def describe(self, now: float) -> str:
        parts = [_duration(now - self.started)]
        if self._fetched:
            parts.append(_count(self._fetched, "module") + " fetched")
        if self.packages:
            before = f" ({self._last.packages:,} last time)" if self._last else ""
            parts.append(f"{_count(self.packages, 'package')} compiled{before}")
        return ", ".join([*parts, self._now] if self._now else parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
