"""Contents: all devices without their names, numbered so that equal ones have one number.

A column has a code for each number, and equal codes stand for equal values. Columns are created on
first use, and only for attributes that some device has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from scheduler.core.devices.layouts import DeviceView
from scheduler.core.values.devices import Attribute, DeviceInfo

_Key = tuple[bool, str]
"""Pair of (qualified, name): a column is for one qualified name, or a name without domain."""


@dataclass(frozen=True, slots=True)
class ViewFrame:
    """Part of a node's view apart from the contents of devices. Equal frames are one object."""

    number: int
    pools: tuple[int, ...]
    view: DeviceView


@dataclass(frozen=True, slots=True)
class Seen:
    """Devices that a node sees: the frame, and the content of each position by number."""

    frame: ViewFrame
    contents: tuple[int, ...]


@dataclass(slots=True)
class _Column:
    codes: list[int] = field(default_factory=list)
    known: dict[object, int] = field(default_factory=lambda: {None: 0})


class Contents:
    """Table of contents. It only grows: to drop deleted devices, create a new one."""

    def __init__(self) -> None:
        self.samples: list[DeviceInfo] = []
        self.drivers: list[str] = []
        self.fixed: list[int] = []
        """For each content, the number of its parts apart from attributes."""
        self._known: dict[object, tuple[int, dict[object, int]]] = {}
        self._written: set[tuple[str, tuple[str, ...]]] = set()
        self._frames: dict[object, ViewFrame] = {}
        self._names: set[_Key] = set()
        self._columns: dict[_Key, _Column] = {}

    def __len__(self) -> int:
        return len(self.samples)

    def seen(self, view: DeviceView) -> Seen:
        """Return the numbers of the devices in a view."""
        contents: list[int] = []
        pools: list[int] = []
        for number, pool in enumerate(view.pools):
            for _, device in pool.devices() if pool.usable else ():
                contents.append(self._number(pool.key[0], device))
                pools.append(number)
        counters = tuple(pool.counters for pool in view.pools)
        key = (tuple(pools), view.visible, view.flaws, counters)
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = ViewFrame(len(self._frames), tuple(pools), view)
        return Seen(frame, tuple(contents))

    def named(self, name: str) -> list[int]:
        """Return the column of the attributes with this name in any domain."""
        ending = f"/{name}"

        def values(_driver: str, device: DeviceInfo) -> object:
            found = tuple(
                each for each in device.attributes if each[0] == name or each[0].endswith(ending)
            )
            return found or None

        return self._column((False, name), values)

    def compared(self, name: str) -> list[int]:
        """Return the column of the attribute with this qualified name; 0 without such an attribute.

        A name without a domain is in the driver's domain.
        """
        return self._column((True, name), lambda driver, device: _attribute(name, driver, device))

    def attribute(self, name: str, number: int) -> Attribute | None:
        """Return the attribute of a content by its qualified name, or None."""
        return _attribute(name, self.drivers[number], self.samples[number])

    def names(self, name: str) -> bool:
        """Return True if the table ever had a device with an attribute of this qualified name."""
        return (True, name) in self._names

    def _number(self, driver: str, device: DeviceInfo) -> int:
        # Names and nodes are left out: equal devices with other names have one number.
        fixed = (
            driver, device.capacity, device.taints, device.counters, device.shared,
            device.binds_to_node, device.binding_conditions,
        )  # fmt: skip
        same = self._known.setdefault(fixed, (len(self._known), {}))
        number = same[1].get(device.attributes)
        if number is None:
            number = same[1][device.attributes] = len(self.samples)
            self.samples.append(device)
            self.drivers.append(driver)
            self.fixed.append(same[0])
            written = (driver, tuple(name for name, _ in device.attributes))
            if written not in self._written:
                self._written.add(written)
                self._names.update(_names(*written))
        return number

    def _column(self, key: _Key, value: Callable[[str, DeviceInfo], object]) -> list[int]:
        if key not in self._names:
            # Selectors may name any attribute: one of no device must not cost memory for good.
            return [0] * len(self.samples)
        # Only contents that came since the last call are read.
        column = self._columns.setdefault(key, _Column())
        codes, known = column.codes, column.known
        for number in range(len(codes), len(self.samples)):
            found = value(self.drivers[number], self.samples[number])
            codes.append(known.setdefault(found, len(known)))
        return codes


def _attribute(name: str, driver: str, device: DeviceInfo) -> Attribute | None:
    domain, slash, plain = name.partition("/")
    # As in kube-scheduler: the full name first, then the plain one if the domain is the driver's.
    attributes = dict(device.attributes)
    found = attributes.get(name)
    return attributes.get(plain) if found is None and slash and domain == driver else found


def _names(driver: str, names: Iterable[str]) -> Iterable[_Key]:
    """Yield the columns in which a device with attributes of these names has a value."""
    for name in names:
        plain = name.rpartition("/")[2]
        yield (False, plain)
        yield (True, name)
        if plain == name:
            yield (True, f"{driver}/{name}")
