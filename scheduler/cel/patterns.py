"""Regular expressions, the one home of the RE2 library.

It takes time in proportion to the text, whatever the expression says; Go's, which kube-scheduler
uses, has the same syntax. What costs is to compile one: those in the text of a selector are
compiled with it, those that it puts together while it runs are charged for.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import re2

from scheduler.cel.errors import EvaluationError

MEMORY: Final = 1 << 18
"""How many bytes a compiled regular expression may take."""

COMPILATION: Final = 1_000
"""What compiling one costs."""


class Pattern:
    """A compiled regular expression, in the place of its text."""

    __slots__ = ("regex", "text")

    def __init__(self, text: str) -> None:
        """Raises EvaluationError."""
        self.text = text
        self.regex = _compile(text)


@functools.lru_cache(maxsize=256)
def _compile(text: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY
    try:
        return re2.compile(text, options)
    except re2.error as error:
        detail = error.args[0].decode(errors="replace") if error.args else "too large"
        raise EvaluationError(f"error parsing regexp: {detail}") from None
