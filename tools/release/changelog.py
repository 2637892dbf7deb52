"""CHANGELOG.md: the section of one version."""

import re

from tools.release.errors import ReleaseError

UNRELEASED = "## Unreleased"


def section(text: str, version: str) -> str:
    """Return a version's changes, without its heading. Raises ReleaseError if there are none."""
    found = re.search(
        rf"^## {re.escape(version)}(?: - \S+)?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    changes = found[1].strip() if found else ""
    if not changes:
        raise ReleaseError(
            f"CHANGELOG.md says nothing under '## {version}': run make version VERSION={version}, "
            "which moves there what is under Unreleased"
        )
    return f"{changes}\n"


def released(text: str, version: str, date: str) -> str:
    """Return the changelog with all unreleased changes in this version. Raises ReleaseError."""
    if re.search(rf"^## {re.escape(version)}\b", text, re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md has a section of {version} already: take a higher number")
    if f"\n{UNRELEASED}\n" not in text:
        raise ReleaseError(f"CHANGELOG.md has no line '{UNRELEASED}': put one below the preface")
    return text.replace(f"\n{UNRELEASED}\n", f"\n{UNRELEASED}\n\n## {version} - {date}\n", 1)
