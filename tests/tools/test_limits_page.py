"""The page of limits has a reason and a unit for each number."""

import pytest

from tools.limits_page import FIXED, PACKAGES, ROOT, Limit, limits, of_source, shown

FOUND = list(limits())


def test_every_tuned_number_has_an_explanation() -> None:
    """A string below it has the unit and the behavior beyond the limit."""
    assert [it.where for it in FOUND if not it.text] == []


def test_every_package_has_numbers_on_the_page() -> None:
    assert {it.path.partition("/")[0] for it in FOUND} == PACKAGES.keys()


def test_what_counts_as_a_fact_is_still_there() -> None:
    every = {
        it.where
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for it in of_source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    }

    assert FIXED - every == frozenset()


@pytest.mark.parametrize(
    ("source", "want"),
    [
        pytest.param('A: Final = 2\n"""Pods."""\n', [("A", 2, "Pods.")], id="a string below it"),
        pytest.param("A = 2  # pods\n", [("A", 2, "pods")], id="a comment behind it"),
        pytest.param("# Pods.\nA = 2\n", [("A", 2, "Pods.")], id="a comment above it"),
        pytest.param(
            'A = 1\nB = 2\n"""Two."""\n', [("A", 1, ""), ("B", 2, "Two.")], id="not its neighbor's"
        ),
        pytest.param(
            'A = 1\n\nB = 2\n"""One."""\n', [("A", 1, ""), ("B", 2, "One.")], id="an empty line"
        ),
        pytest.param("A = 4 << 20\n", [("A", 4 << 20, "")], id="arithmetic"),
        pytest.param("A = True\nb = 2\nC = 'x'\nD = f(2)\n", [], id="no number, or no constant"),
    ],
)
def test_numbers_are_found_with_what_explains_them(
    source: str, want: list[tuple[str, float, str]]
) -> None:
    found = [(it.name, it.value, it.text) for it in of_source("a.py", source)]

    assert found == want


@pytest.mark.parametrize(
    ("name", "value", "text", "want"),
    [
        ("MOST", 20000, "Groups of a question.", "20,000"),
        ("GRACE_SECONDS", 60.0, "", "60 s"),
        ("MOST", 0.25, "Seconds of one search.", "0.25 s"),
        ("PER_SECOND", 5.0, "Events.", "5 /s"),
        ("MOST", 16 << 20, "Bytes of a line.", "16 MiB"),
        ("MOST", 1000, "Bytes of a line.", "1,000 B"),
        ("LONGEST", 300, "Characters of a text.", "300 characters"),
    ],
)
def test_a_value_has_its_unit(name: str, value: float, text: str, want: str) -> None:
    assert shown(Limit("a.py", name, value, text)) == want
