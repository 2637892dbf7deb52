"""JSON as deep as an API server takes it: 10,000 levels, ten times what Python takes unasked.

Only objects made to do harm are that deep, and the deep part is never in a field that is read
(`managedFields` takes anything). It must be skipped without failing the list that it is part of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

_DEEP: Final = 25_000
"""Levels of recursion; each level of JSON takes one or two, and about 100 bytes of stack each."""


def decode_deep(decode: Callable[[bytes], T], data: bytes) -> T:
    """What `decode` makes of the data. Raises what it raises; RecursionError beyond all measure."""
    try:
        return decode(data)
    except RecursionError:
        with _deeper():
            return decode(data)


@contextmanager
def _deeper() -> Iterator[None]:
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(usual, _DEEP))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)
