"""Files of Go modules that are read and never compiled: other projects' CRDs."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.controlplane import go
from e2e.harness.controlplane.errors import BuildError, MissingGoError
from e2e.harness.controlplane.places import MODULES
from e2e.harness.controlplane.subprocesses import run


@dataclass(frozen=True, slots=True)
class Download:
    """One version of a module; `checksum` is that of a go.sum, over all its files."""

    path: str
    version: str
    checksum: str

    def folder(self) -> Path:
        """Folder of its files in Go's module cache; they are downloaded on first use.

        Raises BuildError, also if they do not match the recorded checksum, and MissingGoError.
        """
        wanted = go.wanted(MODULES / "kubernetes")
        found = go.on_path(wanted) or go.from_package()
        if found is None:
            raise MissingGoError(f"{self.path} comes as a Go module, and there is no Go")
        command = [found.command, "mod", "download", "-json", f"{self.path}@{self.version}"]
        # The checksum above decides, so the checksum database is not needed.
        settings = go.environment() | {"GONOSUMDB": self.path}
        with tempfile.TemporaryDirectory() as nowhere:
            said = json.loads(run(command, Path(nowhere), settings))
        if said["Sum"] != self.checksum:
            raise BuildError(f"{self.path} {self.version}: {said['Sum']}, not {self.checksum}")
        return Path(said["Dir"])


KUEUE = Download("sigs.k8s.io/kueue", "v0.17.0", "h1:7hzb38M4eKGzYW+CFv2s1L+swzzacUCHOCXxZmAV90I=")
SCHEDULER_PLUGINS = Download(
    "sigs.k8s.io/scheduler-plugins", "v0.33.5", "h1:9u4QAYbuoxa59aStrJKP4Bii2EQrZmGPN2tzvfs2gL0="
)
