"""The user commands, run in this process: a new process would spend a second on imports."""

import asyncio
import io
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from cli.main import main


class Ended(NamedTuple):
    """The exit code of a command, and its output."""

    code: int
    output: str
    errors: str


async def muster(kubeconfig: Path, *arguments: str) -> Ended:
    """Run `muster` with these arguments, on the cluster of $KUBECONFIG. One at a time."""
    output, errors = io.StringIO(), io.StringIO()
    access = {"KUBECONFIG": str(kubeconfig)}
    with redirect_stdout(output), redirect_stderr(errors), patch.dict(os.environ, access):
        code = await asyncio.to_thread(main, arguments)
    return Ended(code, output.getvalue(), errors.getvalue())
