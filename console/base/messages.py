"""The console's messages: JSON with camelCase names.

Amounts are ints in the unit of their resource (`Resource.unit`), times are RFC 3339 in UTC.
A workload's ID is `NAMESPACE/KIND/NAME`. Every text may come from a user of the cluster.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Message(msgspec.Struct, rename="camel", kw_only=True):
    """Base class of all messages."""


class Problem(Message):
    """The body of every response that is not 2xx."""

    message: str


class LoginRequest(Message):
    """A bearer token of the cluster."""

    token: str


class Session(Message):
    """The viewer, and what they may see; `namespaces` None means all."""

    user: str
    local: bool
    namespaces: list[str] | None
    nodes: bool
    expires: str | None
    views: list[str]


Unit = Literal["milli", "bytes", ""]
"""Thousandths (of a core), bytes, or a number of things."""


class Resource(Message):
    """A resource that nodes offer."""

    name: str
    unit: Unit


class Node(Message):
    """A node, in the chosen resource; `free` is never below 0."""

    name: str
    capacity: int
    used: int
    free: int
    pods: int
    schedulable: bool
    ready: bool


class Domain(Message):
    """A topology domain. Its `nodes` are those that are in none of its `children`.

    `held` is reserved for pods that will start: the part of `free` that is nominated for waiting
    pods, and the part of `used` in held places for pods that do not exist yet.
    """

    id: str
    key: str
    value: str
    capacity: int
    used: int
    held: int
    free: int
    largest: int | None = None
    children: list[Domain] = []
    nodes: list[Node] = []


class DomainTotals(Message):
    """The fields of a domain that change while nodes fill."""

    id: str
    used: int
    free: int
    held: int


class Map(Message):
    """The cluster; `keys` are those of the nested domains, the outermost first."""

    resource: str
    resources: list[Resource]
    keys: list[str]
    domains: list[Domain]
    revision: int


class MapChange(Message):
    """The event `map`: nodes and domains that changed."""

    revision: int
    nodes: list[Node]
    domains: list[DomainTotals]


class RoomInDomain(Message):
    """Number of pods of a shape that fit into a domain together."""

    id: str
    value: str
    pods: int


class Largest(Message):
    """The largest gang of a shape, for each domain of a key."""

    key: str
    domains: list[RoomInDomain]


class PodsOnNode(Message):
    """Number of pods of a workload on a node."""

    node: str
    pods: int


class Owner(Message):
    """The owner that a group was created for."""

    kind: str
    name: str


class Nearest(Message):
    """The domain with the fewest missing slots: `slots` of the `needed` pods fit there."""

    key: str
    value: str
    slots: int
    needed: int


Reason = Literal[
    "Incomplete",
    "Unschedulable",
    "Preempting",
    "Nominated",
    "Gate",
    "StartTimeout",
    "Invalid",
    "SchedulerError",
]


class Waiting(Message):
    """A row of the queue; `position` begins at 1."""

    id: str
    position: int
    namespace: str
    kind: str
    name: str
    owner: Owner | None
    priority: int
    since: str | None
    pods: int
    minimum: int | None
    reason: Reason
    sentence: str
    nearest: Nearest | None
    waits_for: str


class QueuePage(Message):
    """A page of rows; `next` requests those after them."""

    items: list[Waiting]
    next: str | None
    total: int


class QueueChange(Message):
    """The event `queue`: rows that are new or changed, and IDs of those that left."""

    changed: list[Waiting]
    gone: list[str]
    total: int


class Counts(Message):
    """Pods of a part of a workload; `minimum` counts child groups for a composite."""

    pods: int
    bound: int
    running: int
    minimum: int | None


class Condition(Message):
    """A condition, as the object has it."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodRow(Message):
    """A pod."""

    name: str
    node: str | None
    state: str
    since: str | None


class Branch(Message):
    """A workload, a group, or a part of one."""

    kind: str
    name: str
    state: str
    counts: Counts
    conditions: list[Condition]
    children: list[Branch]
    pods: list[PodRow]


class Event(Message):
    """An event of a workload, as far as its objects show it or the console observed it."""

    at: str
    event: str
    sentence: str
    by: str | None = None


class Workload(Message):
    """One workload with all parts; `yaml` is its owner's manifest."""

    id: str
    tree: Branch
    timeline: list[Event]
    conditions: list[Condition]
    yaml: str


class Why(Message):
    """The check whether a pod of the workload fits a node now, with the reasons if not."""

    node: str
    fits: bool
    reasons: list[str]


WorkloadStatus = Literal["waiting", "running", "finished"]
"""`waiting`: its minimum has no nodes; `finished`: all of its pods have ended, or it is deleted."""


class WorkloadRow(Message):
    """A row of the list of workloads.

    `deleted` means that only this row of it is left: `pods` is the largest number that it had, and
    its state is `Ended` if the console did not see how its pods ended. `ended` is null if it ended
    before the console started.
    """

    id: str
    namespace: str
    kind: str
    name: str
    status: WorkloadStatus
    state: str
    priority: int
    pods: int
    bound: int
    running: int
    minimum: int | None
    created: str | None
    ended: str | None
    deleted: bool


class WorkloadsPage(Message):
    """A page of rows; `next` requests those after them.

    `running`, `waiting` and `finished` count all that match the other filters.
    """

    items: list[WorkloadRow]
    next: str | None
    total: int
    running: int
    waiting: int
    finished: int


class WorkloadsChange(Message):
    """The event `workloads`: some that the viewer may see changed; `at` is when it was sent."""

    at: str


class History(Message):
    """Steps of `step` seconds, the oldest first; utilisation is 0 to 1, by domain.

    `first` is when the first step ends; null once there is one, or while the cluster is read.
    """

    step: int
    first: str | None
    at: list[str]
    waiting: list[int]
    arrivals: list[int]
    preemptions: list[int]
    utilisation: dict[str, list[float | None]]


class Cluster(Message):
    """The event `cluster`: `current` is true while the API server responds."""

    current: bool


class HistoryStep(Message):
    """The event `history`: the newest step."""

    at: str
    waiting: int
    arrivals: int
    preemptions: int
    utilisation: dict[str, float]
