"""Quantities as integers, for the fit check of a kubelet."""

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING
from functools import lru_cache

from localcluster.base.quantity import parse
from localcluster.controllers.base.objects import Obj

Amounts = dict[str, int]  # resource name -> millicores for cpu, whole units for the rest


def amounts(quantities: Mapping[str, str | int]) -> Amounts:
    """Convert quantities to integers, rounded up: cpu in millicores, the rest in whole units."""
    return {name: _whole(one, 1000 if name == "cpu" else 1) for name, one in quantities.items()}


@lru_cache(maxsize=4096)
def _whole(quantity: str | int, factor: int) -> int:
    return int((parse(quantity) * factor).to_integral_value(ROUND_CEILING))


def total(parts: Iterable[Amounts]) -> Amounts:
    """Return the sum, resource by resource."""
    added: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            added[name] = added.get(name, 0) + amount
    return added


def highest(parts: Iterable[Amounts]) -> Amounts:
    """Return the maximum, resource by resource."""
    top: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            top[name] = max(top.get(name, 0), amount)
    return top


def pod_requests(pod: Obj) -> Amounts:
    """Return the resources that a pod uses on a node, including the pod itself (resource "pods").

    Containers and sidecars add up. An init container needs its own request in addition to the
    sidecars started before it. The larger of both counts, plus the overhead.
    """
    spec = pod["spec"]
    sidecars: list[Amounts] = []
    peaks: list[Amounts] = []
    for container in spec.get("initContainers") or []:
        own = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars.append(own)
        else:
            peaks.append(total([own, *sidecars]))
    running = total([*map(_container_requests, spec.get("containers") or []), *sidecars])
    needed = highest([running, *peaks])
    level = amounts((spec.get("resources") or {}).get("requests") or {})
    return total([{**needed, **level}, amounts(spec.get("overhead") or {}), {"pods": 1}])


def _container_requests(container: Obj) -> Amounts:
    return amounts((container.get("resources") or {}).get("requests") or {})
