"""tools.release.changelog: the section of a version is found, and created."""

import pytest

from tools.release import changelog
from tools.release.errors import ReleaseError

TEXT = """# Changelog

## Unreleased

### Added
- new

## 0.1.10 - 2026-12-01
- ten

## 0.1.1
- one
"""


@pytest.mark.parametrize(
    ("version", "want"), [("0.1.10", "- ten\n"), ("0.1.1", "- one\n"), ("Unreleased", None)]
)
def test_a_section_ends_where_the_next_begins(version: str, want: str | None) -> None:
    assert changelog.section(TEXT, version) == (want or "### Added\n- new\n")


@pytest.mark.parametrize("version", ["0.1", "0.2.0", "0.1.1.0"])
def test_a_version_without_changes_is_no_release(version: str) -> None:
    with pytest.raises(ReleaseError, match=f"make version VERSION={version}"):
        changelog.section(TEXT, version)


def test_what_was_unreleased_becomes_the_versions() -> None:
    made = changelog.released(TEXT, "0.2.0", "2026-12-24")

    assert changelog.section(made, "0.2.0") == "### Added\n- new\n"
    assert changelog.section(made, "0.1.10") == "- ten\n"
    assert made.startswith("# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-12-24\n")


def test_a_version_is_released_once() -> None:
    with pytest.raises(ReleaseError, match=r"has a section of 0\.1\.1 already"):
        changelog.released(TEXT, "0.1.1", "2026-12-24")


def test_a_changelog_needs_its_heading() -> None:
    with pytest.raises(ReleaseError, match="no line '## Unreleased'"):
        changelog.released("# Changelog\n", "0.2.0", "2026-12-24")
