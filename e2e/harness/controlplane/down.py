"""Stops the control plane that `python -m e2e.harness.controlplane.up` keeps running."""

import os
import signal
import sys
import time
from pathlib import Path

from e2e.harness.controlplane.places import KUBECONFIG, PID

MODULE = "e2e.harness.controlplane.up"


def running(pid_file: Path = PID) -> int | None:
    """Return the pid of the running control plane, None if there is none.

    Pids are reused: a process counts only if its command line is ours.
    """
    if not pid_file.is_file():
        return None
    pid = int(pid_file.read_text())
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return None
    return pid if MODULE.encode() in command.split(b"\0") else None


def main() -> int:
    if running() is None:
        print("no control plane runs")
    else:
        _end()
        print("the control plane is down")
    PID.unlink(missing_ok=True)
    KUBECONFIG.unlink(missing_ok=True)
    return 0


def _end() -> None:
    # The servers end with their parent, whatever they are doing.
    deadline = time.monotonic() + 10
    number = signal.SIGTERM
    while (pid := running()) is not None:
        os.kill(pid, number)
        if time.monotonic() > deadline:
            number = signal.SIGKILL
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
