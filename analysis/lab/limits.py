"""Limits of a user, such as `wait.p99 > 1h`: a run fails if one is true of its results."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from analysis.lab.amounts import seconds_of
from analysis.lab.errors import LabError, input_of
from analysis.lab.results import Result

_OPERATORS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_WRITTEN: Final = re.compile(r"\s*(?:([\w+=.-]+):)?\s*([^<>=\s]+)\s*(>=|<=|>|<)\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class Limit:
    """A condition on results. `path` leads to a number; `variant` is empty for all."""

    text: str
    variant: str
    path: str
    compare: Callable[[float, float], bool]
    value: float


def limit_of(written: str) -> Limit:
    """Parse "[VARIANT:] PATH > NUMBER"; a number may be a duration or in percent.

    Raises LabError, which explains the format.
    """
    match = _WRITTEN.fullmatch(written)
    if match is None:
        raise LabError(
            f"--fail-if {written!r}: use the form 'wait.p99 > 1h' or 'spread: cpu.used < 80%'"
        )
    variant, path, sign, value = match.groups()
    return Limit(written, variant or "", path, _OPERATORS[sign], _number(value, written))


def broken(limits: Sequence[Limit], results: Sequence[Result]) -> list[str]:
    """Return a line for each limit that is true of a result. Raises LabError for a bad path."""
    lines = []
    for limit in limits:
        concerned = [each for each in results if limit.variant in ("", each.variant)]
        if not concerned:
            raise LabError(f"--fail-if {limit.text!r}: no variant has the name {limit.variant}")
        for result in concerned:
            found = value_at(result, limit.path, limit.text)
            if limit.compare(found, limit.value):
                lines.append(f"{result.variant}: {limit.path} is {found:g}, {limit.text!r} is true")
    return lines


def value_at(result: Result, path: str, text: str) -> float:
    """Return the number at a path such as `wait.p99` or `nvidia.com/gpu.used`. Raises LabError."""
    for resource in result.resources:
        if path.startswith(f"{resource.name}."):
            return _follow(resource, path[len(resource.name) + 1 :], path, text)
    return _follow(result, path, path, text)


def _follow(value: Any, rest: str, path: str, text: str) -> float:
    fields: Any = msgspec.to_builtins(value)
    while rest:
        if not isinstance(fields, dict):
            break
        # Keys may contain dots themselves: the longest that matches counts.
        name = max(
            (key for key in fields if rest == key or rest.startswith(f"{key}.")),
            key=len,
            default=None,
        )
        if name is None:
            raise LabError(f"--fail-if {text!r}: {path} not found: use one of {', '.join(fields)}")
        fields, rest = fields[name], rest[len(name) + 1 :]
    if isinstance(fields, bool) or not isinstance(fields, int | float) or rest:
        raise LabError(f"--fail-if {text!r}: {path} is not a number")
    return float(fields)


def _number(value: str, written: str) -> float:
    with input_of(f"--fail-if {written!r}"):
        return float(value[:-1]) / 100 if value.endswith("%") else seconds_of(value)
