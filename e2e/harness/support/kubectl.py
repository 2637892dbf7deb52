"""An unmodified kubectl."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e.harness.controlplane.places import BIN

_CONFLICTS = 10
"""Maximum number of consecutive replacements that conflict with a change of status."""


class Kubectl:
    """Runner of kubectl with one kubeconfig (None: without), in one namespace and its own home.

    Its constructor skips the test if kubectl is missing.
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
        """Run kubectl and return its output; it must succeed.

        `stdin` is written as JSON.

        With `fails` it must fail, and its error text is returned.
        """
        code, out, error = await self._run(arguments, stdin)
        assert (code != 0) == fails, f"{arguments}: {out} {error}"
        return error if fails else out

    async def succeeds(self, *arguments: str, stdin: Any = None) -> bool:
        """Run kubectl, and return True if it succeeds."""
        code, _, _ = await self._run(arguments, stdin)
        return code == 0

    async def replace(self, manifest: Any) -> str:
        """Run `kubectl replace`, retrying when others change the object between its read and write.

        It sends its input with the version that it has just read.
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
