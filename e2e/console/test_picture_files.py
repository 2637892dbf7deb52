"""Every view has a small screenshot, and the docs use every screenshot."""

import re
from typing import Final

from e2e.console.fake import STATIC
from e2e.console.shots import LOGIN, PAGE, PICTURES, SHOTS

ALL_TOGETHER: Final = 1_500_000
"""Maximum size of all screenshots together, in bytes."""


def test_each_view_of_the_page_has_a_picture() -> None:
    main = (STATIC / "js" / "main.js").read_text()
    (shown,) = re.findall(r"const SHOWN = \{(.+?)\};", main, re.DOTALL)
    views = set(re.findall(r"[\"']?([a-z-]+)[\"']?: \w+View", shown))

    pictured = {
        path.split("?")[0].split("/")[1] for name, (_, path, *_) in SHOTS.items() if name != LOGIN
    }

    assert len(views) >= 5
    assert pictured == views


def test_pictures_and_the_docs_agree() -> None:
    there = {path.name for path in PICTURES.iterdir()}
    shown = re.findall(r"!\[[^\]]+\]\(pictures/console/([^)]+)\)", PAGE.read_text())

    assert there == {f"{name}.png" for name in SHOTS}
    assert sorted(shown) == sorted(there)


def test_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) < ALL_TOGETHER
