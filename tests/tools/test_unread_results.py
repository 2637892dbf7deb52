"""The check finds calls of the core whose result is unused."""

import ast

import pytest

from tests.structure.graph import ROOT
from tools.checks.unread_results import answering, unread

MODULE = """
class Attempt:
    def take(self, rows) -> bool: ...
    def fill(self, demand) -> Shortage | None: ...
    def count(self) -> bool: ...
    def use(self):
        CALL

class Table:
    def reserve(self, rows) -> bool: ...
    def take(self, rows) -> None: ...
"""


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("self.take(rows)", 1),
        ("self.fill(demand)", 1),
        ("table.reserve(rows)", 1),
        ("if self.take(rows): pass", 0),
        ("complete = self.take(rows)", 0),
        ("self.count()", 0),
        ("table.take(rows)", 0),
    ],
)
def test_what_is_unread(call: str, found: int) -> None:
    tree = ast.parse(MODULE.replace("CALL", call))
    assert len({*unread(tree, answering({"module": tree}))}) == found


def test_it_fails_where_an_answer_is_dropped_on_purpose() -> None:
    source = (ROOT / "scheduler" / "core" / "framework" / "framework.py").read_text(
        encoding="utf-8"
    )
    assert source.count("_ = self.reserve(") == 1
    tree = ast.parse(source.replace("_ = self.reserve(", "self.reserve("))
    assert list(unread(tree, answering({"framework": tree})))
