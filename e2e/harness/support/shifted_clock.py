"""A Python process whose time of day is not that of the machine, without its knowledge."""

from pathlib import Path

_PROGRAM = '''\
"""Read by every Python that finds it on its path, before anything else."""

from datetime import timedelta

import kube.base.clock

now = kube.base.clock.SystemClock.now
kube.base.clock.SystemClock.now = lambda clock: now(clock) + timedelta(seconds={seconds})
'''


def wrapper(folder: Path, seconds: float) -> list[str]:
    """The command before that of a process of Muster; its wall clock is so much ahead.

    All of Muster reads the time of day from `kube.base.clock`; the monotonic clock stays as it is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_PROGRAM.format(seconds=seconds))
    return ["/usr/bin/env", f"PYTHONPATH={folder}"]
