"""A small project for mutants."""

from pathlib import Path

from tools.mutation.project import Project

SHOP = '''"""A shop."""
from __future__ import annotations

import functools


class Till:
    """Coins."""

    def __init__(self, coins: list[int]) -> None:
        self.coins = coins

    @property
    def empty(self) -> bool:
        return not self.coins

    def total(self) -> int:
        return sum(self.coins) + 0

    async def later(self) -> int:
        return min(self.coins)


@functools.lru_cache
def cheap(price: int) -> bool:
    if price < 10:
        return True
    return False


def never(price: int) -> int:
    return price * 2
'''
TESTS = """
import asyncio

from shop.till import Till, cheap as is_cheap, never

def test_empty():
    assert Till([]).empty

def test_total():
    assert Till([1, 2]).total() == 3

def test_later():
    assert asyncio.run(Till([1, 2]).later()) == 1

def test_cheap():
    assert is_cheap(3)

def test_never():
    assert never(1) == 3
"""
CONFIGURATION = """
[tool.pytest.ini_options]
addopts = "--import-mode=importlib"
pythonpath = ["."]
asyncio_default_fixture_loop_scope = "function"
"""


def toy(folder: Path) -> Project:
    """Return a project with a package `shop` and its tests."""
    for name, text in {
        "pyproject.toml": CONFIGURATION,
        "shop/__init__.py": "",
        "shop/till.py": SHOP,
        "tests/test_till.py": TESTS,
    }.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return Project(folder.resolve(), ("shop",), ("tests",))
