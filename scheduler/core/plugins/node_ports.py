"""NodePorts: host ports as resources, so that they take part in the same arithmetic as all others.

A port of a protocol is WHOLE on every node: a pod that asks for it on all addresses takes all of
it, one that asks for one address takes one unit, and that address besides. Two pods that may not
share a node thus never both fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.core.model import HostPort

REASON: Final = "node(s) didn't have free ports for the requested pod ports"
WHOLE: Final = 1 << 20

_PREFIX: Final = "hostPort/"  # with a second slash behind it, no name of a resource can be the same
_ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104  # compared, never listened on


def demands(wanted: tuple[HostPort, ...]) -> dict[str, int]:
    """What a pod with these ports takes, by resource."""
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
    """How much of it each node has by being a node; 0 for all that is not a port."""
    if not is_port(resource):
        return 0
    return WHOLE if resource.count("/") == 2 else 1
