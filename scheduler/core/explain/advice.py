"""A shortage in one sentence: how much is short, why, on how many nodes, and what to change."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.core.explain.device_advice import DeviceAdvice
from scheduler.core.framework import (
    inter_pod_affinity,
    node_affinity,
    node_name,
    node_resources_fit,
    node_volume_limits,
    pod_topology_spread,
    taint_toleration,
    volume_binding,
    volume_restrictions,
)
from scheduler.core.framework.framework import Framework
from scheduler.core.nodes.resource_table import PODS
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.shortage import Shortage
from scheduler.core.values.model import Requirements
from scheduler.core.values.wording import count
from scheduler.core.volumes import volume_zone

_SHOWN: Final = 3
"""How many reasons the sentence names; `status.blocker.counts` has all of them."""

_WAIT: Final = "it starts once there is room"
"""Where nothing has to be changed."""

_DEVICES: Final = "ask for fewer devices or others, or add nodes that have such"

_VOLUMES: Final = {
    volume_binding.UNBOUND: "bind the claims, or give them a storageClassName that makes volumes",
    volume_binding.LOST: (
        "its claims name volumes that are gone: bring those back, or make new claims"
    ),
    volume_binding.NODE_AFFINITY: (
        "its volumes are used on other nodes: make room there, or use other claims"
    ),
    volume_binding.NO_VOLUME: "make volumes for its claims that such nodes can use",
    volume_zone.REASON: "its volumes are in other zones: make room there, or use other claims",
    node_volume_limits.REASON: "add nodes, or use fewer volumes for each pod",
    volume_restrictions.REASON: (
        "end the pod that uses the claim, or make a claim that several pods may use"
    ),
}


def sentence(
    framework: Framework,
    shape: Shape,
    short: Shortage,
    counts: tuple[tuple[str, int], ...],
    *,
    impossible: bool,
) -> str:
    """For example: needs room for 4 more pods, there is room for 1: cpu short on 3 of 3 nodes."""
    total = len(framework.nodes.row_of)
    best = short.best
    where = f" in the best {best.key} ({best.value})" if best else ""
    pods = count(short.needed, "more pod")
    beside = f" beside the {count(short.beside, 'pod')} placed with it" if short.beside else ""
    text = f"needs room for {pods}, there is room for {short.free}{where}{beside}"
    if not total:
        return f"{text}: there are no nodes; add some"
    if counts:
        text += ": " + ", ".join(_on(reason, at, total) for reason, at in counts[:_SHOWN])
    devices = (
        DeviceAdvice(framework, shape, short).words() if shape.requirements.needs_devices else ""
    )
    if devices:
        text += f"; {devices}"
    advice = _advice(framework, shape, short, counts[0][0] if counts else "", impossible=impossible)
    if impossible:
        text += "; impossible even if the cluster were empty"
        advice = _DEVICES if devices else advice
    return f"{text}; {advice or _WAIT}"


def about_volumes(reason: str) -> bool:
    """Whether the reason only goes away if claims or volumes change."""
    return (
        reason in _VOLUMES
        or volume_binding.is_short(reason)
        or reason.startswith(volume_binding.CLAIM)
    )


def _on(reason: str, at: int, nodes: int) -> str:
    return f"{_words(reason)} on {at} of {count(nodes, 'node')}"


def _words(reason: str) -> str:
    if reason == node_resources_fit.TOO_MANY_PODS:
        return "pods short"
    if reason.startswith(node_resources_fit.INSUFFICIENT):
        return f"{reason.removeprefix(node_resources_fit.INSUFFICIENT)} short"
    return reason.removeprefix("node(s) ")


def _advice(
    framework: Framework, shape: Shape, short: Shortage, reason: str, *, impossible: bool
) -> str:
    """The one thing to change; empty if waiting is enough."""
    if reason in _VOLUMES:
        return _VOLUMES[reason]
    if volume_binding.is_short(reason):
        return "add volumes of that class where these pods fit, or ask for less"
    about_others = _about_others(shape.requirements, reason)
    if about_others:
        return about_others
    if not impossible:
        return ""
    if not framework.permitted(shape).any():
        return _other_nodes(framework, shape, reason)
    empty = framework.empty_room(shape)
    most = int(framework.most(shape, empty)[0])
    if not most:
        return _too_large(framework, shape)
    if short.best is not None:
        return f"lower minCount, ask for less, or let it span more than one {short.best.key}"
    return f"at most {count(most, 'pod')} of this kind fit: lower minCount or add nodes"


def _about_others(wants: Requirements, reason: str) -> str:
    """Advice for a reason that comes from other pods; empty for other reasons."""
    if reason.startswith(volume_restrictions.NO_DISK):
        return "end the pods that use the disk there, give each pod a disk of its own, or add nodes"
    if reason == inter_pod_affinity.ANTI_AFFINITY:
        keys = ", ".join(sorted({term.key for term in wants.required_anti_affinity}))
        return f"its pods must be apart by {keys}: lower minCount, or add nodes"
    if reason == pod_topology_spread.REASON:
        keys = ", ".join(f"{s.key} (maxSkew {s.max_skew})" for s in wants.spread)
        return f"its pods must be spread over {keys}: raise maxSkew, or add nodes where fewest are"
    if reason == inter_pod_affinity.AFFINITY:
        keys = ", ".join(sorted({term.key for term in wants.required_affinity}))
        return f"its pods must be near others by {keys}: make room where those are, or start them"
    if reason == inter_pod_affinity.EXISTING_ANTI_AFFINITY:
        return "pods that run there keep its pods away: end them, or change their anti-affinity"
    if reason == pod_topology_spread.MISSING_LABEL:
        keys = ", ".join(sorted({spread.key for spread in wants.spread}))
        return f"its pods are spread over {keys}: label the nodes so, or correct the topologyKey"
    return ""


def _other_nodes(framework: Framework, shape: Shape, reason: str) -> str:
    """Advice if the node filters exclude all nodes; about those that match the node affinity."""
    nodes = framework.nodes
    admitted = node_affinity.admits(shape, nodes)
    there = nodes.node_class[: nodes.size] >= 0
    rows = there if admitted is None else there & admitted
    found = np.unique(nodes.node_class[: nodes.size][rows])
    chosen = [nodes.classes.all[index] for index in found.tolist()]
    if not chosen:
        return "change the node selector or affinity, or label a node"
    # A cordoned node also has a taint, which nobody is to tolerate.
    open_nodes = [node for node in chosen if not node.unschedulable]
    if not open_nodes:
        return "uncordon a node"
    taints = [taint_toleration.untolerated(shape.requirements, node) for node in open_nodes]
    if all(taints):
        return f"add a toleration for {taints[0]}, or remove the taint"
    if reason == node_name.REASON:
        return "name another node, or none"
    return "change what keeps its pods off these nodes, or add others"


def _too_large(framework: Framework, shape: Shape) -> str:
    """Advice if no permitted node has room for a pod even when it is empty."""
    rows = np.flatnonzero(framework.permitted(shape))
    nodes = framework.nodes
    names = nodes.resources.names
    for resource, amount in shape.demands:
        largest = int(nodes.allocatable[resource][rows].max())
        name = names[resource]
        if largest < amount and name != PODS:
            return (
                f"ask for less {name}: a pod wants {_amount(name, amount)},"
                f" the largest node it may use has {_amount(name, largest)}"
            )
    return "no node has all that a pod asks for: ask for less"


def _amount(resource: str, amount: int) -> str:
    """Cpu in cores, bytes in the largest binary unit, to four digits; else the plain number."""
    if resource == "cpu":
        return f"{amount / 1000:g}"
    if resource in ("memory", "ephemeral-storage"):
        for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if amount >= size:
                return f"{amount / size:.4g}{unit}"
    return str(amount)
