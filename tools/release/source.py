"""The sources of one commit, exported from git: other files of a checkout are never released."""

import io
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tools.release.errors import ReleaseError


@dataclass(frozen=True, slots=True)
class Source:
    """A commit's files in `folder`; `epoch` is the commit's time in seconds."""

    folder: Path
    commit: str
    epoch: int


def export(repository: Path, commit: str, folder: Path) -> Source:
    """Export a commit's files to an empty folder. Raises ReleaseError."""
    # A tag is resolved to its commit.
    described = _git(repository, "show", "--no-patch", "--format=%H %ct", f"{commit}^{{commit}}")
    whole, epoch = described.decode().split()
    with tarfile.open(fileobj=io.BytesIO(_git(repository, "archive", whole))) as tar:
        tar.extractall(folder, filter="data")
    return Source(folder, whole, int(epoch))


def _git(repository: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(repository), *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
