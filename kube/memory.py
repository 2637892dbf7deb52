"""Gives back to the system what the C library keeps of memory that was freed."""

import ctypes
from collections.abc import Callable
from typing import cast

_trim = cast("Callable[[int], int] | None", getattr(ctypes.CDLL(None), "malloc_trim", None))


def give_back() -> None:
    """Let go of whole free pages, wherever they are; a few milliseconds for hundreds of MiB.

    glibc itself gives back only what lies at the end of its heap, and where buffers of connections
    and answers come and go between smaller things that stay, that is nothing for hours. Where there
    is another C library nothing happens.
    """
    if _trim is not None:
        _trim(0)
