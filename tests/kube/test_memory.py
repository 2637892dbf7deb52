"""Freed memory is the system's again."""

from pathlib import Path

import pytest

from kube import memory

_PIECE = 64 * 1024


def resident() -> int:
    """Bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(memory._trim is None, reason="not glibc")
def test_what_was_freed_between_things_that_stay_is_given_back() -> None:
    pieces = [bytes([number % 256]) * _PIECE for number in range(1_600)]
    kept = pieces[::16]
    pieces.clear()
    before = resident()

    memory.give_back()

    assert before - resident() > 800 * _PIECE
    assert [piece[0] for piece in kept] == [number % 256 for number in range(0, 1_600, 16)]
