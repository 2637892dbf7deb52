"""The `muster` command: server processes, and the commands for users, which kubectl also runs.

Server processes (`cli.servers`) need the base installation only. The commands for users need the
extra `cli` (typer, rich). Each of the two is imported only for its own commands.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cli.config.lean_imports import COLOURS, trusting_nobody, uncollected, without
from cli.config.process_names import PROCESSES
from kube.base.build import read_build
from kube.base.errors import ConfigError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code (2: bad arguments or configuration)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments and arguments[0] in PROCESSES:
            # Server processes log in JSON and have their own TLS contexts: they need neither.
            with uncollected(), without(*COLOURS), trusting_nobody():
                from cli.servers import servers

            return servers.main(arguments)
        if arguments in (["version"], ["--version"]):
            # Without the extra `cli`, too: a report of a problem has it.
            print(read_build())
            return 0
        return user_command(arguments)
    except ConfigError as error:
        print(f"muster: {error}", file=sys.stderr)
        return 2


def user_command(arguments: Sequence[str], program: str = "muster") -> int:
    """Run one command for users; return its exit code."""
    try:
        from cli import commands
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        print(
            f"muster: {error.name} is not installed: use `pip install muster[cli]`."
            " The server processes (webhook, controller, scheduler, all) do not need it.",
            file=sys.stderr,
        )
        return 2
    return commands.main(arguments, program)
