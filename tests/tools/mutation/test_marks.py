"""Marks show which lines of a function a test executes."""

import builtins
from typing import Any

import pytest

from tools.mutation.marks import mark_of, marked
from tools.mutation.operators import functions

SOURCE = '''
def f(a):
    """Text."""
    b = 1
    if a:
        b = 2
    elif b:
        b = 3
        for c in a or ():
            b = c
    b += 1
    return [g(b)
            for g in (abs,)]
'''


@pytest.mark.parametrize(("given", "want"), [(True, {3, 6, 11}), ((), {3, 7, 8, 11})])
def test_marks_tell_which_branches_ran(
    given: Any, want: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[int, int]] = set()
    monkeypatch.setattr(builtins, "__mark__", seen.add, raising=False)
    module: dict[str, Any] = {}

    exec(marked(SOURCE, "source.py", 5), module)
    module["f"](given)

    assert seen == {(5, line) for line in want}
    assert module["f"].__doc__ == "Text."


def test_each_line_has_the_mark_that_is_passed_before_it() -> None:
    import ast

    (function,) = functions(ast.parse(SOURCE))

    marks = {line: mark_of(function, line) for line in range(4, 14)}

    assert marks == {4: 3, 5: 3, 6: 6, 7: 7, 8: 8, 9: 8, 10: 10, 11: 11, 12: 11, 13: 11}
