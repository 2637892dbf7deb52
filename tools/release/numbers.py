"""Write the version's number to every file that has it: `make version VERSION=...`.

Between releases it is the next one's with `.dev0`: 1.3.0.dev0, in images and manifests too, so that
no node mistakes an image of a checkout for that of a release.

`python -m tools.release.numbers VERSION` does the same.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tools.release import changelog
from tools.release.errors import ReleaseError

ROOT = Path(__file__).resolve().parents[2]
_NUMBER = r"\d+\.\d+\.\d+(?:(?:a|b|rc|\.dev)\d+)?"
_SEMVER = r"\d+\.\d+\.\d+(?:-(?:a|b|rc|dev)\.\d+)?"


@dataclass(frozen=True, slots=True)
class Place:
    """A file, and the text before the number in it.

    `wanted`: the number must exist. `semver`: Helm reads it, `1.2.3-rc.1` instead of `1.2.3rc1`.
    """

    path: str
    before: str
    wanted: bool = True
    semver: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(
            rf"({self.before})({_SEMVER if self.semver else _NUMBER})(?![\w.-])", re.MULTILINE
        )

    def form(self, version: str) -> str:
        """Return the version as this place has it."""
        return semver(version) if self.semver else version


PLACES = (
    Place("pyproject.toml", r'^version = "'),
    Place("pyproject.toml", r"muster-localcluster=="),
    Place("localcluster/pyproject.toml", r'^version = "'),
    Place("clients/python/pyproject.toml", r'^version = "'),
    Place("manifests/base/webhook.yaml", r"image: muster:"),
    Place("manifests/base/controller.yaml", r"image: muster:"),
    Place("manifests/base/scheduler.yaml", r"image: muster:"),
    Place("manifests/console/deployment.yaml", r"image: muster:"),
    Place("Dockerfile", r"-t muster:"),
    Place("docs/install.md", r"REGISTRY/muster:"),
    Place("examples/gitops/argocd/applications.yaml", r"targetRevision: v"),
    Place("examples/gitops/flux/muster.yaml", r"tag: v"),
    Place("examples/gitops/flux/muster.yaml", r"newTag: "),
    Place("README.md", r"REGISTRY/muster:"),
    # Only if there is a chart.
    Place("charts/muster/Chart.yaml", r"^version: [\"']?", wanted=False, semver=True),
    Place("charts/muster/Chart.yaml", r"^appVersion: [\"']?", wanted=False),
)


def semver(version: str) -> str:
    """Return a version of Python in the form that Helm reads."""
    return re.sub(r"\.?(a|b|rc|dev)(\d+)$", r"-\1.\2", version)


def is_development(version: str) -> bool:
    """Return true for the version of commits between two releases."""
    return ".dev" in version


def changes(folder: Path, version: str) -> str:
    """Return the version's section of the changelog; for a development version, what is unreleased.

    Raises ReleaseError if there is none.
    """
    name = "Unreleased" if is_development(version) else version
    return changelog.section((folder / "CHANGELOG.md").read_text(), name)


def check(folder: Path, version: str) -> None:
    """Raise ReleaseError with every place of a source tree that has another number."""
    if re.fullmatch(_NUMBER, version) is None:
        raise ReleaseError(f"VERSION={version} is no version: write 1.2.3, or 1.2.3rc1")
    wrong = [
        f"{place.path} says {number}"
        for place, number in read(folder)
        if number != place.form(version)
    ]  # fmt: skip
    if wrong:
        raise ReleaseError(
            f"this commit is not version {version}: {', '.join(wrong)}; "
            f"run make version VERSION={version} and commit what it changes"
        )


def read(folder: Path) -> Iterator[tuple[Place, str]]:
    """Yield every number with its place. Raises ReleaseError if a place has none."""
    for place in PLACES:
        file = folder / place.path
        found = place.pattern.findall(file.read_text()) if file.is_file() else []
        if place.wanted and not found:
            raise ReleaseError(f"{place.path} has no version after {place.before!r}")
        yield from ((place, number) for _, number in found)


def write(folder: Path, version: str, date: str) -> None:
    """Write the number to every place, and its section to the changelog. Raises ReleaseError.

    A development version has no section: what it changes stays below Unreleased.
    """
    if re.fullmatch(_NUMBER, version) is None:
        raise ReleaseError(f"VERSION={version} is no version: write 1.2.3, or 1.2.3rc1")
    list(read(folder))  # before the first write: a missing place must leave all files unchanged
    if not is_development(version):
        log = folder / "CHANGELOG.md"
        log.write_text(changelog.released(log.read_text(), version, date))
    for place in PLACES:
        file = folder / place.path
        if file.is_file():
            file.write_text(place.pattern.sub(rf"\g<1>{place.form(version)}", file.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    try:
        write(ROOT, parser.parse_args().version, datetime.now(UTC).date().isoformat())
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
