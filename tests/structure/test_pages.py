"""Documentation states each fact once: a list has no item twice in old and new wording."""

from collections import Counter
from pathlib import Path

import pytest

from tests.structure.graph import ROOT

PAGES = sorted([ROOT / "CHANGELOG.md", ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
OPENING = 50
"""Minimum common prefix of duplicate items on one page, in a list of full sentences."""


def openings_twice(text: str) -> list[str]:
    """Return the prefixes of list items over `OPENING` characters that occur more than once."""
    items = [line.strip() for line in text.splitlines() if line.lstrip().startswith("- ")]
    counts = Counter(item[:OPENING] for item in items if len(item) > OPENING)
    return [opening for opening, count in counts.items() if count > 1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_list_has_an_item_twice(page: Path) -> None:
    assert openings_twice(page.read_text("utf-8")) == []


def test_an_old_wording_beside_the_new_one_is_found() -> None:
    item = "- **Devices**: what pods' ResourceClaims ask for is part of their shape"

    assert openings_twice(f"{item}.\n{item}, and more.\n- other\n- other\n") == [item[:OPENING]]
