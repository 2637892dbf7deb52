"""Resource requests of a pod, in the units of the decision core.

Requests follow kube-scheduler: the sum of all containers and sidecars, or the largest init
container with the sidecars started before it if that is more; or pod-level requests; plus overhead.
While a pod is resized in place, each resource counts as the maximum of the spec, the kubelet's
allocation and the usage: of their totals over all containers since Kubernetes 1.37, before that for
each container. The spec does not count while the resize is infeasible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Final

from kube.client.quantity import MAX_INT64, parse_milli, parse_value
from scheduler.core.values.model import NEWEST_RELEASE, Release
from scheduler.decoding.objects import Container, ContainerStatus, Pod, PodSpec

Amounts = dict[str, int]
_Quantities = Mapping[str, str | int]
_Statuses = dict[str, ContainerStatus]

_SUMS: Final = (1, 37)
"""Release since which kube-scheduler compares totals of all containers."""

_POD_LEVEL: Final = ("cpu", "memory")
_ASSUMED: Final = {"cpu": 100, "memory": 200 << 20}
_HUGE_PAGES: Final = "hugepages-"


# The same few quantities occur in all pods of a cluster.
@lru_cache(maxsize=4096)
def amount(resource: str, quantity: str | int) -> int:
    """Return a quantity in milli for cpu, in whole units otherwise. Raises QuantityError."""
    return parse_milli(quantity) if resource == "cpu" else parse_value(quantity)


def amounts(quantities: _Quantities) -> Amounts:
    """Return a resource list in the core's units."""
    return {resource: amount(resource, q) for resource, q in quantities.items()}


def pod_requests(pod: Pod, release: Release = NEWEST_RELEASE) -> tuple[tuple[str, int], ...]:
    """Return the requests of the pod as kube-scheduler of this release counts them.

    Sorted by resource, without zeros. As upstream, a total that an int64 cannot hold is cut off.
    """
    spec, status = pod.spec, pod.status
    statuses: _Statuses = {}
    # Only running pods have statuses: the map is not built for each pending pod.
    if status.container_statuses or status.init_container_statuses:
        statuses = _of_resized(pod)
    # Only a kubelet finds a resize infeasible, so other pods' conditions are not read.
    infeasible = bool(statuses or status.resources) and _infeasible(pod)
    if not statuses:
        running = _total(spec, _wanted)
    elif release < _SUMS:
        # What other init containers use does not count yet.
        for container in spec.init_containers:
            if container.restart_policy != "Always":
                statuses.pop(container.name, None)
        running = _total(
            spec, partial(_most_of_container, statuses=statuses, infeasible=infeasible)
        )
    else:
        running = _most_of_sums(spec, statuses, infeasible=infeasible)
    if spec.resources is not None:
        # Pod-level requests replace the containers' requests, resource by resource.
        running.update(_pod_level(pod, spec.resources.requests, infeasible=infeasible))
    if spec.overhead:
        _add(running, amounts(spec.overhead))
    totals = [(name, min(total, MAX_INT64)) for name, total in running.items() if total > 0]
    return tuple(sorted(totals))


def assumed_requests(spec: PodSpec) -> tuple[int, int]:
    """Return the cpu (milli) and memory (bytes) that LeastAllocated adds for missing requests.

    It counts 100m and 200 MiB for each container that does not request the resource, unless the pod
    requests it as a whole.
    """
    # Most containers request both.
    every = (*spec.containers, *spec.init_containers)
    if all(_ASSUMED.keys() <= each.resources.requests.keys() for each in every):
        return (0, 0)
    written, filled = _total(spec, _wanted), _total(spec, _filled)
    own = spec.resources.requests if spec.resources is not None else {}
    cpu, memory = (
        0 if name in own else filled.get(name, 0) - written.get(name, 0) for name in _POD_LEVEL
    )
    return cpu, memory


def _filled(container: Container) -> Amounts:
    return _ASSUMED | _wanted(container)


def _of_resized(pod: Pod) -> _Statuses:
    """Return the statuses of all containers by name; none if no container is being resized."""
    status = pod.status
    statuses = {it.name: it for it in (*status.container_statuses, *status.init_container_statuses)}
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        known = statuses.get(container.name)
        if known is None or (known.resources is None and not known.allocated_resources):
            continue
        wanted, used = container.resources.requests, known.resources
        if used is None or not wanted == used.requests == known.allocated_resources:
            return statuses
    return {}


def _total(spec: PodSpec, requests_of: Callable[[Container], Amounts]) -> Amounts:
    """Return what a pod requests whose containers request these amounts."""
    running: Amounts = {}
    for container in spec.containers:
        _add(running, requests_of(container))
    if spec.init_containers:
        _add_init_containers(running, spec.init_containers, requests_of)
    return running


def _most_of_sums(spec: PodSpec, statuses: _Statuses, *, infeasible: bool) -> Amounts:
    """Return the maximum of the totals that are wanted, allocated and in use (since 1.37)."""
    most = _total(spec, partial(_allocated, statuses=statuses, infeasible=infeasible))
    _raise(most, _total(spec, partial(_used, statuses=statuses, infeasible=infeasible)))
    if not infeasible:
        _raise(most, _total(spec, _wanted))
    return most


def _wanted(container: Container) -> Amounts:
    return amounts(container.resources.requests)


def _allocated(container: Container, *, statuses: _Statuses, infeasible: bool) -> Amounts:
    status = statuses.get(container.name)
    if status is not None and status.allocated_resources:
        return amounts(status.allocated_resources)
    return {} if infeasible else _wanted(container)


def _used(container: Container, *, statuses: _Statuses, infeasible: bool) -> Amounts:
    status = statuses.get(container.name)
    if status is not None and status.resources is not None and status.resources.requests:
        return amounts(status.resources.requests)
    return _allocated(container, statuses=statuses, infeasible=infeasible)


def _most_of_container(container: Container, *, statuses: _Statuses, infeasible: bool) -> Amounts:
    """Return the maximum for one container, as before 1.37."""
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return _wanted(container)
    wanted, used = container.resources.requests, status.resources.requests
    return _most(wanted, used, status.allocated_resources, infeasible=infeasible)


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
    requests_of: Callable[[Container], Amounts],
) -> None:
    """Add the sidecars, and raise the requests to those of the init containers."""
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in init_containers:
        requests = dict(requests_of(container))
        if container.restart_policy == "Always":
            _add(sidecars, requests)
            _raise(starting, sidecars)
        else:
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
