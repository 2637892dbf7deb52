"""Resource requests of a pod, in the units of the decision core.

Requests follow kube-scheduler: the sum of all containers and sidecars, or the largest init
container with the sidecars started before it if that is more; or pod-level requests; plus overhead.
While a pod is resized in place, each resource counts as the maximum of the spec, the kubelet's
allocation and the usage. The spec does not count while the resize is infeasible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from kube.client.quantity import MAX_INT64, parse_milli, parse_value
from scheduler.decoding.objects import Container, ContainerStatus, Pod

Amounts = dict[str, int]
_Quantities = Mapping[str, str | int]
_Statuses = Mapping[str, ContainerStatus]

_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"


# The same few quantities occur in all pods of a cluster.
@lru_cache(maxsize=4096)
def amount(resource: str, quantity: str | int) -> int:
    """Return a quantity in milli for cpu, in whole units otherwise. Raises QuantityError."""
    return parse_milli(quantity) if resource == "cpu" else parse_value(quantity)


def amounts(quantities: _Quantities) -> Amounts:
    """Return a resource list in the core's units."""
    return {resource: amount(resource, q) for resource, q in quantities.items()}


def pod_requests(pod: Pod) -> tuple[tuple[str, int], ...]:
    """Return the requests of the pod, sorted by resource, without zeros.

    As upstream, a total that an int64 cannot hold is cut off.
    """
    spec, status = pod.spec, pod.status
    statuses: _Statuses = {}
    # Only running pods have statuses: the map is not built for each pending pod.
    if status.container_statuses or status.init_container_statuses:
        known = (*status.container_statuses, *status.init_container_statuses)
        statuses = {each.name: each for each in known if each.resources is not None}
    # Only a kubelet finds a resize infeasible, so other pods' conditions are not read.
    infeasible = bool(statuses or status.resources) and _infeasible(pod)
    running: Amounts = {}
    for container in spec.containers:
        _add(running, _requests(container, statuses, infeasible=infeasible))
    if spec.init_containers:
        _add_init_containers(running, spec.init_containers, statuses, infeasible=infeasible)
    if spec.resources is not None:
        # Pod-level requests replace the containers' requests, resource by resource.
        running.update(_pod_level(pod, spec.resources.requests, infeasible=infeasible))
    if spec.overhead:
        _add(running, amounts(spec.overhead))
    totals = [(name, min(total, MAX_INT64)) for name, total in running.items() if total > 0]
    return tuple(sorted(totals))


def _requests(container: Container, statuses: _Statuses, *, infeasible: bool) -> Amounts:
    wanted = container.resources.requests
    status = statuses.get(container.name) if statuses else None
    if status is None or status.resources is None:
        return amounts(wanted)
    return _most(
        wanted, status.resources.requests, status.allocated_resources, infeasible=infeasible
    )


def _most(
    wanted: _Quantities, used: _Quantities, allocated: _Quantities, *, infeasible: bool
) -> Amounts:
    """Return the maximum of each resource. The wanted amounts do not count if infeasible."""
    # The usual case, without a resize, needs one conversion instead of three.
    if wanted == used == allocated:
        return amounts(wanted)
    most = amounts(used)
    _raise(most, amounts(allocated))
    if not infeasible:
        _raise(most, amounts(wanted))
    return most


def _pod_level(pod: Pod, wanted: _Quantities, *, infeasible: bool) -> Amounts:
    """Return the pod-level requests, which replace those of the containers."""
    own = [name for name in wanted if name in _POD_LEVEL or name.startswith(_HUGE_PAGES)]
    if pod.status.resources is None:
        return {name: amount(name, wanted[name]) for name in own}
    used, allocated = pod.status.resources.requests, pod.status.allocated_resources
    most = _most(wanted, used, allocated, infeasible=infeasible)
    return {name: most.get(name, 0) for name in own}


def _infeasible(pod: Pod) -> bool:
    """True if the kubelet has found that the node cannot run the pod as resized."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _add_init_containers(
    running: Amounts,
    init_containers: Iterable[Container],
    statuses: _Statuses,
    *,
    infeasible: bool,
) -> None:
    """Add the sidecars, and raise the requests to those of the init containers."""
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in init_containers:
        if container.restart_policy == "Always":
            _add(sidecars, _requests(container, statuses, infeasible=infeasible))
            _raise(starting, sidecars)
        else:
            requests = amounts(container.resources.requests)
            # Sidecars that were started earlier run next to this one, later ones do not yet.
            _add(requests, sidecars)
            _raise(starting, requests)
    _add(running, sidecars)
    # The start may need more than all containers that run afterwards.
    _raise(running, starting)


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, quantity in more.items():
        total[name] = total.get(name, 0) + quantity


def _raise(total: Amounts, least: Mapping[str, int]) -> None:
    for name, quantity in least.items():
        total[name] = max(total.get(name, 0), quantity)
