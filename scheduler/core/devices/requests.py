"""Asks whose device classes are known: what the allocator works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.core.values.device_asks import (
    MOST_RESULTS,
    Amounts,
    Ask,
    DeviceConstraint,
    DeviceOption,
    DeviceToleration,
)
from scheduler.core.values.devices import DeviceClassInfo

Chain = tuple[str, ...]
"""CEL expressions which all must select a device; they are judged in order."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A CEL expression; `source` says in errors whose it is."""

    source: str
    expression: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """One option of a request. `constraints` are the indices of those that concern it."""

    option: DeviceOption
    index: int
    selectors: tuple[Selector, ...]
    constraints: tuple[int, ...]

    @property
    def chain(self) -> Chain:
        """The expressions of the selectors."""
        return tuple(each.expression for each in self.selectors)

    @property
    def look(self) -> tuple[tuple[Selector, ...], Amounts, tuple[DeviceToleration, ...]]:
        """What decides which devices match it."""
        return (self.selectors, self.option.capacity, self.option.tolerations)


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """The options of a request, best first."""

    options: tuple[Wanted, ...]
    listed: bool


@dataclass(frozen=True, slots=True)
class ResolvedAsk:
    """An ask with the selectors of its classes. `least` is the fewest devices that can meet it."""

    ask: Ask
    requests: tuple[ResolvedRequest, ...]
    constraints: tuple[DeviceConstraint, ...]
    classes: tuple[DeviceClassInfo, ...]
    least: int


def resolve(ask: Ask, classes: Mapping[str, DeviceClassInfo]) -> ResolvedAsk | str:
    """The ask with its classes, or why no node can meet it."""
    requests: list[ResolvedRequest] = []
    least = 0
    for request in ask.requests:
        options: list[Wanted] = []
        for index, option in enumerate(request.options):
            device_class = classes.get(option.device_class)
            if device_class is None:
                return f"request {option.name}: device class {option.device_class} does not exist"
            constraints = tuple(
                at for at, each in enumerate(ask.constraints) if each.concerns(option, request)
            )
            selectors = _selectors(device_class, option)
            options.append(Wanted(option, index, selectors, constraints))
        requests.append(ResolvedRequest(tuple(options), request.listed))
        least += min(1 if each.every else each.count for each in request.options)
    if least > MOST_RESULTS:
        return f"number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
    named = tuple(classes[name] for name in sorted(ask.classes))
    return ResolvedAsk(ask, tuple(requests), ask.constraints, named, least)


def _selectors(device_class: DeviceClassInfo, option: DeviceOption) -> tuple[Selector, ...]:
    return (
        *(
            Selector(f"class {device_class.name}: selector #{at}", text)
            for at, text in enumerate(device_class.selectors)
        ),
        *(
            Selector(f"request {option.name}: selector #{at}", text)
            for at, text in enumerate(option.selectors)
        ),
    )
