"""Imports without what takes time and is of no use."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

COLOURS: Final = ("rich", "colorama", "greenlet")
"""What structlog loads where it finds it, to print in colours and among greenlets."""

_ABSENT: Final[Any] = None
"""What `sys.modules` has for a module that cannot be imported."""


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Optional packages that are not loaded yet look as if they were not installed.

    For what tries `import` and goes on without. Afterwards they can be imported as before.
    """
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden, _ABSENT))
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)


@contextmanager
def trusting_nobody() -> Iterator[None]:
    """TLS contexts that are made meanwhile trust no certificate authority.

    aiohttp makes two as it is imported, for which OpenSSL reads all authorities of the system: a
    tenth of the time that a server process takes to start. It is given contexts of our own.
    """
    paths = ("SSL_CERT_FILE", "SSL_CERT_DIR")
    usual = {name: os.environ.get(name) for name in paths}
    os.environ.update(dict.fromkeys(paths, os.devnull))
    try:
        yield
    finally:
        for name, value in usual.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def uncollected() -> Iterator[None]:
    """Collects no garbage meanwhile.

    Imports make tens of thousands of objects that stay, and the collector would look at all of them
    again and again: a tenth of the time that the scheduler's modules take.
    """
    usual = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if usual:
            gc.enable()
