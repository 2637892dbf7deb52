"""Context managers that make imports faster."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

COLOURS: Final = ("rich", "colorama", "greenlet")
"""Packages that structlog loads if they exist, for colours and greenlets."""

_ABSENT: Final[Any] = None
"""Value in `sys.modules` for a module that cannot be imported."""


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Hide optional packages that are not loaded yet, as if they were not installed.

    For modules that try `import` and work without it. Afterwards the packages can be imported as
    before.
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
    """Let TLS contexts that are created meanwhile trust no certificate authority.

    aiohttp creates two at import, for which OpenSSL reads all authorities of the system. That is a
    tenth of the time that a server process takes to start. Muster gives aiohttp its own contexts.
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
    """Collect no garbage meanwhile.

    Imports create tens of thousands of objects that live on, and the collector would scan all of
    them repeatedly. That is a tenth of the time in which the scheduler's modules are imported.
    """
    usual = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if usual:
            gc.enable()
