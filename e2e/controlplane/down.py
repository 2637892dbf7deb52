"""Ends what `python -m e2e.controlplane.up` keeps running."""

import os
import signal
import sys
import time

from e2e.controlplane.places import KUBECONFIG, PID


def read_pid() -> int | None:
    return int(PID.read_text()) if PID.is_file() else None


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main() -> int:
    pid = read_pid()
    if pid is None or not alive(pid):
        print("no control plane runs")
    else:
        # Its children die with it, whatever it is doing.
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while alive(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        print("the control plane is down")
    PID.unlink(missing_ok=True)
    KUBECONFIG.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
