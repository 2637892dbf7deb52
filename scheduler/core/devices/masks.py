"""Positions as bit masks."""

from __future__ import annotations


def bits(mask: int) -> list[int]:
    """Return the positions in a mask, in ascending order."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
