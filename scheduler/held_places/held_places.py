"""Held places: who has them, until when, and which pods use them.

A decision places a root's expected pods like all others. Their places remain taken, and the root's
Reservation remains, until the pods arrive. A pod that arrives gets the place of an expected pod of
its kind. When the time is over, the scheduler stops waiting for missing pods.
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
from scheduler.expected.pods import ExpectedPods
from scheduler.queue.shell import Shell
from scheduler.support.config import HoldingLimits
from scheduler.support.device_budget import POSTPONED, DeviceWork
from scheduler.support.metrics import HELD_EXPIRED, HELD_PLACES
from scheduler.watch.event_handlers import PodHandler
from scheduler.watch.published_places import is_published_expired, published_since

_LOOK: Final = 1.0
"""Seconds between two checks of held places."""

_ALL_AFTER: Final = 30
"""Checks within which every node is checked once. Each checks the nodes that changed, and a part of
the others."""

_MOST_SHOWN: Final = 1000
"""Entries of `status.heldPlaces.pods`. Observers of the cluster do not see further places."""

EVICT: Final = "Evict"
"""Value of the annotation on-hold-expired that evicts the running pods. Any other is as Keep."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Begun:
    """The time when places were first held for a root: monotonic, and as its status reports it."""

    at: float
    stamp: datetime


class HeldPlaces:
    """The held places of all groups. `observed` has the last object of each group."""

    def __init__(
        self,
        shell: Shell,
        pods: PodHandler,
        expected: ExpectedPods,
        events: GroupEvents,
        *,
        config: HoldingLimits,
        observed: Mapping[GroupKey, GroupObject],
        evict: Callable[[Group, list[Pod], str], None],
        store: Callable[[Placement], None],
        device_work: DeviceWork | None = None,
    ) -> None:
        """Start without places. `evict` is called with pods of a root and a reason.

        `store` gets places that no decision chose, to keep them for the next leader. Without
        `device_work` the work on devices is not limited.
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
        self._reported: dict[GroupKey, str] = {}
        self._deferred: set[str] = set()
        self._looks = self._seen = 0
        self._generation = -1

    def reset(self) -> None:
        """Start a new term: another leader may have let places expire meanwhile."""
        self._begun.clear()
        self._ended.clear()
        self._reported.clear()
        self._expected.touch_all()
        for key in list(self._expected):
            group, obj = self._state.forest.groups.get(key), self._observed.get(key)
            if group is not None and obj is not None:
                self._set_expired(group, expired=is_published_expired(obj))

    def use_held_places(
        self, root: Group | Pod, budget: Callable[[], SearchBudget]
    ) -> Placement | None:
        """Assume the places held for pods of the root that arrived; None if there are none.

        A pod that does not fit the place of its kind waits for capacity like others. Raises one of
        POSTPONED if finding devices takes too long and nothing was assumed.
        """
        if isinstance(root, Pod) or not root.expected_held:
            return None
        pods, rows = list[Pod](), list[int]()
        for leaf in root.leaves():
            # A list, because each place that is used changes the kinds that it is computed from.
            for pod, expected in list(self._came(leaf)):
                try:
                    if not self._may_use(pod, expected):
                        continue
                except POSTPONED:
                    # The pods with a place are returned to be bound; the others follow later.
                    if not pods:
                        raise
                    break
                row = self._use_held_place(pod, expected, budget())
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
        """Return `status.heldPlaces` of a group, None if no places are held and none expired."""
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
        """Check every second what is held, as long as the lease is valid, until cancelled."""
        while True:
            await self._clock.sleep(_LOOK)
            await self._freeze.over()
            if fence.valid():
                self.release_unusable()
                self._store_new()

    def release_unusable(self) -> None:
        """Release what was held too long or can no longer be used, and restart what ended."""
        self._pods.renew_expected()
        self._try_deferred()
        for key in self._expected.take_touched():
            self._report(key)
        if self._release_lost():
            self._on_change()
        total, roots = 0, dict[GroupKey, Group]()
        for group in self._groups():
            total += group.expected_held
            roots[group.top.key] = group.top
        # A root that appears again has its time from the start.
        for key in self._begun.keys() - roots.keys():
            del self._begun[key]
        self._ended &= roots.keys()
        for root in roots.values():
            self._check_root(root)
        HELD_PLACES.set(total)

    def _try_deferred(self) -> None:
        """Requeue pods that waited for devices of their places, which may be released by now."""
        deferred, self._deferred = self._deferred, set()
        for uid in deferred:
            self._state.reconsider(uid)
        if deferred:
            self._on_change()

    def _report(self, key: GroupKey) -> None:
        """Record one event for each change of what is wrong with a group's expected pods."""
        problem, before = self._expected.problem(key), self._reported.pop(key, "")
        if problem:
            self._reported[key] = problem
            if problem != before:
                self._events.entity(key, "Warning", "ExpectedPodsDiffer", problem)

    def _store_new(self) -> None:
        """Store the places that expected pods got from deleted pods."""
        found: dict[GroupKey, list[Pod]] = {}
        # Without duplicates: an expected pod may get a place twice between two checks.
        for pod in self._assumed(dict.fromkeys(self._expected.new_places())):
            if pod.row >= 0 and pod.group is not None:
                found.setdefault(pod.group.top.key, []).append(pod)
        for root, pods in found.items():
            rows = tuple(pod.row for pod in pods)
            self._store(Placement(root, tuple(pods), rows, len(pods), 0))

    def _check_root(self, root: Group) -> None:
        # Whatever its status reports: that is written later.
        if self._restarts(root):
            self._begun.pop(root.key, None)
            self._ended.add(root.key)
            for leaf in root.leaves():
                self._set_expired(leaf, expired=False)
            return
        if not root.expected_held and not self._expected.any_expired(root):
            # All pods arrived. Places that are held later have a time of their own.
            self._begun.pop(root.key, None)
            self._ended.add(root.key)
            return
        begun = self._begun_for(root).at if root.expected_held else math.inf
        age = self._clock.monotonic() - begun
        for leaf in root.leaves():
            if leaf.expected_held and age >= self._duration(leaf).total_seconds():
                self._expire(leaf)
        # A tree with its minimum needs no pods that did not come.
        if not root.standing and any(map(self._ends_with_hold, root.leaves())):
            self._evict_rest(root)

    def _restarts(self, root: Group) -> bool:
        """True if nothing of a tree runs: places may be held for it again, for the full time.

        Pods that succeeded count as running. But a tree whose places expired also begins again with
        only such pods, once another pod of it waits.
        """
        if root.running_total == 0:
            # A reservation ends with its time. It begins again with the first pod only.
            return not (root.only_reserves and self._expected.any_expired(root))
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
        """True if the group's places have expired, and running pods of its tree are to be evicted.

        With no time to hold places, none is over.
        """
        if not self._duration(leaf):
            return False
        obj = self._observed.get(leaf.key)
        asked = obj.metadata.annotations.get(ANNOTATION_ON_HOLD_EXPIRED) if obj is not None else ""
        return asked == EVICT and self._expected.expired(leaf.key)

    def _evict_rest(self, root: Group) -> None:
        """Evict the running pods of a tree whose expected pods did not arrive in time.

        A new leader does so, too, as long as something of the tree runs. Pods that cannot be
        evicted remain.
        """
        units = self._state.units
        members = (pod for leaf in root.leaves() for pod in leaf.members.values())
        pods = [
            pod
            for pod in members
            if pod.info.node and not pod.ended and not units.leaves(pod)
            # A pod whose eviction failed is not evicted again every second.
            if pod.info.uid not in units.spared
        ]
        if pods:
            self._evict(root, pods, "the pods that its group expects did not come in time")

    def _set_expired(self, leaf: Group, *, expired: bool) -> None:
        before = self._expected.expired(leaf.key)
        changes = self._expected.expire(leaf.key, expired=expired)
        changes.apply(self._state)
        # The status reports it, also if all pods exist and nothing is expected.
        if self._expected.expired(leaf.key) != before:
            self._state.changes.entities.add(leaf.key)
            self._on_change()

    def _duration(self, leaf: Group) -> timedelta:
        return self._config.duration(leaf.spec.hold if leaf.spec is not None else None)

    def _assumed(self, uids: Iterable[str]) -> list[Pod]:
        """Return the expected pods that have a place."""
        found = (self._state.pods.get(uid) for uid in uids)
        return [pod for pod in found if pod is not None and pod.assumed]

    def _groups(self) -> Iterator[Group]:
        """Yield the groups that expect pods, as far as they are known."""
        groups = self._state.forest.groups
        return (group for key in self._expected if (group := groups.get(key)) is not None)

    def _release_lost(self) -> bool:
        """Release the places on nodes that are deleted or no longer take such pods."""
        lost = list(self._on_deleted_nodes())
        rows, nodes = self._rows_to_check(), self._state.nodes
        # A node can be overcommitted: by pods of other schedulers, or after its allocatable shrank.
        crowded = set(np.flatnonzero((nodes.free < 0).any(axis=0)).tolist())
        for row in rows:
            of_shape: dict[int, list[Pod]] = {}
            for pod in self._state.pods_on(nodes.name_of(row)):
                if pod.info.expected:
                    of_shape.setdefault(pod.shape.index, []).append(pod)
            for pods in of_shape.values():
                # Trials are expensive. A node that is not crowded and permits the shape needs none.
                if row in crowded or not self._stay(pods[0]):
                    lost += pods[self._capacity(pods) :]
        for pod in lost:
            self._state.forget(pod.info.uid)
        return bool(lost)

    def _on_deleted_nodes(self) -> Iterator[Pod]:
        """Yield the expected pods whose nodes are deleted."""
        generation = self._state.nodes.generation
        # Not while no node changed: there may be thousands of places.
        if generation != self._generation:
            for group in self._groups():
                for pod in group.members.values() if group.expected_held else ():
                    if pod.info.expected and pod.assumed and pod.row < 0:
                        yield pod
        self._generation = generation

    def _rows_to_check(self) -> list[int]:
        """Return the rows of nodes that changed since the last check, and some of the others.

        Changes caused by pods on other nodes, as by their affinity, are found with the others.
        """
        nodes = self._state.nodes
        self._looks += 1
        changed = set(nodes.changed_since(self._seen).tolist())
        changed.update(range(self._looks % _ALL_AFTER, nodes.size, _ALL_AFTER))
        self._seen = nodes.stamp
        return sorted(row for row in changed if nodes.infos[row] is not None)

    def _stay(self, pod: Pod) -> bool:
        """True if such pods can keep the node as long as it is not crowded."""
        shape, framework = pod.shape, self._state.framework
        simple = not shape.filter_match_ids and framework.only_counts(shape)
        return simple and bool(framework.permitted(shape)[pod.row])

    def _capacity(self, pods: list[Pod]) -> int:
        """Return how many of these pods, of one shape on one node, can keep the node."""
        if pods[0].shape.self_interacting:
            return len(pods)
        try:
            with self._work_allowed(pods[0]):
                return self._slots_without(pods, pods[0].shape, self._returning(pods))
        except POSTPONED:
            # Results so far are cached: the next check continues from here.
            return len(pods)

    def _slots_without(self, pods: list[Pod], shape: Shape, claims: Iterable[ClaimKey] = ()) -> int:
        """Return how many pods of the shape fit there without these pods and these `claims`."""
        own, row = pods[0].shape, np.array([pods[0].row], np.int64)
        with self._state.nodes.trial():
            if own.needs_devices:
                keys = (key for pod in pods for key in own_keys(pod.info))
                self._state.devices.free([*keys, *claims])
            count = np.array([-len(pods)], np.int64)
            self._state.framework.occupy(own, row, count, devices=False)
            return int(self._state.framework.slots_in(shape, row)[0])

    def _work_allowed(self, pod: Pod) -> AbstractContextManager[None]:
        if self._device_work is None:
            return nullcontext()
        return self._device_work.allowed(pod.info.namespace, alone=False)

    def _may_use(self, pod: Pod, expected: Pod) -> bool:
        """False if the predecessor of the place is about to release its devices."""
        if expected.row < 0 or not expected.shape.needs_devices:
            return True
        with self._work_allowed(pod):
            if self._slots_without([expected], pod.shape):
                return True
        # The pod does not fit for another reason, and waiting would not help.
        if not self._returning([expected]):
            return True
        self._deferred.add(pod.info.uid)
        return False

    def _returning(self, pods: list[Pod]) -> set[ClaimKey]:
        """Return the claims of these places' former pods that are to release their devices."""
        use, returning = self._state.devices.use, self._state.devices.consumers.returning
        if not returning:
            return set()
        keys = (key for pod in pods for key in own_keys(pod.info))
        held = (each.key for key in keys for each in use.held(key))
        return {claim for device in held for claim in use.takers(device) if claim in returning}

    def _begun_for(self, root: Group) -> _Begun:
        """Return when places were first held for the root: as its status reports it, else now."""
        begun = self._begun.get(root.key)
        if begun is None:
            # Users can write the status, too: a later time would hold the places for longer.
            # A time that ended in this term may still be in the status, which is written later.
            leaves = root.leaves() if root.key not in self._ended else ()
            published = (published_since(self._observed.get(leaf.key)) for leaf in leaves)
            stamp = min((self._clock.now(), *filter(None, published)))
            begun = self._begun[root.key] = _Begun(since(self._clock, stamp.timestamp()), stamp)
        return begun

    def _came(self, leaf: Group) -> Iterator[tuple[Pod, Pod]]:
        """Yield the waiting pods of the leaf, each with the expected pod whose place it takes."""
        if not leaf.expected_held:
            return
        for kind in self._expected.kinds(leaf.key):
            waiting = (pod for pod in map(self._state.pods.get, kind.came) if pod and pod.waiting)
            yield from zip(waiting, self._assumed(kind.expected)[: kind.excess], strict=False)

    def _use_held_place(self, pod: Pod, expected: Pod, budget: SearchBudget) -> int | None:
        """Assume the expected pod's node for the pod. Return its row, None if it does not fit."""
        row, uid = expected.row, expected.info.uid
        # Removed first, as the pod is to use its capacity. If the pod does not fit, the place is
        # given up: no other pod will come.
        self._state.remove_pod(uid)
        self._expected.removed(uid)
        if row < 0:
            return None
        return row if assume_on(self._state, pod, row, budget) else None
