"""A reader who runs the commands of a page."""

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Collection
from pathlib import Path

from e2e.harness.controlplane.places import BIN, ROOT
from e2e.install.docs.output import difference
from e2e.install.docs.page import Block, Command, blocks

DOCS = ROOT / "docs"
PATH = os.pathsep.join((str(BIN), str(Path(sys.executable).parent), os.environ["PATH"]))
SECONDS = 180
"""Maximum seconds of one command."""


_LOGGED = re.compile(r"^\S+ \S+ \[warning *\] .*\n", re.MULTILINE)
"""A command's log lines on standard error on a busy machine, which no page shows."""


class Reader:
    """A reader with a kubeconfig, kubectl, muster in PATH, and the applied files of a checkout.

    `follow` runs the blocks below a heading. `finish` fails if a block was not run. `checkout` is
    the folder in which they run.
    """

    def __init__(self, page: str, kubeconfig: Path, folder: Path) -> None:
        self._blocks = blocks(DOCS / page)
        self._left = [block for block in self._blocks if not block.not_run]
        self.checkout = folder / "checkout"
        for name in ("charts", "examples", "manifests"):
            shutil.copytree(ROOT / name, self.checkout / name)
        self._environment = {
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
            "PATH": PATH,
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "400",
            "LC_ALL": "C.UTF-8",
        }

    async def follow(self, heading: str) -> None:
        """Run each block below a heading, up to the next one, in order."""
        found = [block for block in self._blocks if block.heading == heading]
        assert found, f"no heading {heading!r} with commands"
        for block in found:
            if not block.not_run:
                await self._run(block)
        self._left = [block for block in self._left if block not in found]

    def finish(self, elsewhere: Collection[str] = ()) -> None:
        """Check that every block was run or has a reason; another test runs those `elsewhere`."""
        unknown = set(elsewhere) - {block.heading for block in self._blocks}
        assert not unknown, f"no such headings with commands: {unknown}"
        left = [block for block in self._left if block.heading not in elsewhere]
        assert not left, f"not run: {[f'{it.where}, below {it.heading!r}' for it in left]}"

    async def _run(self, block: Block) -> None:
        for command in block.commands:
            code, said = await self._shell(command)
            problem = f"{block.where}: {command.script}\n"
            assert code == 0, f"{problem}ended with {code}:\n{said}"
            if command.shown is not None:
                wrong = difference(command.shown, said)
                assert wrong is None, f"{problem}{wrong}"

    async def _shell(self, command: Command) -> tuple[int, str]:
        """Return exit code and both outputs; a command that takes too long is killed."""
        process = await asyncio.create_subprocess_exec(
            *("/bin/bash", "-euo", "pipefail", "-c", command.script),
            cwd=self.checkout,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(SECONDS):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        assert process.returncode is not None
        return process.returncode, _LOGGED.sub("", said.decode())
