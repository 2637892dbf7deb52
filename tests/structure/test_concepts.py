"""The concepts page names existing files, and each of its terms exists in the code."""

import re

import pytest

from tests.structure.graph import ROOT

ROWS = [
    (match["noun"], re.findall(r"`([\w/]+(?:\.py|/))`", match["where"]))
    for match in re.finditer(
        r"^\| \*\*(?P<noun>[^*]+)\*\* \|.*\|(?P<where>[^|]*)\|$",
        (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
]


def test_the_page_has_rows() -> None:
    assert len(ROWS) >= 15


@pytest.mark.parametrize(("noun", "places"), ROWS, ids=[noun for noun, _ in ROWS])
def test_a_concept_is_where_the_page_says(noun: str, places: list[str]) -> None:
    assert places, "no file"
    word = noun.split(maxsplit=1)[0].rstrip("s").replace("-", "").lower()
    for place in places:
        path = ROOT / place
        assert path.exists(), place
        sources = path.rglob("*.py") if path.is_dir() else (path,)
        text = "".join(source.read_text(encoding="utf-8") for source in sources).lower()
        assert word in text.replace("-", ""), f"{place} does not speak of {noun}"
