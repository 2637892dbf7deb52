"""The pages about performance: tables match the results, and the prose is short."""

import pytest

from tools.bench import page
from tools.marked_parts import replaced

HEADLINES = page.DOCS / "performance.md"
MOST_WORDS = 1_500
"""Maximum number of words, for seven minutes of reading: two pages."""


def test_the_tables_are_those_of_the_last_results() -> None:
    text = page.PAGE.read_text("utf-8")

    assert replaced(text, page.parts()) == text, "run python -m tools.bench.page"


def test_the_pictures_are_those_of_the_last_results() -> None:
    drawn = page.pictures()

    assert {name: (page.PICTURES / name).read_text("utf-8") for name in drawn} == drawn


def test_the_headlines_stay_short() -> None:
    assert len(HEADLINES.read_text("utf-8").split()) < MOST_WORDS


def test_a_page_without_the_comments_is_an_error() -> None:
    with pytest.raises(ValueError, match="one pair of marks for e2e"):
        replaced("# Page", {"e2e": "| a |"})
