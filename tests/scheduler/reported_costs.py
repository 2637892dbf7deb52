"""Clusters of gangs of several namespaces that report what their eviction costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, cast

from api.constants import NATIVE_POD_GROUP
from scheduler.core.preemption.plan import Plan
from scheduler.core.values.model import POD_GROUP, GroupSpec, PodInfo, Requirements
from scheduler.core.values.run_protection import RunProtection
from tests.scheduler.preemption_builder import PreemptionBuilder
from tests.scheduler.state_builder import requests

NOW: Final = 1_000_000.0
WINDOW: Final = 3_600.0
NATIVE: Final = NATIVE_POD_GROUP.full_kind


@dataclass(frozen=True, slots=True)
class Gang:
    """A running gang with a pod on each of its nodes; with an `extra`, its last pod is one."""

    namespace: str = "ns"
    cost: int = 0
    checkpoint: float = 0.0
    preempted: tuple[int, float] = (0, 0.0)
    started: float = 1.0
    pods: int = 1
    cpu: int = 1
    priority: int = 0
    mode: str = "all"
    kind: str = POD_GROUP
    extra: bool = False


def cluster(gangs: Sequence[Gang], *, rack_of: int = 1) -> PreemptionBuilder:
    """Let the gangs run as g0, g1, ..., on full nodes of their own."""
    builder = PreemptionBuilder()
    builder.state.units.protection = RunProtection(NOW, window=WINDOW)
    at = 0
    for number, gang in enumerate(gangs):
        name = f"g{number}"
        builder.state.set_group(_spec(gang, name))
        pods = gang.pods + gang.extra
        for _ in range(pods):
            builder.node(f"n{at}", cpu=gang.cpu, labels={"rack": f"r{at // rack_of}"})
            _run(builder, gang, name, f"n{at}")
            at += 1
    return builder


def _spec(gang: Gang, name: str) -> GroupSpec:
    return GroupSpec(
        (gang.kind, gang.namespace, name),
        gang.pods,
        priority=gang.priority,
        disruption=cast("Literal['single', 'all']", gang.mode),
        eviction_cost=gang.cost,
        checkpoint=gang.checkpoint,
        preempted=gang.preempted,
        shared=gang.kind == NATIVE,
    )


def _run(builder: PreemptionBuilder, gang: Gang, group: str, node: str) -> None:
    builder._serial += 1
    name = f"v{builder._serial:05}"
    builder.state.set_pod(
        PodInfo(
            f"uid-{name}", gang.namespace, name, Requirements(requests(gang.cpu)), node, group,
            gang.priority, phase="Running", started=gang.started, group_kind=gang.kind,
            created=name,
        )
    )  # fmt: skip


def set_checkpoint(builder: PreemptionBuilder, group: str, moment: float) -> None:
    """Let the first pod of a gang report a checkpoint."""
    info = min(
        (pod.info for pod in builder.state.pods.values() if pod.info.group == group),
        key=lambda info: info.name,
    )
    builder.state.set_pod(replace(info, preemption=replace(info.preemption, checkpoint=moment)))


def victims(builder: PreemptionBuilder, *, pods: int, cpu: int = 1) -> set[str]:
    """Return the groups whose pods are evicted for a gang of so many pods."""
    if "high" not in {key[2] for key in builder.state.forest.groups}:
        builder.group("high", pods, priority=5)
    builder.waits("high", pods, cpu=cpu, priority=5)
    plan = builder.preempt("high")
    assert isinstance(plan, Plan), plan
    return {pod.info.group or "" for pod in plan.pods}
