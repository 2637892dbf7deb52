"""Kinds: devices that no selector, constraint or counter tells apart.

Two devices are of one kind if they are equal in all but their names and the attributes that nobody
watches. So a selector is judged once per kind, not once per device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from scheduler.core.devices.asks import Ask
from scheduler.core.devices.model import Attribute, DeviceClassInfo, DeviceInfo

Watched = frozenset[str] | None
"""The attributes that tell devices apart, by name without domain; None: all attributes."""

Judge = Callable[[str, str, DeviceInfo], bool | str]
"""Of (CEL expression, driver, device): whether the device is selected, or an error's text."""

_MOST_VERDICTS: Final = 1024
"""So many answers are kept for a kind."""

_MENTIONED: Final = re.compile(r"\battributes\b")
_PLAIN: Final = re.compile(
    r"""\battributes\[(?:"[^"\\]*"|'[^'\\]*')\]\.([A-Za-z_]\w*)(?![\w\s]*\()"""
)
"""An attribute looked up by domain and name. A name that a parenthesis follows is a function."""


class Kind:
    """Devices of a driver that nothing tells apart; `sample` is one of them.

    `index` is unique among the kinds of one `Kinds`.
    """

    __slots__ = ("_attributes", "_verdicts", "driver", "index", "sample")

    def __init__(self, index: int, driver: str, sample: DeviceInfo) -> None:
        self.index = index
        self.driver = driver
        self.sample = sample
        self._attributes = dict(sample.attributes)
        self._verdicts: dict[str, bool | str] = {}

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of this qualified name; one without a domain belongs to the driver's."""
        found = self._attributes.get(name)
        domain, slash, plain = name.partition("/")
        if found is None and slash and domain == self.driver:
            found = self._attributes.get(plain)
        return found

    def verdict(self, expression: str, judge: Judge) -> bool | str:
        """Whether the selector takes devices of this kind, or an error's text; judged once."""
        verdict = self._verdicts.get(expression)
        if verdict is None:
            if len(self._verdicts) >= _MOST_VERDICTS:
                self._verdicts.clear()
            verdict = self._verdicts[expression] = judge(expression, self.driver, self.sample)
        return verdict


class Kinds:
    """All kinds, where the `watched` attributes tell devices apart."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self._known: dict[object, Kind] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, driver: str, device: DeviceInfo) -> Kind:
        """The kind of a device."""
        key = (
            driver, self._seen(device), device.capacity, device.taints, device.counters,
            device.shared, device.binds_to_node, device.binding_conditions,
        )  # fmt: skip
        kind = self._known.get(key)
        if kind is None:
            kind = self._known[key] = Kind(len(self._known), driver, device)
        return kind

    def _seen(self, device: DeviceInfo) -> tuple[tuple[str, Attribute], ...]:
        watched = self.watched
        if watched is None:
            return device.attributes
        return tuple(each for each in device.attributes if each[0].rpartition("/")[2] in watched)


def both(one: Watched, other: Watched) -> Watched:
    """The attributes that either looks at."""
    return None if one is None or other is None else one | other


def watched_by(asks: Iterable[Ask], classes: Iterable[DeviceClassInfo]) -> Watched:
    """The attributes that the selectors and constraints of these look at."""
    names: set[str] = set()
    expressions = [text for each in classes for text in each.selectors]
    for ask in asks:
        names.update(each.attribute.rpartition("/")[2] for each in ask.constraints)
        for request in ask.requests:
            expressions += (text for option in request.options for text in option.selectors)
    for text in expressions:
        plain = _PLAIN.findall(text)
        if len(plain) < len(_MENTIONED.findall(text)):
            return None
        names.update(plain)
    return frozenset(names)
