"""The `muster` command, and `python -m cli`. Ends on SIGTERM from its first moment on."""

import signal
import sys
from types import FrameType


def main() -> int:
    """Run one command; return the exit code.

    The kernel ignores SIGTERM for a container's first process unless it has a handler. Without one
    here, a process that is still importing would use up the pod's grace period. Servers replace
    this handler once they run.
    """
    signal.signal(signal.SIGTERM, _end)
    from cli.main import main as run

    return run()


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
