"""The roots whose gangs a preemption disrupts."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.state.units import Unit, Units


def disrupted_roots(units: Units, victims: Iterable[Unit]) -> list[Group]:
    """Return the roots, once each, that have an object and lose pods which a gang of theirs needs.

    Pods beyond the minCount of a gang, pods of basic groups and held places do not count.
    """
    found = dict.fromkeys(
        pod.group.top
        for unit in victims
        for pod in unit.pods.values()
        if pod.group is not None and _disrupts(units, unit, pod)
    )
    return [root for root in found if root.spec is not None and not root.of_others]


def _disrupts(units: Units, unit: Unit, pod: Pod) -> bool:
    """Return True if the eviction of the pod with its unit disrupts its gang."""
    if pod.info.expected:
        return False
    if unit.group is not None:
        return True
    spec = pod.group.spec if pod.group is not None else None
    return spec is not None and spec.gang and not units.is_extra(pod.info.uid)
