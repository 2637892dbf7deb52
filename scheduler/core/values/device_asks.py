"""Asks: the content of a ResourceClaim's spec, without its name.

Claims created from one template have equal asks, so their pods share a shape. Amounts of capacity
are integers in nano-units, the smallest unit of a quantity, so that nothing is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MOST_RESULTS: Final = 32
"""Kubernetes' limit of devices in one claim's allocation (AllocationResultsMaxSize)."""

NANO: Final = 10**9
"""Nano-units in one unit of a quantity."""

Amounts = tuple[tuple[str, int], ...]
"""(name, amount in nano-units), sorted by name."""


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """Toleration of device taints by a request; an empty operator means Equal.

    An empty key with Exists matches any key, an empty effect any effect. `seconds` is only copied
    to the allocation.
    """

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceOption:
    """Option of a request: `count` devices of the class, or `every` one that matches.

    `name` is the request's name, or `request/subrequest` for one of a firstAvailable list.
    `selectors` are CEL expressions in addition to those of the class.
    """

    name: str
    device_class: str
    selectors: tuple[str, ...] = ()
    count: int = 1
    every: bool = False
    admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Amounts = ()


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Request of a claim, met by the first option that is possible. `listed`: firstAvailable."""

    name: str
    options: tuple[DeviceOption, ...]
    listed: bool = False


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """Constraint on an attribute that all devices of the requests must have.

    Their values must be equal (matchAttribute), or all different if `distinct` (distinctAttribute).
    Without `requests`, it applies to all of them. `attribute` is qualified by a domain.
    """

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False

    def concerns(self, option: DeviceOption, request: DeviceRequest) -> bool:
        """Return True if it applies to devices of this option of the request."""
        # The name of a request with alternatives includes all of its subrequests.
        names = self.requests
        return not names or request.name in names or option.name in names


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """Configuration for a driver, as the JSON text of the entry without its requests."""

    text: str
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """Content of one claim's spec. Equal contents are equal asks."""

    requests: tuple[DeviceRequest, ...]
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfig, ...] = ()

    @property
    def classes(self) -> frozenset[str]:
        """Names of the device classes of all options."""
        return frozenset(o.device_class for request in self.requests for o in request.options)


def exactly(
    name: str,
    device_class: str,
    *selectors: str,
    count: int = 1,
    every: bool = False,
    admin: bool = False,
    tolerations: tuple[DeviceToleration, ...] = (),
    capacity: Amounts = (),
) -> DeviceRequest:
    """Create a request with one option."""
    option = DeviceOption(name, device_class, selectors, count, every, admin, tolerations, capacity)
    return DeviceRequest(name, (option,))
