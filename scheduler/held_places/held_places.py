"""Places held for pods that a group expects: who has them, until when, and who takes them over.

A decision places a root's expected pods like all others; their places stay taken, and the
Reservation of the root stays, until the pods come. A pod that comes takes the place of an expected
one of its kind over. What has not come when the time is over is not waited for any more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import structlog

from api.constants import ANNOTATION_ON_HOLD_EXPIRED, ANNOTATION_PROVISIONING_REQUEST
from kube.base.clock import rfc3339, since
from kube.client.meta import Json
from kube.leader.election import Fence
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.place import Placement, SearchBudget, assume_on
from scheduler.core.values.model import ClaimKey, GroupKey
from scheduler.decoding.objects import GroupObject
from scheduler.events.group_events import GroupEvents
from scheduler.expected.claims import own_keys
from scheduler.expected.pods import Changes, ExpectedPods
from scheduler.queue.shell import Shell
from scheduler.support.config import Holding
from scheduler.support.device_budget import POSTPONED, DeviceWork
from scheduler.support.metrics import HELD_EXPIRED, HELD_PLACES
from scheduler.watch.event_handlers import PodHandler
from scheduler.watch.published_places import told_expired, told_since

_LOOK: Final = 1.0
"""Seconds between two looks at what is held."""

_ALL_AFTER: Final = 30
"""Looks in which all nodes are looked at; otherwise those that changed."""

_MOST_SHOWN: Final = 1000
"""Entries of `status.heldPlaces.pods`: who looks from outside knows of no others."""

EVICT: Final = "Evict"
"""The value of the annotation on-hold-expired with which nothing goes on; else it is as Keep."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Begun:
    """When places were first held for a root: by the monotonic clock, and what its status says."""

    at: float
    stamp: datetime


class HeldPlaces:
    """The places that are held; `observed` are the group objects as last delivered."""

    def __init__(
        self,
        shell: Shell,
        pods: PodHandler,
        expected: ExpectedPods,
        events: GroupEvents,
        *,
        config: Holding,
        observed: Mapping[GroupKey, GroupObject],
        evict: Callable[[Group, list[Pod], str], None],
        store: Callable[[Placement], None],
        device_work: DeviceWork | None = None,
    ) -> None:
        """`evict` is called with pods of a root and why.

        `store` is given places that no decision chose, to be kept for the next leader. Without
        `device_work` there is no limit to the work on devices.
        """
        self._state = shell.state
        self._pods = pods
        self._expected = expected
        self._events = events
        self._clock = shell.clock
        self._config = config
        self._observed = observed
        self._on_change = shell.on_change
        self._evict = evict
        self._store = store
        self._freeze = shell.freeze
        self._device_work = device_work
        self._begun: dict[GroupKey, _Begun] = {}
        self._ended: set[GroupKey] = set()
        self._told: dict[GroupKey, str] = {}
        self._deferred: set[str] = set()
        self._looks = self._seen = 0
        self._generation = -1

    def reset(self) -> None:
        """Another process may have led meanwhile, and places of groups have expired."""
        self._begun.clear()
        self._ended.clear()
        self._told.clear()
        self._expected.touch_all()
        for key in list(self._expected):
            group, obj = self._state.forest.groups.get(key), self._observed.get(key)
            if group is not None and obj is not None:
                self._set_expired(group, expired=told_expired(obj))

    def taken_over(self, root: Group | Pod, budget: Callable[[], SearchBudget]) -> Placement | None:
        """Assume the places held for pods of the root that have come; None if there are none.

        A pod that does not fit where its kind was expected waits for a place like others. Raises
        one of POSTPONED where finding devices takes long, and nothing was assumed.
        """
        if isinstance(root, Pod) or not root.expected_held:
            return None
        pods, rows = list[Pod](), list[int]()
        for leaf in root.leaves():
            for pod, expected in list(self._came(leaf)):
                try:
                    if not self._may_take_over(pod, expected):
                        continue
                except POSTPONED:
                    if not pods:
                        raise
                    break
                row = self._take_over(pod, expected, budget())
                if row is not None:
                    pods.append(pod)
                    rows.append(row)
        return Placement(root.key, tuple(pods), tuple(rows), 0, 0) if pods else None

    def note(self, root: Group | Pod) -> str:
        """Return a sentence for a root that lacks capacity and has pods that do not exist yet."""
        expected = 0 if isinstance(root, Pod) else root.expected_waiting
        if not expected:
            return ""
        obj = self._observed.get(root.key)
        notes = obj.metadata.annotations if obj is not None else {}
        if notes.get(ANNOTATION_PROVISIONING_REQUEST):
            return f"{expected} of its pods do not exist yet; its ProvisioningRequest has them."
        return (
            f"{expected} of its pods do not exist yet, and autoscalers do not see these: add nodes"
            " in advance."
        )

    def status(self, group: Group) -> Json | None:
        """`status.heldPlaces` of a group; None if none are held, and none expired."""
        if group.composite or not (group.expected_held or self._expected.expired(group.key)):
            return None
        stamp = self._begun_for(group.top).stamp
        places: Counter[tuple[str, str]] = Counter()
        for kind in self._expected.kinds(group.key):
            places.update((kind.name, pod.node) for pod in self._assumed(kind.expected))
        return {
            "since": rfc3339(stamp),
            "until": rfc3339(stamp + self._duration(group)),
            "pods": [
                {"name": name, "node": node, "count": count}
                for (name, node), count in sorted(places.items())[:_MOST_SHOWN]
            ],
        }

    async def run(self, fence: Fence) -> None:
        """Look every second at what is held, while the lease is held; until cancelled."""
        while True:
            await self._clock.sleep(_LOOK)
            await self._freeze.over()
            if fence.valid():
                self.look()
                self._store_new()

    def look(self) -> None:
        """Give up what was held too long or cannot be used any more; let what ended begin anew."""
        self._pods.renew_expected()
        self._try_deferred()
        for key in self._expected.take_touched():
            self._tell(key)
        if self._release_lost():
            self._on_change()
        total, roots = 0, dict[GroupKey, Group]()
        for group in self._groups():
            total += group.expected_held
            roots[group.top.key] = group.top
        for key in self._begun.keys() - roots.keys():
            del self._begun[key]
        self._ended &= roots.keys()
        for root in roots.values():
            self._look_at(root)
        HELD_PLACES.set(total)

    def _try_deferred(self) -> None:
        """Pods whose devices were not given back yet may take their places over by now."""
        deferred, self._deferred = self._deferred, set()
        for uid in deferred:
            self._state.reconsider(uid)
        if deferred:
            self._on_change()

    def _tell(self, key: GroupKey) -> None:
        """One event for each change of what is wrong with a group's expected pods."""
        problem, before = self._expected.problem(key), self._told.pop(key, "")
        if problem:
            self._told[key] = problem
            if problem != before:
                self._events.entity(key, "Warning", "ExpectedPodsDiffer", problem)

    def _store_new(self) -> None:
        """Have the places stored that expected pods took over from pods that are gone."""
        found: dict[GroupKey, list[Pod]] = {}
        for pod in self._assumed(dict.fromkeys(self._expected.new_places())):
            if pod.row >= 0 and pod.group is not None:
                found.setdefault(pod.group.top.key, []).append(pod)
        for root, pods in found.items():
            rows = tuple(pod.row for pod in pods)
            self._store(Placement(root, tuple(pods), rows, len(pods), 0))

    def _look_at(self, root: Group) -> None:
        if self._begins_anew(root):  # whatever its status says yet
            self._begun.pop(root.key, None)
            self._ended.add(root.key)
            for leaf in root.leaves():
                self._set_expired(leaf, expired=False)
            return
        if not root.expected_held and not self._expected.any_expired(root):
            self._begun.pop(root.key, None)  # all came: what is held later has its own time
            self._ended.add(root.key)
            return
        begun = self._begun_for(root).at if root.expected_held else math.inf
        age = self._clock.monotonic() - begun
        for leaf in root.leaves():
            if leaf.expected_held and age >= self._duration(leaf).total_seconds():
                self._expire(leaf)
        if not root.standing and any(map(self._ends_with_hold, root.leaves())):
            self._evict_rest(root)

    def _begins_anew(self, root: Group) -> bool:
        """Whether nothing of a tree runs: places may be held for it again, for the whole time.

        Pods that succeeded count as running. They do not keep one whose places expired from
        beginning anew, once another pod of it waits.
        """
        if root.running_total == 0:
            return True
        waits = root.pending_total > root.expected_waiting
        if not waits or not self._expected.any_expired(root):
            return False
        members = (pod for leaf in root.leaves() for pod in leaf.members.values())
        return not any(pod.placed and not pod.ended for pod in members)

    def _expire(self, leaf: Group) -> None:
        count, seconds = leaf.expected_held, self._duration(leaf).total_seconds()
        self._set_expired(leaf, expired=True)
        HELD_EXPIRED.inc(count)
        if seconds:
            message = (
                f"{count} expected pods did not appear within {seconds:g} s, and their places are"
                f" released: {self._what_becomes(leaf)}"
            )
            self._events.entity(leaf.key, "Warning", "HoldExpired", message)
        else:
            message = (
                f"no places are held for {count} expected pods: they are scheduled like other pods"
            )
            self._events.entity(leaf.key, "Normal", "NothingHeld", message)
        _log.info("held places expired", group="/".join(leaf.key), places=count)

    def _what_becomes(self, leaf: Group) -> str:
        if self._ends_with_hold(leaf) and not leaf.top.standing:
            return "the running pods of its tree are evicted"
        return "the running pods continue, and later pods are scheduled like other pods"

    def _ends_with_hold(self, leaf: Group) -> bool:
        """Whether the group's places have expired, and what runs of its tree is to go then.

        Where nothing is held, no time is over.
        """
        if not self._duration(leaf):
            return False
        obj = self._observed.get(leaf.key)
        asked = obj.metadata.annotations.get(ANNOTATION_ON_HOLD_EXPIRED) if obj is not None else ""
        return asked == EVICT and self._expected.expired(leaf.key)

    def _evict_rest(self, root: Group) -> None:
        """Evict what runs of a tree whose expected pods did not come in time.

        Also a new leader does so, as long as something of it runs. What could not be evicted stays.
        """
        units = self._state.units
        members = (pod for leaf in root.leaves() for pod in leaf.members.values())
        pods = [
            pod
            for pod in members
            if pod.info.node and not pod.ended and not units.leaves(pod)
            if pod.info.uid not in units.spared
        ]
        if pods:
            self._evict(root, pods, "the pods that its group expects did not come in time")

    def _set_expired(self, leaf: Group, *, expired: bool) -> None:
        changes = self._expected.expire(leaf.key, expired=expired)
        if changes != Changes():
            self._pods.apply(changes)
            self._on_change()

    def _duration(self, leaf: Group) -> timedelta:
        return self._config.duration(leaf.spec.hold if leaf.spec is not None else None)

    def _assumed(self, uids: Iterable[str]) -> list[Pod]:
        """Those of the expected pods that have a place."""
        found = (self._state.pods.get(uid) for uid in uids)
        return [pod for pod in found if pod is not None and pod.assumed]

    def _groups(self) -> Iterator[Group]:
        """The groups that expect pods, as far as they are known."""
        groups = self._state.forest.groups
        return (group for key in self._expected if (group := groups.get(key)) is not None)

    def _release_lost(self) -> bool:
        """Free the places on nodes that are gone or that take no such pods any more."""
        lost = list(self._on_nodes_gone())
        rows, nodes = self._rows_to_look_at(), self._state.nodes
        crowded = set(np.flatnonzero((nodes.free < 0).any(axis=0)).tolist())
        for row in rows:
            of_shape: dict[int, list[Pod]] = {}
            for pod in self._state.pods_on(nodes.name_of(row)):
                if pod.info.expected:
                    of_shape.setdefault(pod.shape.index, []).append(pod)
            for pods in of_shape.values():
                if row in crowded or not self._stay(pods[0]):
                    lost += pods[self._room(pods) :]
        for pod in lost:
            self._state.forget(pod.info.uid)
        return bool(lost)

    def _on_nodes_gone(self) -> Iterator[Pod]:
        """The expected pods whose nodes are gone."""
        generation = self._state.nodes.generation
        if generation != self._generation:
            for group in self._groups():
                for pod in group.members.values() if group.expected_held else ():
                    if pod.info.expected and pod.assumed and pod.row < 0:
                        yield pod
        self._generation = generation

    def _rows_to_look_at(self) -> list[int]:
        """The rows of nodes that changed since the last look, and some of the others.

        What pods of other nodes change, as by their affinity, is seen with those.
        """
        nodes = self._state.nodes
        self._looks += 1
        changed = set(nodes.changed_since(self._seen).tolist())
        changed.update(range(self._looks % _ALL_AFTER, nodes.size, _ALL_AFTER))
        self._seen = nodes.stamp
        return sorted(row for row in changed if nodes.infos[row] is not None)

    def _stay(self, pod: Pod) -> bool:
        """Whether such pods can have the node as long as it is not crowded."""
        shape, framework = pod.shape, self._state.framework
        simple = not shape.filter_match_ids and framework.only_counts(shape)
        return simple and bool(framework.permitted(shape)[pod.row])

    def _room(self, pods: list[Pod]) -> int:
        """How many of these pods of one shape, which have one node, could have it still."""
        if pods[0].shape.self_interacting:
            return len(pods)
        try:
            with self._work_allowed(pods[0]):
                return self._slots_without(pods, pods[0].shape, self._returning(pods))
        except POSTPONED:
            return len(pods)  # what was found out stays known: the next look goes on

    def _slots_without(self, pods: list[Pod], shape: Shape, claims: Iterable[ClaimKey] = ()) -> int:
        """For how many of the shape the node of these equal pods has room without them.

        The devices of these `claims` are free then, too.
        """
        own, row = pods[0].shape, np.array([pods[0].row], np.int64)
        with self._state.nodes.trial():
            if own.requirements.needs_devices:
                keys = (key for pod in pods for key in own_keys(pod.info))
                self._state.devices.free([*keys, *claims])
            count = np.array([-len(pods)], np.int64)
            self._state.framework.occupy(own, row, count, devices=False)
            return int(self._state.framework.slots_in(shape, row)[0])

    def _work_allowed(self, pod: Pod) -> AbstractContextManager[None]:
        if self._device_work is None:
            return nullcontext()
        return self._device_work.allowed(pod.info.namespace, alone=False)

    def _may_take_over(self, pod: Pod, expected: Pod) -> bool:
        """False if the devices of the place are about to be given back by the pod that had it."""
        if expected.row < 0 or not expected.shape.requirements.needs_devices:
            return True
        with self._work_allowed(pod):
            if self._slots_without([expected], pod.shape):
                return True
        if not self._returning([expected]):
            return True
        self._deferred.add(pod.info.uid)
        return False

    def _returning(self, pods: list[Pod]) -> set[ClaimKey]:
        """Claims with devices of these places that are about to be given back.

        They are those of the pods that had the places before.
        """
        use, returning = self._state.devices.use, self._state.devices.consumers.returning
        if not returning:
            return set()
        keys = (key for pod in pods for key in own_keys(pod.info))
        held = (each.key for key in keys for each in use.held(key))
        return {claim for device in held for claim in use.takers(device) if claim in returning}

    def _begun_for(self, root: Group) -> _Begun:
        """When places were first held for the root: what its status says, or else now."""
        begun = self._begun.get(root.key)
        if begun is None:
            # A status may be written by hand: nothing began later than now.
            leaves = root.leaves() if root.key not in self._ended else ()
            told = (told_since(self._observed.get(leaf.key)) for leaf in leaves)
            stamp = min((self._clock.now(), *filter(None, told)))
            begun = self._begun[root.key] = _Begun(since(self._clock, stamp.timestamp()), stamp)
        return begun

    def _came(self, leaf: Group) -> Iterator[tuple[Pod, Pod]]:
        """Pods of the leaf that wait, each with the expected pod whose place it is to have."""
        if not leaf.expected_held:
            return
        for kind in self._expected.kinds(leaf.key):
            waiting = (pod for pod in map(self._state.pods.get, kind.came) if pod and pod.waiting)
            yield from zip(waiting, self._assumed(kind.expected)[: kind.excess], strict=False)

    def _take_over(self, pod: Pod, expected: Pod, budget: SearchBudget) -> int | None:
        """Assume the expected pod's node for the pod; its row, None if the pod does not fit."""
        row, uid = expected.row, expected.info.uid
        self._state.remove_pod(uid)
        self._expected.removed(uid)
        if row < 0:
            return None
        return row if assume_on(self._state, pod, row, budget) else None
