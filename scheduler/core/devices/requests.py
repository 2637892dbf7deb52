"""Asks whose device classes are resolved: the allocator's input."""

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
"""CEL expressions that all must select a device, in evaluation order."""


@dataclass(frozen=True, slots=True)
class DeviceSelector:
    """CEL expression; `source` names its owner in error messages."""

    source: str
    expression: str


@dataclass(frozen=True, slots=True)
class RequestOption:
    """One option of a request. `constraints` are the indices of the constraints on it."""

    option: DeviceOption
    index: int
    selectors: tuple[DeviceSelector, ...]
    constraints: tuple[int, ...]

    @property
    def chain(self) -> Chain:
        """Expressions of the selectors."""
        return tuple(each.expression for each in self.selectors)

    @property
    def matching_key(
        self,
    ) -> tuple[tuple[DeviceSelector, ...], Amounts, tuple[DeviceToleration, ...]]:
        """Parts of the option that decide which devices match: the key for cached matches."""
        return (self.selectors, self.option.capacity, self.option.tolerations)


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """Options of a request, best first."""

    options: tuple[RequestOption, ...]
    listed: bool


@dataclass(frozen=True, slots=True)
class ResolvedAsk:
    """Ask with the selectors of its classes. `least` is the fewest devices that can meet it."""

    ask: Ask
    requests: tuple[ResolvedRequest, ...]
    constraints: tuple[DeviceConstraint, ...]
    classes: tuple[DeviceClassInfo, ...]
    least: int


def resolve(ask: Ask, classes: Mapping[str, DeviceClassInfo]) -> ResolvedAsk | str:
    """Resolve the ask's device classes, or return the reason why no node can meet it."""
    requests: list[ResolvedRequest] = []
    least = 0
    for request in ask.requests:
        options: list[RequestOption] = []
        for index, option in enumerate(request.options):
            device_class = classes.get(option.device_class)
            if device_class is None:
                return f"request {option.name}: device class {option.device_class} does not exist"
            constraints = tuple(
                at for at, each in enumerate(ask.constraints) if each.concerns(option, request)
            )
            selectors = _selectors(device_class, option)
            options.append(RequestOption(option, index, selectors, constraints))
        requests.append(ResolvedRequest(tuple(options), request.listed))
        # The number of devices that `All` takes depends on the node: at least one.
        least += min(1 if each.every else each.count for each in request.options)
    # This refuses the claim for all nodes. The allocator checks again for each node, where the
    # size of requests for all devices is known.
    if least > MOST_RESULTS:
        return f"number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
    named = tuple(classes[name] for name in sorted(ask.classes))
    return ResolvedAsk(ask, tuple(requests), ask.constraints, named, least)


def _selectors(device_class: DeviceClassInfo, option: DeviceOption) -> tuple[DeviceSelector, ...]:
    # The class comes before the request, as in kube-scheduler: the first error ends the evaluation.
    return (
        *(
            DeviceSelector(f"class {device_class.name}: selector #{at}", text)
            for at, text in enumerate(device_class.selectors)
        ),
        *(
            DeviceSelector(f"request {option.name}: selector #{at}", text)
            for at, text in enumerate(option.selectors)
        ),
    )
