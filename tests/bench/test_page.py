"""The parts of the performance page that are generated, and its pictures."""

import xml.etree.ElementTree as ET

import pytest

from bench import bars, curve, page


def test_only_what_is_between_the_marks_is_replaced() -> None:
    before = "top\n<!-- begin e2e -->\nold\n<!-- end e2e -->\nfoot\n"
    assert page.replaced(before, {"e2e": "new\n"}) == before.replace("old", "new")


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="marks for growth"):
        page.replaced("nothing", {"growth": ""})


def test_the_page_has_a_place_for_everything() -> None:
    parts = dict.fromkeys(("targets", "e2e", "decisions", "growth", "waiting", "launch"), "")
    page.replaced(page.PAGE.read_text(), parts)
    page.replaced(page.SCALE.read_text(), dict.fromkeys(("decided", "events", "held"), ""))


def test_pictures_are_well_formed() -> None:
    ET.fromstring(bars.draw({"a": {"raw": 1.0, "muster": 0.5}}, "pods/s"))
    ET.fromstring(curve.draw({"a": [(1, 1), (1000, 2)]}, "nodes", "ms"))
