"""Files of Go modules that are read and not compiled: other projects' CRDs."""

import json
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.controlplane import go
from e2e.harness.controlplane.errors import MissingGoError
from e2e.harness.controlplane.places import MODULES
from e2e.harness.controlplane.subprocesses import run


@dataclass(frozen=True, slots=True)
class Download:
    """A module whose version and checksum are in another one, `of`, in e2e/harness/modules."""

    path: str
    of: str

    @property
    def version(self) -> str:
        """The version. Raises as `folder`."""
        return str(self._found()["Version"])

    def folder(self) -> Path:
        """Folder of its files in Go's module cache; they are downloaded on first use.

        Raises BuildError, also if they do not match the recorded checksum, and MissingGoError.
        """
        return Path(self._found()["Dir"])

    def _found(self) -> dict[str, str]:
        wanted = go.wanted(MODULES / self.of)
        found = go.on_path(wanted) or go.from_package()
        if found is None:
            raise MissingGoError(f"{self.path} comes as a Go module, and there is no Go")
        command = [found.command, "mod", "download", "-json", self.path]
        said: dict[str, str] = json.loads(run(command, MODULES / self.of, go.environment()))
        return said


KUEUE = Download("sigs.k8s.io/kueue", "kueue")
SCHEDULER_PLUGINS = Download("sigs.k8s.io/scheduler-plugins", "scheduler-plugins")
