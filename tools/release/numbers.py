"""Write the version's number to every file that has it: `make version VERSION=...`.

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
_NUMBER = r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?"


@dataclass(frozen=True, slots=True)
class Place:
    """A file, and the text before the number in it. `wanted`: the number must exist."""

    path: str
    before: str
    wanted: bool = True

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(rf"({self.before})({_NUMBER})", re.MULTILINE)


PLACES = (
    Place("pyproject.toml", r'^version = "'),
    Place("pyproject.toml", r"muster-localcluster=="),
    Place("localcluster/pyproject.toml", r'^version = "'),
    Place("manifests/base/webhook.yaml", r"image: muster:"),
    Place("manifests/base/controller.yaml", r"image: muster:"),
    Place("manifests/base/scheduler.yaml", r"image: muster:"),
    Place("manifests/console/deployment.yaml", r"image: muster:"),
    Place("Dockerfile", r"-t muster:"),
    Place("docs/install.md", r"REGISTRY/muster:"),
    Place("examples/gitops/argocd/applications.yaml", r"targetRevision: v"),
    Place("examples/gitops/flux/muster.yaml", r"tag: v"),
    Place("examples/gitops/flux/muster.yaml", r"newTag: "),
    # Only if there is a chart.
    Place("charts/muster/Chart.yaml", r"^version: [\"']?", wanted=False),
    Place("charts/muster/Chart.yaml", r"^appVersion: [\"']?", wanted=False),
)


def check(folder: Path, version: str) -> None:
    """Raise ReleaseError with every place of a source tree that has another number."""
    if re.fullmatch(_NUMBER, version) is None:
        raise ReleaseError(f"VERSION={version} is no version: write 1.2.3, or 1.2.3rc1")
    wrong = [
        f"{place.path} says {number}"
        for place, number in read(folder)
        if number != version
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
    """Write the number to every place, and its section to the changelog. Raises ReleaseError."""
    if re.fullmatch(_NUMBER, version) is None:
        raise ReleaseError(f"VERSION={version} is no version: write 1.2.3, or 1.2.3rc1")
    list(read(folder))  # before the first write: a missing place must leave all files unchanged
    log = folder / "CHANGELOG.md"
    log.write_text(changelog.released(log.read_text(), version, date))
    for place in PLACES:
        file = folder / place.path
        if file.is_file():
            file.write_text(place.pattern.sub(rf"\g<1>{version}", file.read_text()))


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
