"""A Python process whose wall clock differs from the machine's, without its knowledge."""

from pathlib import Path

_PROGRAM = '''\
"""Read by every Python that finds it on its path, before anything else."""

from datetime import timedelta
from pathlib import Path

import kube.base.clock

now = kube.base.clock.SystemClock.now
ahead = Path({file!r})


def shifted(clock):
    return now(clock) + timedelta(seconds=float(ahead.read_text()))


kube.base.clock.SystemClock.now = shifted
'''


def wrapper(folder: Path, seconds: float) -> list[str]:
    """Return the command prefix of a Muster process whose wall clock is ahead by `seconds`.

    All of Muster reads the wall clock from `kube.base.clock`; the monotonic clock is unchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    step(folder, seconds)
    (folder / "sitecustomize.py").write_text(_PROGRAM.format(file=str(_file(folder))))
    return ["/usr/bin/env", f"PYTHONPATH={folder}"]


def step(folder: Path, seconds: float) -> None:
    """Set how far the clock of the running process is ahead; less than 0 is behind."""
    written = _file(folder).with_suffix(".new")
    written.write_text(str(seconds))
    written.replace(_file(folder))


def _file(folder: Path) -> Path:
    return folder / "ahead"
