"""Sentences of a refusal: why no node is available, what the group needs, what to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from scheduler.core.explain.device_advice import DeviceAdvice
from scheduler.core.explain.empty_nodes import EACH, Excess
from scheduler.core.framework import (
    node_affinity,
    node_name,
    taint_toleration,
)
from scheduler.core.framework.framework import Framework
from scheduler.core.groups.forest import Group
from scheduler.core.nodes.resource_table import PODS
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.shortage import Shortage
from scheduler.core.values.group_source import lower_minimum
from scheduler.core.values.model import SINGLE_POD
from scheduler.core.values.wording import count, sentence

SHOWN_REASONS: Final = 10
"""Limit of reasons that a message lists; `status.blocker.counts` has all of them."""

_WAIT: Final = "it starts when this capacity is free"
"""Advice if the group only has to wait."""

_SLICES: Final = "use a smaller slice-size, request less, or use another slice-topology"
"""Advice if a slice does not fit any domain, even an empty one."""

_DEVICES: Final = "request fewer or other devices, or add nodes that have them"
"""Advice if even empty nodes do not have the devices."""


def available(nodes: int, counts: Sequence[tuple[str, int]], rejected: str = "") -> str:
    """Return kube-scheduler's sentence about the nodes, as its FitError builds it.

    For example: `0/5 nodes are available: 3 Insufficient cpu, 2 Too many pods.` A pod that is
    `rejected` before any node is checked has that reason alone, without a number of nodes.
    """
    # kube-scheduler's ErrNoNodesAvailable: without nodes there are no reasons to count.
    if not nodes:
        return "no nodes available to schedule pods."
    if rejected:
        return f"0/{nodes} nodes are available: {rejected}."
    # Taints, claims and resources have any number of names, so there may be hundreds of reasons.
    found = [f"{number} {reason}" for reason, number in counts[:SHOWN_REASONS]]
    if len(counts) > SHOWN_REASONS:
        found.append(f"and {count(len(counts) - SHOWN_REASONS, 'other reason')}")
    return f"0/{nodes} nodes are available{': ' * bool(found)}{', '.join(found)}."


def need(short: Shortage) -> str:
    """Return how many pods need capacity and how many of them fit; empty for a single pod."""
    if short.at[0] == SINGLE_POD:
        return ""
    free = f"{short.free} fit{'s' if short.free == 1 else ''}"
    where = ""
    # With a topology constraint, free capacity of all domains together does not help the group.
    if best := short.best:
        where, free = f" in one {best.key}", f"{free} in {best.value}, the best one"
    if short.minimum or short.part:
        who = short.part or "the group"
        who = who if short.minimum else f"{who}, beyond the minimum,"
        text = f"{who} needs capacity for {count(short.needed, 'more pod')}{where}; {free}"
    else:
        verb = "needs" if short.needed == 1 else "need"
        pods = count(short.needed, "pod")
        text = f"{pods} beyond the minimum {verb} capacity{where}; {free}"
    if placed := " and ".join(_placed(short)):
        text = f"with {placed} placed, {text}"
    return sentence(text)


def _placed(short: Shortage) -> Iterator[str]:
    """Yield the pods next to which the group was tried."""
    if short.siblings:
        names = " and ".join(f'{kind} "{name}"' for kind, _, name in short.siblings)
        yield f"the {count(short.beside, 'pod')} of {names}"
    elif short.beside:
        yield f"the other {count(short.beside, 'pod')} of its tree"
    if short.own:
        yield f"its other {count(short.own, 'pod')}"


def change(
    framework: Framework,
    shape: Shape,
    short: Shortage,
    reason: str,
    *,
    group: Group | None,
    missing: Excess | None,
) -> str:
    """Return which devices are missing, if any, and the one change that helps.

    `reason` is the most frequent one.
    """
    wants = shape.needs_devices
    devices = DeviceAdvice(framework, shape, short).message() if wants else ""
    advice = _advice(framework, shape, short, reason, group=group, missing=missing)
    if missing is not None:
        advice = f"waiting does not help: {_DEVICES if devices else advice}"
    return " ".join(sentence(text) for text in (devices, advice or _WAIT) if text)


def _advice(
    framework: Framework,
    shape: Shape,
    short: Shortage,
    reason: str,
    *,
    group: Group | None,
    missing: Excess | None,
) -> str:
    """Return the one change that helps; empty if waiting is enough."""
    of_plugin = framework.advice(shape, reason)
    if of_plugin:
        return of_plugin
    if missing is None:
        return ""
    # Node filters first: as long as they exclude all nodes, a smaller group does not fit either.
    if not framework.permitted(shape).any():
        return _other_nodes(framework, shape, reason)
    empty = framework.empty_capacity(shape)
    most = int(framework.most(shape, empty)[0])
    if not most:
        return _too_large(framework, shape)
    spec = group.spec if group is not None else None
    if short.part and not missing.tree:
        return _SLICES
    if missing.tree or missing.resource:
        return _together(missing, lower_minimum(None if missing.tree else spec))
    if short.best is not None:
        where = short.best.key
        return f"{lower_minimum(spec)}, request less, or let the group span more than one {where}"
    minimum = to = None
    # With several shapes it is unknown how many of each a lower minCount would start.
    if group is not None and len(group.pending) == 1 and not group.composite:
        minimum = group.minimum
    # minCount includes the pods that run already, so these are added to the pods that would fit.
    if minimum is not None and short.minimum:
        to = minimum - short.needed + most
    lower = lower_minimum(spec, to)
    fit = f"at most {count(most, 'such pod')} fit{'s' * (most == 1)} on empty nodes"
    return f"{fit}. {lower[0].upper()}{lower[1:]}, or add nodes"


def _together(missing: Excess, lower: str) -> str:
    """Return the advice if the pods fit one by one, and never all of them."""
    whose = "of the tree" if missing.tree else "that it needs"
    pods, key = count(missing.pods, "pod"), missing.key
    largest = f"the largest {key}, {missing.domain}"
    if missing.resource == EACH:
        said = f"no {key} has all that the {pods} {whose} request"
    elif name := missing.resource:
        needed, most = _amount(name, missing.needed), _amount(name, missing.most)
        where = f"{largest}, has" if missing.domain else "all nodes have"
        said = f"the {pods} {whose} request {needed} {name}, and {where} {most}"
    else:
        where = f"in {largest}" if missing.domain else "on empty nodes"
        room = f"at most {count(missing.most, 'such pod')} fit{'s' * (missing.most == 1)}"
        said = f"the tree needs {pods} like this, and {room} {where}"
    # A tree may also start with fewer groups.
    change = lower.replace("minCount", "minCount or minGroupCount", 1) if missing.tree else lower
    other = f"let it span more than one {key}" if key else "add nodes"
    return f"{said}. {change[0].upper()}{change[1:]}, request less, or {other}"


def _other_nodes(framework: Framework, shape: Shape, reason: str) -> str:
    """Return the advice if node filters exclude all nodes.

    It is about the nodes that match the pod's node selector and affinity, if there are any.
    """
    nodes = framework.nodes
    admitted = node_affinity.admits(shape, nodes)
    # Vacant rows of the table have a negative class.
    there = nodes.node_class[: nodes.size] >= 0
    rows = there if admitted is None else there & admitted
    # By class: taints of 50,000 nodes, read one by one in Python, would take too long.
    found = np.unique(nodes.node_class[: nodes.size][rows])
    chosen = [nodes.classes.all[index] for index in found.tolist()]
    if not chosen:
        return "change the node selector or affinity, or label a node"
    # The node controller also taints a cordoned node. To tolerate this taint would be bad advice.
    open_nodes = [node for node in chosen if not node.unschedulable]
    if not open_nodes:
        return "uncordon a node"
    taints = [taint_toleration.untolerated(shape.requirements, node) for node in open_nodes]
    # A node whose taints are all tolerated is excluded by another constraint.
    if all(taints):
        return f"add a toleration for {taints[0]}, or remove the taint"
    if reason == node_name.REASON:
        return "correct the requested node name, or remove it"
    return "change the constraint that excludes these nodes, or add other nodes"


def _too_large(framework: Framework, shape: Shape) -> str:
    """Return the advice if a pod does not fit any permitted node, even an empty one."""
    rows = np.flatnonzero(framework.permitted(shape))
    nodes = framework.nodes
    names = nodes.resources.names
    # The first resource that exceeds every node. Without one, different nodes lack different ones.
    for resource, amount in shape.request.demands:
        largest = int(nodes.allocatable[resource][rows].max())
        name = names[resource]
        if largest < amount and name != PODS:
            return (
                f"a pod requests {_amount(name, amount)} {name}, and the largest node that it can"
                f" use has {_amount(name, largest)}. Request less"
            )
    return "no node has all resources that a pod requests. Request less"


def _amount(resource: str, amount: int) -> str:
    """Format CPU in cores, bytes in the largest binary unit to four digits, the rest as it is."""
    if resource == "cpu":
        return f"{amount / 1000:g}"
    if resource in ("memory", "ephemeral-storage"):
        for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if amount >= size:
                return f"{amount / size:.4g}{unit}"
    return str(amount)
