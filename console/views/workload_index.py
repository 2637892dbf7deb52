"""All workloads by ID, with their status: what runs, waits, or has ended recently."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from console.base.messages import WorkloadRow, WorkloadStatus
from console.state.ended import Ended
from console.state.state import ClusterState
from console.views.queue import owner_of
from kube.base.clock import Clock
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.values.model import SINGLE_POD, GroupKey, plain_kind

LONGEST: Final = 253
"""Characters of the kind or name of an owner. A workload with a longer one has its own instead:
an owner reference may contain any text."""

_UNKNOWN: Final = "Ended"
"""The state of a workload that was deleted before the console saw its last pod end."""

_WORST_FIRST: Final[tuple[WorkloadStatus, ...]] = ("waiting", "running", "finished")


@dataclass(slots=True)
class Entry:
    """A workload. `roots` are its groups without a parent, or its pod; without any it is deleted.

    `state` is set once it has finished. `ended` is in seconds since 1970, 0 if the console did not
    see the end. `pods` is the largest number of pods that it had, `row` what was shown last.
    """

    namespace: str
    kind: str
    name: str
    roots: dict[GroupKey, tuple[WorkloadStatus | None, int]] = field(default_factory=dict)
    """The status and the number of pods; None without effect on the workload's status."""
    pod: Pod | None = None
    status: WorkloadStatus = "waiting"
    state: str = ""
    ended: float = 0.0
    pods: int = 0
    created: str = ""
    row: WorkloadRow | None = None
    _pods_now: int = 0
    _statuses: list[int] = field(default_factory=lambda: [0] * len(_WORST_FIRST))

    def put(self, key: GroupKey, status: WorkloadStatus | None, pods: int) -> None:
        """Add or update a root."""
        self.take(key)
        self.roots[key] = status, pods
        self._count(status, pods, 1)
        self.pods = max(self.pods, self._pods_now)

    def take(self, key: GroupKey) -> None:
        """Remove a root, if it is one."""
        status, pods = self.roots.pop(key, (None, 0))
        self._count(status, pods, -1)
        self.row = None

    def overall(self) -> WorkloadStatus:
        """Return the status of the complete workload, from those of its roots. Costs O(1)."""
        found = zip(_WORST_FIRST, self._statuses, strict=True)
        return next((status for status, number in found if number), "waiting")

    def _count(self, status: WorkloadStatus | None, pods: int, sign: int) -> None:
        self._pods_now += sign * pods
        if status is not None:
            self._statuses[_WORST_FIRST.index(status)] += sign


class Ids:
    """The IDs of one namespace, sorted when they are read after a change."""

    def __init__(self) -> None:
        self._known: dict[str, None] = {}
        self._sorted: list[str] | None = []

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, id_: str) -> None:
        """Add an ID."""
        self._known[id_] = self._sorted = None

    def remove(self, id_: str) -> None:
        """Remove an ID that is there."""
        del self._known[id_]
        self._sorted = None

    def in_order(self) -> list[str]:
        """Return a list that later changes leave as it is. Costs nothing without a change."""
        if self._sorted is None:
            self._sorted = sorted(self._known)
            # The next sort finds all but the new IDs in order already.
            self._known = dict.fromkeys(self._sorted)
        return self._sorted


class WorkloadIndex:
    """The entries, which `follow` updates in time that depends on changes."""

    def __init__(self, cluster: ClusterState, now: Callable[[], float], clock: Clock) -> None:
        """Start empty; `now` is in seconds since 1970."""
        self.cluster = cluster
        self.entries: dict[str, Entry] = {}
        self.namespaces: list[str] = []
        """Those that have workloads, in order."""
        self.ids: dict[str, Ids] = {}
        """The IDs by namespace."""
        self.id_of: dict[GroupKey, str] = {}
        """The ID of the workload of each root."""
        self._now = now
        self._clock = clock
        self._ended = Ended()
        self._begun = False

    def follow(self, roots: Iterable[GroupKey], singles: Mapping[GroupKey, Pod]) -> None:
        """Update the entries of these roots; `singles` are the pods without a group that changed.

        Costs O(groups of these roots).
        """
        for key in roots:
            entity = self._entity(key, singles)
            id_ = None if entity is None else self._id(entity)
            before = self.id_of.get(key)
            if before is not None and before != id_:
                self._leave(key, before)
            if entity is not None and id_ is not None:
                self._enter(key, id_, entity)
        self._begun = True

    def expire(self) -> None:
        """Drop the workloads that were deleted a day ago."""
        for id_ in self._ended.expire(self._clock.monotonic()):
            self._remove(id_)

    def groups(self, entry: Entry) -> list[Group]:
        """Return the groups without a parent."""
        groups = self.cluster.state.forest.groups
        return [groups[key] for key in sorted(entry.roots) if key in groups]

    def _entity(self, key: GroupKey, singles: Mapping[GroupKey, Pod]) -> Group | Pod | None:
        if key[0] != SINGLE_POD:
            group = self.cluster.state.forest.groups.get(key)
            return None if group is None or group.parent is not None else group
        pod = singles.get(key)
        # A pod of the same name may have replaced the one that changed.
        if pod is None or self.cluster.state.pods.get(pod.info.uid) is not pod:
            return self.cluster.entity(key)
        return pod

    def _id(self, entity: Group | Pod) -> str:
        kind, name = self._kind_and_name(entity)
        return f"{entity.key[1]}/{kind}/{name}"

    def _kind_and_name(self, entity: Group | Pod) -> tuple[str, str]:
        """Return those of the owner if the workload can be found by them, otherwise its own."""
        kind, namespace, name = entity.key
        owner = None if isinstance(entity, Pod) else owner_of(self.cluster, entity)
        if owner is None or (namespace, owner.kind, owner.name) not in self.cluster.observed.owned:
            return kind, name
        valid = all(len(each) <= LONGEST and "/" not in each for each in (owner.kind, owner.name))
        return (owner.kind, owner.name) if valid else (kind, name)

    def _enter(self, key: GroupKey, id_: str, entity: Group | Pod) -> None:
        entry = self.entries.get(id_)
        if entry is None or not entry.roots:
            entry = self._add(id_, key[1], *self._kind_and_name(entity))
        self.id_of[key] = id_
        if isinstance(entity, Pod):
            entry.pod, entry.created = entity, entity.info.created
            entry.put(key, "running" if entity.node else "waiting", 1)
        else:
            created = entity.spec.created if entity.spec is not None else ""
            entry.created = min(filter(None, (entry.created, created)), default="")
            before, _ = entry.roots.get(key, (None, 0))
            status = _status(entity, finished=before == "finished")
            entry.put(key, status, sum(len(leaf.members) for leaf in entity.leaves()))
        self._settle(entry)

    def _settle(self, entry: Entry) -> None:
        """Set the status of the complete workload, and the end if it has finished now."""
        status = entry.overall()
        if status == entry.status:
            return
        entry.status = status
        if status != "finished":
            entry.state, entry.ended = "", 0.0
            return
        failed = any(pod.info.phase == "Failed" for pod in _members(self.groups(entry)))
        entry.state = "Failed" if failed else "Succeeded"
        entry.ended = self._now() if self._begun else 0.0

    def _leave(self, key: GroupKey, id_: str) -> None:
        """Remove the root from its workload: it was deleted, or belongs to another one now."""
        entry = self.entries[id_]
        del self.id_of[key]
        entry.take(key)
        if key[0] == SINGLE_POD:
            entry.pod = None
        if entry.roots:
            self._settle(entry)
        elif key in self.cluster.state.forest.groups:
            self._remove(id_)
        else:
            self._keep(id_, entry)

    def _keep(self, id_: str, entry: Entry) -> None:
        if entry.status != "finished":
            entry.status, entry.state = "finished", _UNKNOWN
        entry.ended = entry.ended or self._now()
        for dropped in self._ended.keep(id_, self._clock.monotonic()):
            self._remove(dropped)

    def _add(self, id_: str, namespace: str, kind: str, name: str) -> Entry:
        # A workload that is created again is not the one that ended.
        self._remove(id_)
        if namespace not in self.ids:
            self.ids[namespace] = Ids()
            insort(self.namespaces, namespace)
        self.ids[namespace].add(id_)
        entry = self.entries[id_] = Entry(namespace, kind, name)
        return entry

    def _remove(self, id_: str) -> None:
        self._ended.forget(id_)
        entry = self.entries.pop(id_, None)
        if entry is None:
            return
        ids = self.ids[entry.namespace]
        ids.remove(id_)
        if not ids:
            del self.ids[entry.namespace]
            self.namespaces.remove(entry.namespace)


def _status(group: Group, *, finished: bool) -> WorkloadStatus | None:
    """Return the status of a root; None if it has no effect. Costs O(groups of the root).

    One that has `finished` stays so while its pods are deleted.
    """
    leaves = list(group.leaves())
    if any(leaf.alive for leaf in leaves):
        return "running" if group.state in ("scheduled", "binding") else "waiting"
    if group.pending_total or group.expected_waiting or group.expected_held:
        return "waiting"
    if finished or (group.standing and group.running_total > 0):
        return "finished"
    # Without its minimum it is over only if each group had pods, and all of them have ended.
    if leaves and all(leaf.members for leaf in leaves):
        return "finished"
    # Next to Muster's group, a Job may have a native one that no pod names.
    empty = not any(leaf.members for leaf in leaves)
    return None if empty and plain_kind(group.key[0]) != group.key[0] else "waiting"


def _members(groups: Iterable[Group]) -> Iterator[Pod]:
    leaves = (leaf for group in groups for leaf in group.leaves())
    return (pod for leaf in leaves for pod in leaf.members.values())
