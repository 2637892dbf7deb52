"""Reasons why no pod of a workload fits a node now, from the scheduler's own filters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from api.wording import count
from console.base.messages import Why
from console.base.protocols import RefusedError
from console.state.state import ClusterState
from console.views.cluster_map import unit_of
from console.views.workload import Subject
from scheduler.core.decide import decide
from scheduler.core.explain.domain_capacity import domains
from scheduler.core.groups.forest import Group, Pod, topology_keys_around
from scheduler.core.nodes.resource_table import BY_DEVICES
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.place import Refusal
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey

MOST_SHAPES: Final = 8
"""Shapes of one workload's pods that are checked."""

_GIB: Final = 1 << 30


def why(cluster: ClusterState, subject: Subject, node: str) -> Why:
    """Return whether any of its pods fits the node, with reasons for the others.

    It checks the pods that wait. If none waits, it checks one more pod like those that run. Raises
    RefusedError.
    """
    state = cluster.state
    row = state.nodes.row_of.get(node)
    if row is None:
        raise RefusedError(404, "The node was not found.")
    pods = _samples(subject.pods())
    if not pods:
        raise RefusedError(404, "The workload has no pods yet.")
    fits, reasons = False, []
    for pod in pods:
        found = list(_against(state, _root(pod), pod, row))
        fits = fits or not found
        words = f"{pod.info.name}: " if len(pods) > 1 else ""
        reasons += [f"{words}{reason}" for reason in found]
    for group in subject.groups:
        reasons += _of_domain(cluster, group.top, row)
    return Why(node=node, fits=fits, reasons=list(dict.fromkeys(reasons)))


def _samples(pods: Iterable[Pod]) -> list[Pod]:
    """Return one pod of each shape: from those that wait, or if there are none, from the others."""
    waiting: dict[Shape, Pod] = {}
    others: dict[Shape, Pod] = {}
    for pod in pods:
        (waiting if pod.waiting else others).setdefault(pod.shape, pod)
    return list((waiting or others).values())[:MOST_SHAPES]


def _root(pod: Pod) -> tuple[GroupKey, int]:
    """Return key and priority of the pod's root."""
    if pod.group is None:
        return pod.key, pod.priority
    top = pod.group.top
    return top.key, top.priority


def _against(state: State, root: tuple[GroupKey, int], pod: Pod, row: int) -> Iterator[str]:
    """Yield the reasons against one more such pod on this node; none if it fits."""
    framework, shape = state.framework, pod.shape
    rows = np.array([row], np.int64)
    free = int(framework.slots_in(shape, rows)[0])
    if free:
        # It fits without respect to nominations, so only these can still exclude it.
        with state.nodes.trial(), state.nominations.respected(*root):
            if int(framework.slots_in(shape, rows)[0]) <= 0:
                yield "its free capacity is nominated for pods of the same or a higher priority"
        return
    code = int(framework.node_codes(shape)[row])
    if code:
        yield shape.reasons[code]
        return
    if int(framework.capacity(shape)[row]) <= 0:
        yield from _insufficient(state, shape, row)
    if shape.filter_match_ids:
        code = int(framework.pod_codes(shape)[row])
        if code:
            yield shape.reasons[code]


def _insufficient(state: State, shape: Shape, row: int) -> Iterator[str]:
    """Yield the insufficient resources, ports, disks and devices, with numbers if there are any."""
    framework = state.framework
    capacity = framework.capacity(shape)
    numbers = dict(_numbers(state, shape, row))
    for reason, mask in framework.insufficient(shape, capacity):
        if mask[row]:
            yield f"{reason}{numbers.get(reason, '')}"


def _numbers(state: State, shape: Shape, row: int) -> Iterator[tuple[str, str]]:
    nodes = state.nodes
    names = nodes.resources.names
    for index, wanted in shape.request.demands:
        free = int(nodes.free[index, row])
        if int(nodes.allocatable[index, row]) != BY_DEVICES:
            name = names[index]
            reason = "Too many pods" if name == "pods" else f"Insufficient {name}"
            yield reason, f": {_amount(name, wanted)} requested, {_amount(name, max(free, 0))} free"


def _amount(resource: str, amount: int) -> str:
    unit = unit_of(resource)
    if unit == "milli":
        return f"{amount / 1000:g}"
    return f"{amount / _GIB:.4g} GiB" if unit == "bytes" else str(amount)


def _of_domain(cluster: ClusterState, root: Group, row: int) -> Iterator[str]:
    """Yield the reason if the root needs one domain, and that of the node is too small."""
    state = cluster.state
    if not (root.to_be_decided and state.forest.ready(root)):
        return
    outcome = decide(state, root, cluster.budget())
    if not isinstance(outcome, Refusal) or outcome.shortage.best is None:
        return
    key = outcome.shortage.best.key
    outer = topology_keys_around(state.forest.groups.get(outcome.shortage.at), key)
    places = state.topologies.of_groups(key, outer)
    code = int(places.codes[row])
    needed = count(outcome.shortage.needed, "pod")
    if code < 0:
        yield f"it is in no domain of {key}, and {needed} must be in one"
        return
    for each in domains(state, root, outcome):
        if each.value == places.paths[code] and each.free < outcome.shortage.needed:
            yield (
                f"{key}={each.value} has capacity for {each.free} of the {needed} that need"
                " one domain"
            )
