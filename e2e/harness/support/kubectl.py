"""An unmodified kubectl."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.controlplane.places import BIN

_CONFLICTS = 10
"""Replacements in a row that may meet a change of status."""


class Kubectl:
    """Runs kubectl with one kubeconfig (None: with none), in one namespace, and a home of its own.

    Making one skips the test where there is no kubectl.
    """

    def __init__(self, kubeconfig: Path | None, home: Path, namespace: str = "") -> None:
        built = BIN / "kubectl"
        found = str(built) if built.is_file() else shutil.which("kubectl")
        if found is None:
            pytest.skip("there is no kubectl here")
        self._command = [found]
        if kubeconfig is not None:
            self._command.append(f"--kubeconfig={kubeconfig}")
        if namespace:
            self._command.append(f"--namespace={namespace}")
        self._environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}

    async def __call__(self, *arguments: str, stdin: Any = None, fails: bool = False) -> str:
        """Its output; it must succeed. `stdin` is written as JSON.

        `fails` says that an error is expected, whose text is given.
        """
        code, out, error = await self._run(arguments, stdin)
        assert (code != 0) == fails, f"{arguments}: {out} {error}"
        return error if fails else out

    async def replace(self, manifest: Any) -> str:
        """`kubectl replace`, again while others change the object between its read and its write.

        It sends what it is given with the version that it has just read.
        """
        for _ in range(_CONFLICTS):
            code, out, error = await self._run(("replace", "-f", "-"), manifest)
            if "(Conflict)" not in error:
                break
        assert code == 0, f"replace: {out} {error}"
        return out

    async def _run(self, arguments: tuple[str, ...], stdin: Any) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        out, error = await process.communicate(json.dumps(stdin).encode() if stdin else b"")
        assert process.returncode is not None
        return process.returncode, out.decode(), error.decode()
