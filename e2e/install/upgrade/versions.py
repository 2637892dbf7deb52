"""Released versions, ready to run: their sources from git, in their own virtual environment.

Both are cached in .cache/upgrade by commit. `versions.toml` lists the versions.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.controlplane.places import ROOT

CACHE = ROOT / ".cache" / "upgrade"
FILE = Path(__file__).with_name("versions.toml")
HEAD = "HEAD"
"""The name of the version in this checkout."""


class MissingCommitError(RuntimeError):
    """This clone lacks a version's commit."""


@dataclass(frozen=True, slots=True)
class Released:
    """A line of versions.toml. `commit` is the full hash."""

    name: str
    tag: str
    commit: str


@dataclass(frozen=True, slots=True)
class Version:
    """A runnable version: its name, the command `muster`, and the folder with its manifests/."""

    name: str
    command: tuple[str, ...]
    source: Path

    @property
    def base(self) -> Path:
        """Folder of the manifests that an administrator applies."""
        return self.source / "manifests" / "base"

    @property
    def chart(self) -> Path:
        """Folder of the Helm chart; the first version has none."""
        return self.source / "charts" / "muster"


def released(file: Path = FILE) -> tuple[Released, ...]:
    """Return the versions, oldest first."""
    return tuple(Released(**one) for one in tomllib.loads(file.read_text())["version"])


def checked_out() -> Version:
    """Return this checkout, as the other suites run it."""
    return Version(HEAD, (sys.executable, "-m", "cli"), ROOT)


def prepare(version: Released, *, repository: Path = ROOT, cache: Path = CACHE) -> Version:
    """Prepare its sources and its environment, if needed.

    Raises MissingCommitError.

    Raises subprocess.CalledProcessError if its requirements cannot be installed.
    """
    commit = find(version, repository)
    folder = cache / commit
    if not (folder / "complete").is_file():
        cache.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        extract(commit, folder / "source", repository)
        _environment(folder / "source", folder / "venv")
        (folder / "complete").touch()
    return Version(version.name, (str(folder / "venv/bin/muster"),), folder / "source")


def find(version: Released, repository: Path = ROOT) -> str:
    """Return the commit's hash, if this clone has it.

    Raises MissingCommitError.

    A tag that refers to another commit is an error: a moved tag changes what was released.
    """
    if _commit(repository, version.commit) is not None:
        tagged = _commit(repository, f"refs/tags/{version.tag}")
        if tagged not in (None, version.commit):
            raise MissingCommitError(
                f"the tag {version.tag} of this clone means {tagged}, and {FILE.name} says "
                f"{version.commit}: one of them is wrong"
            )
        return version.commit
    raise MissingCommitError(
        f"this clone does not have commit {version.commit} of version {version.name}: "
        "it is shallow or came without its history; run git fetch --unshallow"
    )


def _commit(repository: Path, name: str) -> str | None:
    done = _git(repository, "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}", check=False)
    return done.stdout.decode().strip() or None


def _git(
    repository: Path, *arguments: str, check: bool = True
) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=check, capture_output=True)


def extract(commit: str, folder: Path, repository: Path = ROOT) -> None:
    """Write the files of a commit into a new folder."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryFile() as archive:
        command = ["git", "-C", str(repository), "archive", "--format=tar", commit]
        subprocess.run(command, check=True, stdout=archive)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar:
            tar.extractall(folder, filter="data")


def _environment(source: Path, venv: Path) -> None:
    """Install its locked requirements and its wheel, as its image has them."""
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin/python"), "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check", "--no-compile"]
    lock = source / "requirements" / "runtime.txt"
    subprocess.run([*pip, "--require-hashes", "--requirement", str(lock)], check=True)
    # This project's own hatchling, so that no build environment is downloaded.
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    wheels = venv.parent / "wheels"
    subprocess.run(
        [*build, "--disable-pip-version-check", "--wheel-dir", str(wheels), str(source)],
        check=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "315532800"},
    )
    (wheel,) = wheels.glob("muster-*.whl")
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
