"""Work in steps, done at once."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def ended(steps: Generator[object, None, T]) -> T:
    """What the steps return after the last one."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
