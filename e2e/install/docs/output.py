"""Comparison of a command's output with the page.

Spaces count once. `...` matches anything: as a line any lines, in a line any part of it. An age, as
in `4m10s`, matches any age. Output that the page shows as empty must be empty.
"""

import re
from collections.abc import Sequence

_AGE = r"(?:\d+(?:d|h|m|s|ms))+"


def difference(shown: str, said: str) -> str | None:
    """Return None if they match, else the page's missing line and the output."""
    wanted, lines = _lines(shown), _lines(said)
    if (missing := _missing(wanted, lines)) is None:
        return None
    return f"{missing}\nin what it said:\n{said}"


def _missing(wanted: Sequence[str], lines: Sequence[str]) -> str | None:
    if not wanted:
        return f"more was said than is shown: {lines[0]!r}" if lines else None
    first, *rest = wanted
    if first == "...":
        tails = (_missing(rest, lines[start:]) for start in range(len(lines) + 1))
        found = list(tails)
        return None if None in found else found[0]
    if not lines or not _pattern(first).fullmatch(lines[0]):
        return f"{first!r} is shown, but not said"
    return _missing(rest, lines[1:])


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _pattern(line: str) -> re.Pattern[str]:
    words = (_AGE if re.fullmatch(_AGE, word) else _literal(word) for word in line.split())
    return re.compile(r"\ ".join(words))


def _literal(word: str) -> str:
    return ".*".join(re.escape(part) for part in word.split("..."))
