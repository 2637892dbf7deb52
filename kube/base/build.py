"""The version and the commit of this build, for `muster version`, logs and metrics.

`commit.txt` has the commit: `git archive` writes it there (see .gitattributes), and the Dockerfile
does for an image of a checkout. In a checkout itself git knows it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

UNKNOWN: Final = "unknown"
_RECORDED: Final = Path(__file__).with_name("commit.txt")
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")


class Build(NamedTuple):
    """The version, as in pyproject.toml, and the complete hash of the commit, or `unknown`."""

    version: str
    commit: str

    def __str__(self) -> str:
        """Return the line that `muster version` prints."""
        return f"muster {self.version}, commit {self.commit}"


def read_build(recorded: Path = _RECORDED, checkout: Path = _CHECKOUT) -> Build:
    """Return the build that runs. Never raises: a build without a commit runs as well."""
    return Build(_version(), _hash(recorded) or _of_git(checkout / ".git") or UNKNOWN)


def _version() -> str:
    # Takes a few milliseconds to import, and most commands do not need it.
    import importlib.metadata

    try:
        return importlib.metadata.version("muster")
    except importlib.metadata.PackageNotFoundError:
        return UNKNOWN


def _of_git(folder: Path) -> str:
    """Return the commit that is checked out; empty if there is no plain repository."""
    try:
        head = (folder / "HEAD").read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""
    reference = head.removeprefix("ref: ")
    return head if reference == head and _COMMIT.fullmatch(head) else _hash(folder / reference)


def _hash(file: Path) -> str:
    """Return the hash in a file; empty if it has none, as before `git archive` replaces it."""
    try:
        text = file.read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""
    return text if _COMMIT.fullmatch(text) else ""
