"""Runs work in steps without pauses."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def ended(steps: Generator[object, None, T]) -> T:
    """Run all steps, and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
