"""Extended resources that device classes stand for, as requests of a ResourceClaim (KEP-5004).

A container's request for such a resource is met by devices on nodes that do not offer the resource
themselves. All of them are in one claim of the pod, with a request for each container and resource.
An init container that ends before the others start uses their devices, and only asks for what it
needs besides; of several such requests for more, the largest serves all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.core.values.device_asks import Ask, exactly

CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Followed by the name of a device class: the extended resource that always stands for it."""

_NATIVE: Final = "kubernetes.io/"
_QUOTA: Final = "requests."


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """What a container requests of resources that a device class may stand for.

    `index` is its place among the init containers and then the containers. `ends` means an init
    container that ends before the others start. `amounts` has (resource, its place among all
    requests of the container by name, amount).
    """

    name: str
    index: int
    ends: bool
    amounts: tuple[tuple[str, int, int], ...]

    def request_of(self, resource: str) -> tuple[str, int]:
        """The name of the request in the claim, and how many of the resource are requested."""
        for name, place, amount in self.amounts:
            if name == resource:
                return f"container-{self.index}-request-{place}", amount
        return "", 0


class RequestMapping(NamedTuple):
    """Which request of the claim has devices for a container's resource."""

    container: str
    resource: str
    request: str


def may_be_mapped(resource: str) -> bool:
    """Whether a device class can stand for the resource: extended ones, never the core's."""
    if resource.startswith(CLASS_PREFIX):
        return True
    return "/" in resource and _NATIVE not in resource and not resource.startswith(_QUOTA)


def resources_of(containers: Iterable[ContainerDevices]) -> list[str]:
    """The resources that they request, sorted."""
    return sorted({resource for each in containers for resource, _, _ in each.amounts})


def ask_for(containers: tuple[ContainerDevices, ...], classes: Mapping[str, str]) -> Ask:
    """What the claim asks for whose devices stand for these resources, by device class."""
    found: dict[str, tuple[str, int]] = {}
    for resource, device_class in classes.items():
        requests, _ = _of_resource(containers, resource)
        found |= {name: (device_class, count) for name, count in requests.items()}
    return Ask(tuple(exactly(name, found[name][0], count=found[name][1]) for name in sorted(found)))


def mappings(containers: tuple[ContainerDevices, ...], ask: Ask) -> list[RequestMapping]:
    """Which request has the devices of which container, for all resources that the claim is for."""
    names = {request.name for request in ask.requests}
    found: list[RequestMapping] = []
    for resource in resources_of(containers):
        requests, of = _of_resource(containers, resource)
        if names.issuperset(requests):
            found += of
    return found


def _of_resource(
    containers: tuple[ContainerDevices, ...], resource: str
) -> tuple[dict[str, int], list[RequestMapping]]:
    """The requests for one resource, with counts, and which containers use them."""
    lasting: list[tuple[int, str, int]] = []
    uses: list[RequestMapping] = []
    for each in containers:
        name, amount = each.request_of(resource)
        if amount and not each.ends:
            lasting.append((each.index, name, amount))
            uses.append(RequestMapping(each.name, resource, name))
    more: dict[str, int] = {}
    for each in containers:
        if each.ends:
            own, missing = _of_first(each, resource, lasting)
            uses += own
            more |= missing
    requests = {name: amount for _, name, amount in lasting}
    if more:
        largest = max(more, key=lambda name: more[name])
        requests[largest] = more[largest]
        uses = [use._replace(request=largest) if use.request in more else use for use in uses]
    return requests, uses


def _of_first(
    container: ContainerDevices, resource: str, lasting: Iterable[tuple[int, str, int]]
) -> tuple[list[RequestMapping], dict[str, int]]:
    """Whose devices an init container uses that ends, and what it requests besides."""
    name, amount = container.request_of(resource)
    uses: list[RequestMapping] = []
    for index, request, count in lasting:
        if amount > 0 and index >= container.index:
            uses.append(RequestMapping(container.name, resource, request))
            amount -= count
    if amount <= 0:
        return uses, {}
    uses.append(RequestMapping(container.name, resource, name))
    return uses, {name: amount}
