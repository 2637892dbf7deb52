"""Extended resources that a device class may map, as pods request them, and the pod's claim."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from scheduler.core.values.extended_devices import ContainerDevices, may_be_mapped
from scheduler.core.values.model import ClaimKey, PodInfo
from scheduler.decoding.objects import Container, Pod
from scheduler.decoding.requests import amount

_LONGEST = 253
"""Characters of an object's name. The pod's part of a claim's name is cut."""


def claim_key(info: PodInfo) -> ClaimKey:
    """Return the key of the only claim that is ever created for extended resources of the pod.

    The name depends on the pod's UID, so a later leader finds what an earlier one began.
    """
    return _claim_key(info.namespace, info.name, info.uid)


@lru_cache(maxsize=4096)
def _claim_key(namespace: str, name: str, uid: str) -> ClaimKey:
    # Another pod of this name may follow: it must not take over the claim of this one.
    digest = hashlib.sha256(uid.encode()).hexdigest()[:8]
    end = f"-extended-resources-{digest}"
    return (namespace, name[: _LONGEST - len(end)].rstrip("-.") + end)


def containers_of(pod: Pod, requests: Iterable[tuple[str, int]]) -> tuple[ContainerDevices, ...]:
    """Return the containers that request such resources. Raises QuantityError."""
    # Nearly all pods end here, without a look at their containers.
    if not any(may_be_mapped(name) for name, _ in requests):
        return ()
    first = len(pod.spec.init_containers)
    found = (
        _container(container, index, init=index < first)
        for index, container in enumerate((*pod.spec.init_containers, *pod.spec.containers))
    )
    return tuple(each for each in found if each.amounts)


def _container(container: Container, index: int, *, init: bool) -> ContainerDevices:
    requests = container.resources.requests
    amounts = (
        (name, place, amount(name, requests[name]))
        for place, name in enumerate(sorted(requests))
        if may_be_mapped(name)
    )
    return ContainerDevices(
        name=container.name,
        index=index,
        # A sidecar keeps its devices as long as the pod runs.
        ends=init and container.restart_policy != "Always",
        amounts=tuple(each for each in amounts if each[2] > 0),
    )
