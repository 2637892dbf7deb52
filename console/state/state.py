"""One cluster as the scheduler sees it, kept current by the scheduler's own watches.

It lists nothing itself and writes nothing. `take_changes` returns the differences, so that the cost
of following a cluster depends on its changes, not on its size.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from api import features
from api.features import FeatureGates
from api.scheduler_names import USUAL, SchedulerNames
from console.state.chronicle import Chronicle
from console.state.victims import Victims
from kube.client.client import Client
from kube.concurrency.freeze import Freeze
from kube.concurrency.pace import Pace
from kube.informers.quarantine import Quarantine
from scheduler.cel.selectors import Selectors
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.state.nominations import Nomination
from scheduler.core.state.state import State
from scheduler.core.values.model import SINGLE_POD, GroupKey
from scheduler.core.values.search_budget import SearchBudget
from scheduler.decoding.objects import GroupObject
from scheduler.expected.pods import ExpectedPods
from scheduler.support.config import Preemption
from scheduler.watch.informers import SchedulerInformers
from scheduler.watch.published_places import follow_published

OwnerKey = tuple[str, str, str]
"""(namespace, kind, name) of the owner that a group was created for."""

_DECISION: Final = 0.25
"""Seconds that one search for the console may take: it blocks the event loop."""


class GroupObjects(dict[GroupKey, GroupObject]):
    """The group objects as last delivered. `changed` are the keys of those that changed.

    `owned` has the groups of each owner, which is the controller that an object names. `refused`
    has the last new `status.blocker` of each group that got one since `changed` was taken, even if
    it was removed since.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[GroupKey] = set()
        self.owned: dict[OwnerKey, dict[GroupKey, None]] = {}
        self.refused: dict[GroupKey, Any] = {}

    def __setitem__(self, key: GroupKey, obj: GroupObject) -> None:
        blocker = observed_blocker(obj)
        if blocker is not None and blocker != observed_blocker(self.get(key)):
            self.refused[key] = blocker
        self._leave(key)
        super().__setitem__(key, obj)
        owner = _owner(key, obj)
        if owner is not None:
            self.owned.setdefault(owner, {})[key] = None
        self.changed.add(key)

    def pop(self, key: GroupKey, *default: Any) -> Any:
        """Remove as a dict does; informers remove objects in no other way."""
        # Another group may have its name before the next `take_changes`.
        self.refused.pop(key, None)
        if key in self:
            self._leave(key)
            self.changed.add(key)
        return super().pop(key, *default)

    def _leave(self, key: GroupKey) -> None:
        before = self.get(key)
        owner = _owner(key, before) if before is not None else None
        if owner is None:
            return
        del self.owned[owner][key]
        if not self.owned[owner]:
            del self.owned[owner]


def observed_blocker(obj: GroupObject | None) -> Any:
    """Return `status.blocker`, with any content; None if there is none."""
    return None if obj is None or obj.status is None else obj.status.get("blocker")


def _owner(key: GroupKey, obj: GroupObject) -> OwnerKey | None:
    owner = obj.metadata.controller
    return None if owner is None else (key[1], owner.kind, owner.name)


@dataclass(slots=True)
class Changed:
    """Roots whose rows may have changed. Nodes have versions of their own.

    `refused` are new refusals by the scheduler, though the group may be scheduled by now.
    `singles` are pods without a group that changed, by key; some may be deleted by now.
    """

    roots: set[GroupKey] = field(default_factory=set)
    singles: dict[GroupKey, Pod] = field(default_factory=dict)
    refused: dict[GroupKey, Any] = field(default_factory=dict)
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """The configuration of the cluster's scheduler, and what the console shows.

    Without `topology_keys` the map nests those that groups name. `preempts` is true if a root may
    evict others, which what-if depends on, by the rules of `preemption`.
    """

    budget: SearchBudget = field(default_factory=SearchBudget)
    scheduler_names: SchedulerNames = USUAL
    gates: FeatureGates = features.USUAL
    topology_keys: tuple[str, ...] = ()
    preempts: bool = True
    preemption: Preemption = field(default_factory=Preemption)


class ClusterState:
    """The state, the group objects, and the settings for the views."""

    def __init__(self, state: State | None = None, settings: Settings = Settings()) -> None:
        """Take a state or start empty."""
        self.state = state if state is not None else State(evaluate=Selectors().evaluate)
        self.settings = settings
        self.observed = GroupObjects()
        self.quarantine = Quarantine()
        self.chronicle = Chronicle()
        self.victims = Victims()
        self.expected: ExpectedPods | None = None
        """The pods that groups expect; None while their gate is off."""
        self._not_held: set[GroupKey] = set()
        self.freeze = Freeze()
        """Keeps the state unchanged while work on it gives way to other tasks."""
        self.topology_keys: Counter[str] = Counter()
        """Number of groups that name each key; `keys_version` changes with the keys."""
        self.keys_version = 0
        self._key_of: dict[GroupKey, str] = {}

    @property
    def priorities(self) -> list[Any]:
        """The PriorityClasses, by name."""
        return []

    def budget(self) -> SearchBudget:
        """Return the budget of one search that begins now."""
        until = time.monotonic() + _DECISION
        return replace(self.settings.budget, expired=lambda: time.monotonic() >= until)

    async def settled(self) -> None:
        """Wait until no work is in progress during which the state must not be read or changed."""
        await self.freeze.over()

    def entity(self, key: GroupKey) -> Group | Pod | None:
        """Return the pod without a group, or the group, if it exists."""
        if key[0] == SINGLE_POD:
            return self.state.singles.get(key) or self.state.held.get(key)
        return self.state.forest.groups.get(key)

    def take_changes(self) -> Changed:
        """Return the changes since the last call, and apply nominations and held places."""
        for _ in self.state.catch_up():
            pass
        self._hold()
        found = Changed()
        while True:
            taken = self.state.take_changes()
            found.everything = found.everything or taken.everything
            found.singles |= taken.singles
            self._follow(taken.entities)
            # A group that was a root may have a parent now: its former row changes, too.
            found.roots.update(taken.entities, map(self._root, taken.entities))
            if not taken.more:
                break
        told, self.observed.changed = self.observed.changed, set()
        found.refused, self.observed.refused = self.observed.refused, {}
        found.roots.update(told, map(self._root, told))
        for root in found.roots:
            self._nominate(root)
        return found

    def _hold(self) -> None:
        """Give expected pods the held places that changed groups publish."""
        if self.expected is not None:
            keys, expected = self.observed.changed | self._not_held, self.expected
            followed = ((key, self.observed.get(key)) for key in keys)
            self._not_held = {
                key for key, obj in followed if not follow_published(self.state, expected, key, obj)
            }

    def _root(self, key: GroupKey) -> GroupKey:
        group = self.state.forest.groups.get(key)
        return group.top.key if group is not None else key

    def _follow(self, keys: Iterable[GroupKey]) -> None:
        """Count the topology keys that groups name."""
        for key in keys:
            group = self.state.forest.groups.get(key)
            now = group.topology.key if group is not None and group.topology is not None else ""
            before = self._key_of.get(key, "")
            if before == now:
                continue
            self._key_of[key] = now
            if not now:
                del self._key_of[key]
            self._count(before, -1)
            self._count(now, 1)

    def _count(self, topology_key: str, more: int) -> None:
        if not topology_key:
            return
        # A key appears with its first group, and disappears with its last.
        self.keys_version += self.topology_keys[topology_key] in (0, 1)
        self.topology_keys[topology_key] += more
        if not self.topology_keys[topology_key]:
            del self.topology_keys[topology_key]

    def _nominate(self, root: GroupKey) -> None:
        """Reserve the nominated places of a root, as the scheduler published them on its pods."""
        state, entity = self.state, self.entity(root)
        nominations = state.nominations
        if isinstance(entity, Group) and entity.parent is not None:
            entity = None  # the nomination belongs to its root
        places: Counter[tuple[Any, str]] = Counter()
        for pod in _waiting_pods(entity):
            if pod.info.ours and pod.info.nominated in state.nodes.row_of:
                places[pod.shape, pod.info.nominated] += 1
        if not places:
            if nominations.own(root):
                state.end_nomination(root)
            return
        assert entity is not None
        there = tuple((shape, ((node, n),)) for (shape, node), n in places.items())
        nominations.set(Nomination(root, entity.priority, there))


def _waiting_pods(entity: Group | Pod | None) -> Iterable[Pod]:
    if entity is None:
        return ()
    if isinstance(entity, Pod):
        return (entity,)
    if not entity.pending_total:
        return ()
    groups = (group for group in entity.subtree() if group.pending)
    return (pod for each in groups for pods in each.pending.values() for pod in pods.values())


class LiveCluster(ClusterState):
    """A cluster state with the watches that keep it current."""

    def __init__(self, client: Client, settings: Settings) -> None:
        """Set up the watches, which start with `run`."""
        super().__init__(settings=settings)
        self.client = client
        self._behind = asyncio.Event()
        self._informers = SchedulerInformers(
            client,
            self.state,
            self._state_changed,
            observed=self.observed,
            quarantine=self.quarantine,
            freeze=self.freeze,
            scheduler_names=settings.scheduler_names,
            gates=settings.gates,
            clock=client.server_clock,
        )
        self.expected = self._informers.expected

    @property
    def priorities(self) -> list[Any]:
        """The PriorityClasses, by name."""
        return self._informers.priority_classes.all()

    @property
    def synced(self) -> bool:
        """True if every watch has delivered its first list."""
        return self._informers.synced

    async def wait(self) -> None:
        """Wait until it is `synced`."""
        await self._informers.wait()

    @property
    def current(self) -> bool:
        """True while the API server responds; otherwise the state may be old."""
        return not any(each.interrupted() for each in self._informers.reflectors)

    @property
    def missing(self) -> list[str]:
        """The resources that were not read yet."""
        reflectors = self._informers.reflectors
        return [each.resource.full_name for each in reflectors if not each.synced.is_set()]

    async def run(self) -> None:
        """Follow the cluster until cancelled; failures of the API server are retried."""
        async with asyncio.TaskGroup() as group:
            for run in self._informers.runs():
                group.create_task(run)
            group.create_task(self._keep_up())

    def _state_changed(self) -> None:
        if self.state.behind:
            self._behind.set()

    async def _keep_up(self) -> None:
        """Let the state catch up in slices, as the scheduler does; the freeze blocks events."""
        pace = Pace("match", self.client.server_clock)
        while True:
            await self._behind.wait()
            self._behind.clear()
            await self.freeze.over()
            pace.begin()
            with self.freeze:
                for _ in self.state.catch_up():
                    if pace.over(()):
                        await pace.give_way()
