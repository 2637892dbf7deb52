"""Kinds: devices between which no selector in question tells a difference.

What tells devices apart are answers: the verdicts of selectors, what a constraint compares, and all
that they have besides attributes. So a selector for one device by its UUID makes two kinds, however
many UUIDs there are. Which attributes a selector can look at is read from its text: it is judged
once for devices that are equal in those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.core.devices.requests import Chain, ResolvedAsk
from scheduler.core.values.devices import DeviceInfo

Judge = Callable[[str, str, DeviceInfo], bool | str]
"""Of (CEL expression, driver, device): whether the device is selected, or an error's text.

What it raises ends the decision, and leaves everything as it was.
"""

Verdict = bool | tuple[int, str]
"""Whether a chain selects a device, or the index of the selector that failed and its error."""

_MENTIONED: Final = re.compile(r"\battributes\b")
_PLAIN: Final = re.compile(
    r"""\battributes\[(?:"[^"\\]*"|'[^'\\]*')\]\.([A-Za-z_]\w*)(?![\w\s]*\()"""
)
"""An attribute looked up by domain and name. A name that a parenthesis follows is a function."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What tells devices apart: chains of selectors, and attributes that constraints compare."""

    chains: frozenset[Chain] = frozenset()
    compared: frozenset[str] = frozenset()

    def __or__(self, other: Watched) -> Watched:
        if other.chains <= self.chains and other.compared <= self.compared:
            return self
        return Watched(self.chains | other.chains, self.compared | other.compared)


NOTHING: Final = Watched()


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Devices with equal answers; `sample` is one of them, `verdicts` are those of each chain.

    `index` is unique among the kinds of one sorting.
    """

    index: int
    driver: str
    sample: DeviceInfo
    verdicts: Mapping[Chain, Verdict]


def watched_by(asks: Iterable[ResolvedAsk]) -> Watched:
    """What tells devices apart for these."""
    chains: set[Chain] = set()
    compared: set[str] = set()
    for ask in asks:
        compared.update(each.attribute for each in ask.constraints)
        for request in ask.requests:
            chains.update(wanted.chain for wanted in request.options)
    return Watched(frozenset(chains), frozenset(compared))


def looked_at(chains: Iterable[Chain]) -> frozenset[str] | None:
    """The attributes that the selectors look at, by name without domain; None: any."""
    names: set[str] = set()
    for text in {text for chain in chains for text in chain}:
        plain = _PLAIN.findall(text)
        if len(plain) < len(_MENTIONED.findall(text)):
            return None
        names.update(plain)
    return frozenset(names)


def verdict(chain: Chain, driver: str, device: DeviceInfo, judge: Judge) -> Verdict:
    """The answer of the first selector that does not select the device; True if all do."""
    for index, expression in enumerate(chain):
        answer = judge(expression, driver, device)
        if isinstance(answer, str):
            return (index, answer)
        if not answer:
            return False
    return True
