"""Semantic versions, as https://semver.org defines them and Kubernetes' CEL library parses them."""

from __future__ import annotations

import functools
import re
from typing import Final

from scheduler.cel.errors import EvaluationError

_SYNTAX: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_LONGEST: Final = 1024
"""Characters of a semantic version. A longer one is invalid."""

_MOST: Final = 2**64 - 1


@functools.total_ordering
class Version:
    """A version without build metadata, which does not take part in comparisons."""

    __slots__ = ("_key", "numbers")

    __hash__ = None  # type: ignore[assignment]  # looking one up in a constant list fails upstream

    def __init__(self, numbers: tuple[int, int, int], before: tuple[str, ...]) -> None:
        """Create a version. `before` has the identifiers of the pre-release, if it is one."""
        self.numbers = numbers
        # semver.org, rule 11: numbers sort below letters, which compare as text.
        identifiers = tuple(
            (0, int(part), "") if part.isdigit() else (1, 0, part) for part in before
        )
        # A pre-release sorts before its release.
        self._key = (numbers, not before, identifiers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key == other._key

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key


@functools.lru_cache(maxsize=1024)
def parse_version(text: str) -> Version:
    """Parse a semantic version. Raises EvaluationError if it is invalid."""
    match = _SYNTAX.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise EvaluationError(f"not a semantic version: {text[:64]!r}")
    numbers = (_number(match[1]), _number(match[2]), _number(match[3]))
    before = tuple(match[4].split(".")) if match[4] else ()
    for part in before:
        if part.isdigit():
            if len(part) > 1 and part[0] == "0":
                raise EvaluationError(f"a number of a pre-release starts with 0: {text[:64]!r}")
            _number(part)
    return Version(numbers, before)


def _number(digits: str) -> int:
    value = int(digits)
    if value > _MOST:
        raise EvaluationError(f"a number of a version is too large: {digits[:32]}")
    return value


def normalized(text: str) -> str:
    """Return the text without a leading v and leading zeros, with missing numbers added.

    Raises EvaluationError for a short version that has a pre-release or build metadata.
    """
    # At most three parts: further dots belong to a pre-release.
    parts = text.removeprefix("v").split(".", 2)
    parts = [_without_zeros(part) for part in parts]
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    # A part of zeros keeps one of them, also before a pre-release such as `00-rc`.
    return rest if rest[:1].isdigit() else "0" + rest
