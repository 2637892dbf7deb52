"""A Python process whose wall clock differs from the machine's, without its knowledge."""

from pathlib import Path

_PROGRAM = '''\
"""Read by every Python that finds it on its path, before anything else."""

from datetime import timedelta

import kube.base.clock

now = kube.base.clock.SystemClock.now
kube.base.clock.SystemClock.now = lambda clock: now(clock) + timedelta(seconds={seconds})
'''


def wrapper(folder: Path, seconds: float) -> list[str]:
    """Return the command prefix of a Muster process whose wall clock is ahead by `seconds`.

    All of Muster reads the wall clock from `kube.base.clock`; the monotonic clock is unchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_PROGRAM.format(seconds=seconds))
    return ["/usr/bin/env", f"PYTHONPATH={folder}"]
