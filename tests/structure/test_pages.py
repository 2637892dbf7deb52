"""What people read says each thing once: a list has no item twice, in an old and a new wording."""

from collections import Counter
from pathlib import Path

import pytest

from tests.structure.graph import ROOT

PAGES = sorted([ROOT / "CHANGELOG.md", ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
OPENING = 50
"""Characters that two items of one page do not share, in a list of whole sentences."""


def openings_twice(text: str) -> list[str]:
    """How list items of more than `OPENING` characters begin that begin as an earlier one does."""
    items = [line.strip() for line in text.splitlines() if line.lstrip().startswith("- ")]
    counts = Counter(item[:OPENING] for item in items if len(item) > OPENING)
    return [opening for opening, count in counts.items() if count > 1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_list_has_an_item_twice(page: Path) -> None:
    assert openings_twice(page.read_text("utf-8")) == []


def test_an_old_wording_beside_the_new_one_is_found() -> None:
    item = "- **Devices**: what pods' ResourceClaims ask for is part of their shape"

    assert openings_twice(f"{item}.\n{item}, and more.\n- other\n- other\n") == [item[:OPENING]]
