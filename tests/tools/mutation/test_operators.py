"""Changes of a line, and removed lines."""

import pytest

from tools.mutation.operators import edits


def changes(line: str, before: str = "def f(a, b):") -> set[str]:
    """Return the lines that a line of a function can be changed to."""
    source = f"{before}\n    while a:\n        {line}\n"
    lines = source.split("\n")
    found = [edit for edit in edits(source) if edit.line == lines.index(f"        {line}") + 1]
    return {edit.apply(lines[edit.line - 1]).strip() for edit in found}


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("c = a < b", {"c = a <= b"}),
        ("c = a == b", {"c = a != b"}),
        ("c = (a) not in b", {"c = (a) in b"}),
        ("c = a is not b", {"c = a is b"}),
        ("c = a and b", {"c = a or b"}),
        ("c = not a", {"c = a"}),
        ("c = a - b", {"c = a + b"}),
        ("c = a // b", {"c = a * b"}),
        ("c = a & ~b", {"c = a | ~b", "c = a & b"}),
        ("c = a > 1", {"c = a >= 1", "c = a > 0"}),
        ("c = f(b=True)", {"c = f(b=False)"}),
        ("c = 'é' if a else -b", {"c = 'é' if a else b"}),
        ("a += b", {"pass", "a -= b"}),
        ("f(a)", {"pass"}),
        ("await f(a)", {"pass"}),
        ("continue", {"break"}),
        ("c = min(a, b)", {"c = max(a, b)"}),
        ("c = a.any()", {"c = a.all()"}),
        ("c = min(a, key=b)", {"c = max(a, key=b)", "c = min(a)"}),
        ("c = sorted(a, key=b)", {"c = sorted(a, key=b, reverse=True)", "c = sorted(a)"}),
    ],
)
def test_changes_of_a_line(line: str, want: set[str]) -> None:
    before = "async def f(a, b):" if "await" in line else "def f(a, b):"

    assert changes(line, before) == want


@pytest.mark.parametrize(
    ("annotation", "want"),
    [
        ("int | None", {"return None"}),
        ("Optional[int]", {"return None"}),
        ("int", set()),
        ("list[int | None]", set()),
    ],
)
def test_none_is_returned_where_the_annotation_allows_it(annotation: str, want: set[str]) -> None:
    assert changes("return a", f"def f(a, b) -> {annotation}:") == want


@pytest.mark.parametrize(
    "line",
    [
        '"""Not 1 < 2."""',
        '_log.info("a", b=True)',
        "assert a < b",
        'c = f"{a < b}"',
        "c: dict[A | B, True]",
        "c = isinstance(a, int | str)",
        'c = "a" + b',
        "return a",
    ],
)
def test_lines_that_cannot_matter_are_left_out(line: str) -> None:
    assert changes(line) == set()


@pytest.mark.parametrize(
    "source",
    [
        "A = 1 < 2\n",
        "class A:\n    a = not b\n",
        "class A:\n    def __repr__(self):\n        return a < b\n",
        "def f(a=1 < 2): ...\n",
        "@cached(size=True)\ndef f(): ...\n",
    ],
)
def test_what_runs_at_import_or_only_shows_is_left_out(source: str) -> None:
    assert edits(source) == []


def test_functions_in_functions_and_in_classes_are_changed() -> None:
    source = "class A:\n  def f(a):\n    def g(b):\n      return lambda: not b\n    return g\n"

    assert [(edit.line, edit.column) for edit in edits(source)] == [(4, 21)]
