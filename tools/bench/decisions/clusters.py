"""Clusters and groups for measurements of the decision core: the same ones every time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.state.state import State
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    ClaimInfo,
    ClaimKey,
    GroupSpec,
    NodeInfo,
    PodInfo,
    Requirements,
    Stage,
    Topology,
    VolumeInfo,
)

GIB = 1 << 30
SMALL = Requirements((("cpu", 1000), ("memory", 10 * GIB)))
LARGE = Requirements((("cpu", 8000), ("memory", 64 * GIB)))
GPU = Requirements((("cpu", 4000), ("memory", 16 * GIB), ("nvidia.com/gpu", 1)))


def cluster(nodes: int, *, cpu: int = 10, racks: int = 50, gpus: int = 0) -> State:
    """Return nodes in racks of equal size, ten racks to a block, ten blocks to a zone."""
    state = State()
    for index in range(nodes):
        rack = index * racks // nodes
        labels = {
            "kubernetes.io/hostname": f"n{index}",
            "rack": f"r{rack:04}",
            "block": f"b{rack // 10:03}",
            "zone": f"z{rack // 100}",
        }
        allocatable: Mapping[str, int] = {
            "cpu": cpu * 1000,
            "memory": 10 * cpu * GIB,
            "pods": 110,
            **({"nvidia.com/gpu": gpus} if gpus else {}),
        }
        state.set_node(NodeInfo(f"n{index}", allocatable, labels))
    return state


def gang(
    state: State,
    name: str,
    size: int,
    *,
    wants: Requirements = SMALL,
    key: str | None = None,
    priority: int = 0,
    parent: str | None = None,
) -> Group:
    topology = Topology(key) if key else None
    spec = GroupSpec((POD_GROUP, "ns", name), size, True, parent, priority, topology=topology)
    state.set_group(spec)
    for index in range(size):
        pod = f"{name}-{index}"
        state.set_pod(PodInfo(pod, "ns", pod, wants, group=name, priority=priority))
    return state.forest.groups[spec.key]


def expecting_gang(
    state: State, name: str, expected: int, *, stages: tuple[int, int] = (0, 0)
) -> Group:
    """Return a gang of a large pod that exists, and pods that do not exist yet.

    Pods of stage 0 run together with those of all other stages.
    """
    first, then = stages
    spec = GroupSpec((POD_GROUP, "ns", name), expected + 1, True, None, 0)
    state.set_group(spec)
    large = replace(LARGE, stage=Stage(first) if first else None)
    state.set_pod(PodInfo(f"{name}-first", "ns", f"{name}-first", large, group=name))
    small = replace(SMALL, stage=Stage(then, exists=False) if then else None)
    for index in range(expected):
        pod = f"{name}-{index}"
        state.set_pod(PodInfo(pod, "ns", pod, small, group=name, expected=True))
    return state.forest.groups[spec.key]


def composite(
    state: State, name: str, children: int, key: str | None = None, parent: str | None = None
) -> Group:
    key_of = (COMPOSITE_POD_GROUP, "ns", name)
    topology = Topology(key) if key else None
    state.set_group(GroupSpec(key_of, children, True, parent, 0, topology=topology))
    return state.forest.groups[key_of]


def full(nodes: int, *, pods: int = 10, size: int = 10, racks: int = 50) -> State:
    """Return a state with every node full of groups of `size`; half of them are single units."""
    state = cluster(nodes, cpu=pods, racks=racks)
    for number in range(nodes * pods // size):
        name, priority = f"v{number}", number % 3
        mode: Literal["all", "single"] = "all" if number % 2 else "single"
        spec = GroupSpec((POD_GROUP, "ns", name), size, priority=priority, disruption=mode)
        state.set_group(spec)
        for member in range(size):
            index = number * size + member
            _run(state, f"{name}-{member}", f"n{index // pods}", name, priority, index)
    return state


def crowded(nodes: int) -> State:
    """Return a state with four single pods on each node, and a little free capacity."""
    state = cluster(nodes, cpu=4)
    victim = Requirements((("cpu", 900), ("memory", GIB)))
    for index in range(4 * nodes):
        info = PodInfo(f"v{index}", "ns", f"v{index}", victim, f"n{index // 4}", phase="Running")
        state.set_pod(replace(info, started=float(index)))
    return state


def preemptor(state: State, number: int, *, volume: bool = False) -> Pod:
    """Return a waiting pod of high priority that needs the capacity of three."""
    name = f"p{number}"
    claims: tuple[ClaimKey, ...] = ()
    if volume:
        claims = (("ns", name),)
        state.volumes.set_claim(ClaimInfo(claims[0], f"pv-{name}", "now"))
        state.volumes.set_volume(VolumeInfo(f"pv-{name}"))
    wants = Requirements((("cpu", 3000), ("memory", GIB)), claims=claims)
    pod = state.set_pod(PodInfo(name, "ns", name, wants, priority=9))
    assert pod is not None
    return pod


def _run(state: State, uid: str, node: str, group: str, priority: int, index: int) -> None:
    run = PodInfo(uid, "ns", uid, SMALL, node, group, priority, phase="Running")
    state.set_pod(replace(run, started=float(index)))
