"""NodePorts: host ports as resources, so that the fit of ports is computed like any other.

Each node has WHOLE units of every port of every protocol, and one unit of the port per address. A
pod that asks for the port on all addresses takes all WHOLE units. A pod that asks for it on one
address takes one unit, and that address. So two pods whose ports conflict never fit on one node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.core.model import HostPort

REASON: Final = "node(s) didn't have free ports for the requested pod ports"
WHOLE: Final = 1 << 20

_PREFIX: Final = "hostPort/"  # no resource name equals a port's, which has two slashes
_ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104  # compared, never listened on


def demands(wanted: tuple[HostPort, ...]) -> dict[str, int]:
    """The amounts that a pod with these host ports takes, by resource name."""
    taken: dict[str, int] = {}
    for entry in wanted:
        port = f"{_PREFIX}{entry.protocol}/{entry.port}"
        if entry.address == _ALL_ADDRESSES:
            taken[port] = WHOLE
        else:
            taken[port] = min(WHOLE, taken.get(port, 0) + 1)
            taken[f"{port}/{entry.address}"] = 1
    return taken


def sizes(
    wanted: tuple[HostPort, ...], resource: Callable[[str], int]
) -> tuple[tuple[int, int], ...]:
    """The same as (resource, amount); `resource` gives the index of a name."""
    return tuple((resource(name), amount) for name, amount in demands(wanted).items())


def is_port(resource: str) -> bool:
    return resource.startswith(_PREFIX)


def of_every_node(resource: str) -> int:
    """How much of the resource every node has: 0 if the resource is not a port."""
    if not is_port(resource):
        return 0
    return WHOLE if resource.count("/") == 2 else 1
