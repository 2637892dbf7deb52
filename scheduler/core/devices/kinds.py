"""Kinds: devices that no selector in question distinguishes.

Three things distinguish devices: the verdicts of selectors, the values that a constraint compares,
and everything in a device except its attributes. So a selector for one device by its UUID creates
two kinds, however many UUIDs there are. The text of a selector shows which attributes it reads: it
is evaluated once for all devices that are equal in those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.core.devices.requests import Chain, ResolvedAsk
from scheduler.core.values.devices import DeviceInfo

SelectorEvaluator = Callable[[str, str, DeviceInfo], bool | str]
"""Function of (CEL expression, driver, device) that returns a bool, or an error's text.

An exception that it raises ends the decision and changes no state.
"""

Verdict = bool | tuple[int, str]
"""True if a chain selects a device, or the index of the selector that failed and its error."""

_MENTIONED: Final = re.compile(r"\battributes\b")
_PLAIN: Final = re.compile(
    r"""\battributes\[(?:"[^"\\]*"|'[^'\\]*')\]\.([A-Za-z_]\w*)(?![\w\s]*\()"""
)
"""Lookup of an attribute by domain and name. A name before a parenthesis is a function."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Selector chains and compared attributes that distinguish devices."""

    chains: frozenset[Chain] = frozenset()
    compared: frozenset[str] = frozenset()

    def __or__(self, other: Watched) -> Watched:
        # Most unions add nothing: reuse the object instead of building new sets.
        if other.chains <= self.chains and other.compared <= self.compared:
            return self
        return Watched(self.chains | other.chains, self.compared | other.compared)


NOTHING: Final = Watched()


@dataclass(frozen=True, slots=True, eq=False)
class DeviceKind:
    """Devices with equal verdicts; `sample` is one of them.

    `verdicts` has the verdict of each chain. `index` is unique among the kinds of one sorting.
    """

    index: int
    driver: str
    sample: DeviceInfo
    verdicts: Mapping[Chain, Verdict]


def watched_by(asks: Iterable[ResolvedAsk]) -> Watched:
    """Return the chains and attributes that distinguish devices for these asks."""
    chains: set[Chain] = set()
    compared: set[str] = set()
    for ask in asks:
        compared.update(each.attribute for each in ask.constraints)
        for request in ask.requests:
            chains.update(wanted.chain for wanted in request.options)
    return Watched(frozenset(chains), frozenset(compared))


def attributes_read(chains: Iterable[Chain]) -> frozenset[str] | None:
    """Return the attributes that the selectors read, by name without domain; None means any."""
    names: set[str] = set()
    for text in {text for chain in chains for text in chain}:
        plain = _PLAIN.findall(text)
        # A use of `attributes` that is no plain lookup, such as a loop, may read any of them.
        if len(plain) < len(_MENTIONED.findall(text)):
            return None
        names.update(plain)
    return frozenset(names)


def verdict(chain: Chain, driver: str, device: DeviceInfo, evaluate: SelectorEvaluator) -> Verdict:
    """Return the verdict of the first selector that does not select the device, or True."""
    for index, expression in enumerate(chain):
        answer = evaluate(expression, driver, device)
        # With its index, because the message names the selector.
        if isinstance(answer, str):
            return (index, answer)
        if not answer:
            return False
    return True
