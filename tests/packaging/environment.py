"""Wheels, and environments that have them without the checkout."""

import importlib.metadata
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Environment:
    """A virtual environment without the checkout."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Create one without any package."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        return cls(folder)

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def site(self) -> Path:
        (found,) = (self.folder / "lib").glob("python*/site-packages")
        return found

    @property
    def variables(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}

    def install(self, wheel: Path) -> None:
        """Install a wheel without its dependencies."""
        command = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install"]
        options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
        subprocess.run([*command, *options, str(wheel)], check=True)

    def lend(self, packages: Iterable[str]) -> None:
        """Link packages from the tests' environment, files and metadata."""
        for name in packages:
            distribution = importlib.metadata.distribution(name)
            for top in {file.parts[0] for file in distribution.files or ()}:
                link = self.site / top
                if top not in {"..", "__pycache__"} and not link.exists():
                    link.symlink_to(Path(str(distribution.locate_file(top))).resolve())

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )


def locked(lock: str) -> list[str]:
    """Return the distributions that a lock names for this platform."""
    lines = (ROOT / "requirements" / lock).read_text().splitlines()
    pins = [Requirement(line.rstrip("\\ ")) for line in lines if line and line[0].isalnum()]
    return [pin.name for pin in pins if pin.marker is None or pin.marker.evaluate()]


def build(project: Path, folder: Path) -> Path:
    # The project's folder must not be importable: it has modules with common names.
    command = [sys.executable, "-P", "-m", "hatchling", "build", "--target=wheel"]
    subprocess.run([*command, f"--directory={folder}"], cwd=project, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}
