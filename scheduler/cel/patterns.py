"""Regular expressions, and the only importer of the RE2 library.

RE2 takes time in proportion to the text, for any expression. Go's library, which kube-scheduler
uses, has the same syntax. The expensive step is compilation: constant expressions are compiled with
the selector, and an expression that is computed during evaluation is charged for.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import re2

from scheduler.cel.errors import EvaluationError

MEMORY: Final = 1 << 18
"""Bytes that a compiled regular expression may take. A larger one is an error of the selector."""

COMPILATION: Final = 1_000
"""Cost of compiling a regular expression during evaluation, in units of `COST`."""


class Pattern:
    """A compiled regular expression, in place of its text."""

    __slots__ = ("regex", "text")

    def __init__(self, text: str) -> None:
        """Compile the text. Raises EvaluationError."""
        self.text = text
        self.regex = _compile(text)


# An expression that is computed is often the same for all devices.
@functools.lru_cache(maxsize=256)
def _compile(text: str) -> Any:
    options = re2.Options()
    # RE2 writes to stderr otherwise, on behalf of any user who mistypes an expression.
    options.log_errors = False
    options.max_mem = MEMORY
    try:
        return re2.compile(text, options)
    except re2.error as error:
        detail = error.args[0].decode(errors="replace") if error.args else "too large"
        raise EvaluationError(f"error parsing regexp: {detail}") from None
