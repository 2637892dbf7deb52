"""The life cycle of a job and its pods: waiting, placed, leaving; and when the job runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from analysis.lab.clock import VirtualClock
from analysis.lab.trace import Job, Topology
from analysis.lab.variants import Variant
from kube.base.clock import rfc3339
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    GroupKey,
    GroupSpec,
    PodInfo,
    PreemptionInfo,
    Requirements,
)
from scheduler.core.values.model import Topology as TopologyConstraint

SCHEDULER = "muster"


@dataclass(frozen=True, slots=True)
class Start:
    """The time when a job began to run, with the nodes of each gang's pods at that time."""

    time: float
    nodes: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class Life:
    """One job. `round` counts how often its pods were created, `remaining` is the work in seconds.

    `groups` are its groups that exist, parents first. `placed` are the nodes of its pods by UID,
    `gangs` the number of placed pods of each gang. `whole_since` is when it began to run, None
    while it does not. `stopped` means that it ran and that all of its pods will be recreated.
    `pods_created` counts the pods of this round. `starts` are the times at which it began, `stops`
    those at which it was evicted while it ran. `confined` is true if it first ran in one domain of
    its topology key; None if it has no key, or never ran.
    """

    job: Job
    requirements: Requirements
    remaining: float
    round: int = 0
    groups: list[GroupKey] = field(default_factory=list)
    pods: dict[str, PodInfo] = field(default_factory=dict)
    placed: dict[str, str] = field(default_factory=dict)
    gangs: list[int] = field(default_factory=list)
    leaving: set[str] = field(default_factory=set)
    partial_since: float | None = None
    whole_since: float | None = None
    first_placed: float | None = None
    ended: float | None = None
    starts: list[Start] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)
    given_up: int = 0
    stopped: bool = False
    pods_created: int = 0
    confined: bool | None = None

    @property
    def started(self) -> float | None:
        """The time when it first ran."""
        return self.starts[0].time if self.starts else None

    @property
    def is_complete(self) -> bool:
        """True if enough of its pods are placed for it to run."""
        least = self.job.least_pods
        return sum(count >= least for count in self.gangs) >= self.job.least_replicas

    def place(self, uid: str, node: str) -> None:
        """Record that the pod is bound."""
        self.placed[uid] = node
        self.gangs[gang_of(uid)] += 1

    def unplace(self, uid: str) -> str:
        """Record that the pod is deleted; return its node."""
        self.gangs[gang_of(uid)] -= 1
        return self.placed.pop(uid)

    def begin(self, now: float) -> None:
        """Record that it runs from now on."""
        nodes: list[list[str]] = [[] for _ in self.gangs]
        for uid, node in self.placed.items():
            nodes[gang_of(uid)].append(node)
        self.starts.append(Start(now, tuple(map(tuple, nodes))))
        self.partial_since, self.whole_since = None, now

    def saved(self, done: float) -> float:
        """Return the seconds up to its last checkpoint, of those since it began to run."""
        step = self.job.checkpoint
        return math.floor(done / step) * step if step else 0.0


def gang_of(uid: str) -> int:
    """Return the index of the pod's gang in its job."""
    return int(uid.rsplit("/", 2)[1])


def life_of(job: Job) -> Life:
    """Return a job that has not arrived yet."""
    return Life(job, Requirements(job.requests), job.duration, gangs=[0] * job.replicas)


def groups_of(life: Life, variant: Variant, clock: VirtualClock) -> list[GroupSpec]:
    """Return the groups of the job, parents first; none if pods are scheduled one by one."""
    job = life.job
    if variant.order == "one-by-one":
        return []
    created = rfc3339(clock.now())
    priority = job.priority if variant.priorities else 0
    root = _constraint(job.topology, job.key, variant)
    gang = _constraint(job.gang_topology, job.gang_key, variant)
    tree = job.replicas > 1
    specs = []
    if tree:
        specs.append(
            GroupSpec(
                (COMPOSITE_POD_GROUP, job.namespace, job.name),
                job.least_replicas,
                priority=priority,
                topology=root,
                disruption=job.disruption,
                created=created,
            )
        )
    names = [gang_name(job, index) for index in range(job.replicas)]
    specs += [
        GroupSpec(
            (POD_GROUP, job.namespace, name),
            job.least_pods,
            parent=job.name if tree else None,
            priority=priority,
            topology=gang or (None if tree else root),
            disruption=job.disruption,
            created=created,
        )
        for name in names
    ]
    return specs


def gang_name(job: Job, index: int) -> str:
    """Return the name of the PodGroup of one of its gangs."""
    return job.name if job.replicas == 1 else f"{job.name}-{index}"


def new_pods(life: Life, variant: Variant, clock: VirtualClock) -> list[PodInfo]:
    """Return all pods of the job's next round, waiting. Their UID is job/round/gang/index."""
    life.round += 1
    life.pods_created = 0
    gangs = range(life.job.replicas)
    pods = [_pod(life, gang, variant, clock) for gang in gangs for _ in range(life.job.pods)]
    life.pods = {pod.uid: pod for pod in pods}
    return pods


def replacement(life: Life, uid: str, variant: Variant, clock: VirtualClock) -> PodInfo:
    """Return a pod of the same gang that replaces an evicted one."""
    pod = _pod(life, gang_of(uid), variant, clock)
    life.pods[pod.uid] = pod
    return pod


def _pod(life: Life, gang: int, variant: Variant, clock: VirtualClock) -> PodInfo:
    job, number = life.job, life.pods_created
    life.pods_created += 1
    grouped = variant.order != "one-by-one"
    name = gang_name(job, gang)
    return PodInfo(
        f"{job.namespace}/{job.name}/{life.round}/{gang}/{number}",
        job.namespace,
        f"{job.name}-{life.round}-{number:06}",
        life.requirements,
        group=name if grouped else None,
        priority=job.priority if variant.priorities else 0,
        created=rfc3339(clock.now()),
        scheduler=SCHEDULER,
        preemption=PreemptionInfo(grace=job.grace),
    )


def _constraint(topology: Topology, key: str, variant: Variant) -> TopologyConstraint | None:
    if not topology or variant.topology == "none":
        return None
    return TopologyConstraint(key, preferred=(variant.topology or topology) == "preferred")
