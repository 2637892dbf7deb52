"""Extended resources that device classes provide, as requests of a ResourceClaim (KEP-5004).

On nodes that do not offer the resource themselves, devices meet a container's request for it. One
claim of the pod has all of them, with a request for each container and resource. An init container
that ends before the others start uses their devices, and requests only what it needs in addition.
Of several such additional requests, the largest serves all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.core.values.device_asks import Ask, exactly

CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that each device class provides: the class name follows."""

_NATIVE: Final = "kubernetes.io/"
_QUOTA: Final = "requests."


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """Requests of a container for resources that a device class may provide.

    `index` counts the init containers and then the containers. `ends` means an init container that
    ends before the others start. `amounts` has (resource, index among all requests of the container
    sorted by name, amount).
    """

    name: str
    index: int
    ends: bool
    amounts: tuple[tuple[str, int, int], ...]

    def request_of(self, resource: str) -> tuple[str, int]:
        """Return the name of the request in the claim, and the requested number of the resource."""
        for name, place, amount in self.amounts:
            if name == resource:
                return f"container-{self.index}-request-{place}", amount
        return "", 0


class RequestMapping(NamedTuple):
    """Request of the claim whose devices a container uses for a resource."""

    container: str
    resource: str
    request: str


def may_be_mapped(resource: str) -> bool:
    """Return True if a device class can provide the resource: extended ones, never native ones."""
    if resource.startswith(CLASS_PREFIX):
        return True
    # The rules of Kubernetes' IsExtendedResourceName, apart from the prefix of classes above.
    return "/" in resource and _NATIVE not in resource and not resource.startswith(_QUOTA)


def resources_of(containers: Iterable[ContainerDevices]) -> list[str]:
    """Return the resources that the containers request, sorted."""
    return sorted({resource for each in containers for resource, _, _ in each.amounts})


def ask_for(containers: tuple[ContainerDevices, ...], classes: Mapping[str, str]) -> Ask:
    """Return the ask of the claim for these resources; `classes` has their device classes."""
    found: dict[str, tuple[str, int]] = {}
    for resource, device_class in classes.items():
        requests, _ = _of_resource(containers, resource)
        found |= {name: (device_class, count) for name, count in requests.items()}
    return Ask(tuple(exactly(name, found[name][0], count=found[name][1]) for name in sorted(found)))


def mappings(containers: tuple[ContainerDevices, ...], ask: Ask) -> list[RequestMapping]:
    """Return the request of each container and resource, for all resources of the claim."""
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
    """Return the requests for one resource with their counts, and the containers' use of them."""
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
        # Ending init containers run one after another: one more request serves all of them.
        largest = max(more, key=lambda name: more[name])
        requests[largest] = more[largest]
        uses = [use._replace(request=largest) if use.request in more else use for use in uses]
    return requests, uses


def _of_first(
    container: ContainerDevices, resource: str, lasting: Iterable[tuple[int, str, int]]
) -> tuple[list[RequestMapping], dict[str, int]]:
    """Return the requests that an ending init container uses, and its additional request."""
    name, amount = container.request_of(resource)
    uses: list[RequestMapping] = []
    for index, request, count in lasting:
        # Containers that start later do not run yet, so this one can use their devices.
        if amount > 0 and index >= container.index:
            uses.append(RequestMapping(container.name, resource, request))
            amount -= count
    if amount <= 0:
        return uses, {}
    uses.append(RequestMapping(container.name, resource, name))
    return uses, {name: amount}
