"""The `muster` command, `python -m cli`, and the plugin of kubectl.

It ends on SIGTERM from its first moment on.
"""

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


def kubectl() -> int:
    """Run one command for users as `kubectl muster`; return the exit code."""
    from cli.main import user_command

    return user_command(sys.argv[1:], "kubectl muster")


def complete() -> int:
    """Print the suggestions for the words after `kubectl muster`, as kubectl asks its plugins."""
    from cli.commands.completion import suggestions

    print("\n".join(suggestions(sys.argv[1:])))
    return 0


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
