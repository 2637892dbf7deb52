"""Expected pods: members of a group that do not exist yet, each represented in the state.

An owner that creates some pods only after others run lists them in the group's `expectedPods`. For
each kind, the state has as many expected pods as members are missing. A pod that arrives counts for
the kind whose template has the same requirements, else for the nearest kind that still misses pods.
An expected pod with a held place remains until the pod that arrived uses the place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from api.constants import MAX_EXPECTED_KINDS, MAX_EXPECTED_PODS, POD_GROUP
from api.scheduler_names import USUAL, SchedulerNames
from kube.client.meta import Key
from scheduler.core.groups.forest import Group
from scheduler.core.groups.forest import Pod as StatePod
from scheduler.core.search.place import assume_on
from scheduler.core.state.state import State
from scheduler.core.values.devices import Allocation
from scheduler.core.values.model import ClaimKey, GroupKey, PodInfo, Stage
from scheduler.decoding.objects import GroupObject
from scheduler.expected.claims import ExpectedClaims, Thing, own_keys
from scheduler.expected.kinds import (
    ExpectedGroup,
    ExpectedPodKind,
    counts,
    is_held,
    nearest,
    problem_of,
)
from scheduler.expected.pod_info import has_volumes, info_of, numbered, parse, uid_of
from scheduler.support.config import ExpectedLimits


@dataclass(slots=True)
class ExpectedPodChanges:
    """Expected pods to set in the state, and UIDs of the deleted ones."""

    set: list[PodInfo] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    def apply(self, state: State) -> None:
        for uid in self.deleted:
            state.remove_pod(uid)
        for info in self.set:
            state.set_pod(info)


@dataclass(frozen=True, slots=True)
class LastPodState:
    """The last state of a pod: the row of the node that it used (-1: none), and if it succeeded.

    `claims` are those that it used, with their allocations.
    """

    row: int
    succeeded: bool
    claims: tuple[tuple[ClaimKey, Allocation | None], ...] = ()

    @classmethod
    def of(cls, state: State, uid: str) -> LastPodState | None:
        """Return the state of the pod as it is now, None if it is unknown."""
        pod = state.pods.get(uid)
        if pod is None:
            return None
        # The preemptor gets the place of a victim, not the victim's replacement.
        evicted = uid in state.units.evicting or pod.info.preemption.targeted
        runs = pod.info.node and not pod.ended and not evicted
        allocation = state.devices.allocation
        claims = tuple((key, allocation(key)) for key in pod.info.device_claims if runs)
        return cls(pod.row if runs else -1, pod.info.phase == "Succeeded", claims)


@dataclass(frozen=True, slots=True)
class KindNow:
    """A kind of a group: UIDs of the pods that `came` and of the expected ones.

    `excess` of the expected ones have places that pods that arrived do not use yet.
    """

    name: str
    came: tuple[str, ...]
    expected: tuple[str, ...]
    excess: int


class ExpectedPods:
    """The expected pods of all groups, within `limits` for each namespace.

    ResourceQuotas do not count them, so without a limit a namespace could hold more than it may
    use. `claims` has their requests for devices: call `renewed` after these change.
    """

    def __init__(
        self,
        state: State,
        limits: ExpectedLimits,
        schedulers: SchedulerNames = USUAL,
        *,
        claims_refused: str = "",
    ) -> None:
        """Start without groups. `claims_refused` is why pods with claims are refused, if so."""
        self.claims = ExpectedClaims(state.devices, claims_refused)
        self._state = state
        self._limits = limits
        self._schedulers = schedulers
        self._groups: dict[Key, ExpectedGroup] = {}
        self._of: dict[str, tuple[Key, str]] = {}
        self._in_namespace: Counter[str] = Counter()
        self._requested: dict[str, Counter[str]] = {}
        self._new_places: list[str] = []
        self._new_kinds: dict[str, None] = {}
        self._touched: dict[Key, None] = {}

    def __iter__(self) -> Iterator[GroupKey]:
        """Return the PodGroups that expect pods."""
        return iter([(POD_GROUP.kind, *key) for key in self._groups])

    def __contains__(self, key: GroupKey) -> bool:
        return key[1:] in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def on_group_changed(self, key: Key, group: GroupObject | None) -> ExpectedPodChanges:
        """Apply a PodGroup (None: deleted). Raises QuantityError if a template is invalid."""
        known = self._groups.get(key)
        written = [] if group is None else group.spec.expected_pods
        if known is None and not written:
            return ExpectedPodChanges()
        # All templates are decoded first: an invalid one leaves the group as it was.
        kinds = {} if group is None or not written else dict(self._kinds(key, group))
        if known is None:
            known = self._groups[key] = ExpectedGroup(key)
            # Pods may arrive before the object of their group.
            self._take_in_members(known, kinds)
        known.obj = group
        changes = ExpectedPodChanges()
        for name in list(known.kinds):
            self._replace(known, name, kinds.get(name), changes)
        for name, kind in kinds.items():
            known.kinds.setdefault(name, kind)
        self._balance(known, changes)
        if not known.kinds:
            self._forget_group(known)
        return changes

    def renewed(self) -> ExpectedPodChanges:
        """Evaluate some of the groups again whose pods name a changed object."""
        changes = ExpectedPodChanges()
        for key in self.claims.stale():
            known = self._groups.get(key)
            if known is not None:
                more = self.on_group_changed(key, known.obj)
                changes.set += more.set
                changes.deleted += more.deleted
        return changes

    def on_pod_changed(self, info: PodInfo, left: LastPodState | None = None) -> ExpectedPodChanges:
        """Apply a pod, which may replace an expected one. `left` is its last state."""
        # Every event of a pod comes here, and most clusters have no expected pods.
        if not self._groups or info.group is None or info.group_kind != POD_GROUP.kind:
            return self.forget(info.uid) if info.uid in self._of else ExpectedPodChanges()
        key = (info.namespace, info.group)
        group = self._groups.get(key)
        before = self._of.get(info.uid)
        if group is None or not counts(info) or (before is not None and before[0] != key):
            changes = self.forget(info.uid, left)
            if group is None or not counts(info):
                return changes
        if info.uid in self._of:
            self._note_success(group, info)
            return ExpectedPodChanges()
        self._take_in(group, info)
        return self._balance(group, ExpectedPodChanges())

    def forget(self, uid: str, left: LastPodState | None = None) -> ExpectedPodChanges:
        """Drop a pod that is deleted or does not count; `left` is its last state, if known.

        An expected pod gets its place, for the replacement that its owner creates.
        """
        key, name = self._of.pop(uid, (None, ""))
        group = self._groups.get(key) if key is not None else None
        if group is None:
            return ExpectedPodChanges()
        group.extra.discard(uid)
        kind = group.kinds.get(name)
        if kind is not None:
            # Its owner creates no replacement for a pod that succeeded.
            kind.done += left is not None and left.succeeded and uid in kind.came
            for uids in (kind.came, kind.over, kind.replaced):
                uids.discard(uid)
            self._take_in_extra(group)
            if left is not None and left.row >= 0:
                self._succeed(group, name, kind, left)
        # With no member left, the owner starts again and creates all pods.
        if not any(each.came for each in group.kinds.values()):
            for each in group.kinds.values():
                each.done = 0
        return self._balance(group, ExpectedPodChanges())

    def removed(self, uid: str) -> None:
        """Record that an expected pod left the state, as a pod that arrived uses its place."""
        key, name, number = parse(uid)
        group = self._groups.get(key)
        if group is not None and name in group.kinds:
            numbers = group.kinds[name].numbers
            self._in_namespace[key[0]] -= number in numbers
            numbers.discard(number)
            self._note_requests(group)

    def expire(self, key: GroupKey, *, expired: bool = True) -> ExpectedPodChanges:
        """End the time of the group's held places, or start it again."""
        group = self._groups.get(key[1:])
        if group is None or group.expired == expired:
            return ExpectedPodChanges()
        group.expired = expired
        return self._balance(group, ExpectedPodChanges())

    def expired(self, key: GroupKey) -> bool:
        """True if places are no longer held for the group."""
        group = self._groups.get(key[1:])
        return group is not None and group.expired

    def any_expired(self, root: Group) -> bool:
        """True if a group of the tree has lost its places because their time was over."""
        return bool(self._groups) and any(self.expired(leaf.key) for leaf in root.leaves())

    def touch_all(self) -> None:
        """Have `take_touched` return all groups that expect pods."""
        self._touched |= dict.fromkeys(self._groups)

    def take_touched(self) -> list[GroupKey]:
        """Return the groups whose `problem` may have changed since the last call."""
        touched, self._touched = self._touched, {}
        return [(POD_GROUP.kind, *key) for key in touched]

    def problem(self, key: GroupKey) -> str:
        """Return why expected pods do not count, or how arrived ones differ, or an empty text."""
        group = self._groups.get(key[1:])
        if group is None:
            return ""
        if group.refused:
            return group.refused
        if group.extra:
            return f"{len(group.extra)} pods are more than expectedPods has"
        for name, kind in sorted(group.kinds.items()):
            if kind.missing and (lack := problem_of(kind.info)):
                return f"the expected pods {name} are not placed: {lack}"
        unseen = sorted(f"{it.unseen} of {name}" for name, it in group.kinds.items() if it.unseen)
        if unseen:
            return f"no {', '.join(unseen)} are held: these are looked at once the pods exist"
        return ""

    def staged(self, info: PodInfo) -> PodInfo:
        """Return the pod with the stage of the kind that it counts for."""
        key, name = self._of.get(info.uid, (None, "")) if self._of else (None, "")
        group = self._groups.get(key) if key is not None else None
        kind = group.kinds.get(name) if group is not None else None
        expected = kind.info.requirements.stage if kind is not None else None
        stage = None if expected is None else Stage(expected.number)
        if stage == info.requirements.stage:
            return info
        return replace(info, requirements=replace(info.requirements, stage=stage))

    def kinds(self, key: GroupKey) -> list[KindNow]:
        """Return the current kinds of a PodGroup."""
        group = self._groups.get(key[1:])
        if group is None:
            return []
        return [
            KindNow(
                name,
                tuple(sorted(kind.came)),
                tuple(uid_of(group.key, name, at) for at in sorted(kind.numbers)),
                max(0, len(kind.numbers) - kind.missing),
            )
            for name, kind in group.kinds.items()
        ]

    def new_places(self) -> list[str]:
        """Return, and clear, the UIDs of the expected pods that got places of deleted pods.

        No decision placed them, so no Reservation has them.
        """
        found, self._new_places = self._new_places, []
        return found

    def _take_in_extra(self, group: ExpectedGroup) -> None:
        """Count surplus pods as replacements: they may be older than the deletions."""
        for uid in sorted(group.extra) if any(it.missing for it in group.kinds.values()) else ():
            pod = self._state.pods.get(uid)
            if pod is not None:
                group.extra.discard(uid)
                self._take_in(group, pod.info)

    def _succeed(
        self, group: ExpectedGroup, name: str, kind: ExpectedPodKind, left: LastPodState
    ) -> None:
        """Give the place of a deleted pod to an expected one, if it fits there."""
        # No place for more pods than expected: the replacement may be placed already.
        placed = sum(not self._is_unplaced(uid) for uid in kind.came)
        held = sum(map(self._is_held_number, ((group.key, name, at) for at in kind.numbers)))
        if group.expired or group.refused or placed + held + kind.done >= kind.count:
            return
        waiting = [at for at in kind.numbers if not self._is_held_number((group.key, name, at))]
        free = (at for at in range(kind.count) if at not in kind.numbers)
        # One without a place first: a new one would count against the namespace's limit.
        at = min(waiting) if waiting else next(free, None)
        if at is None:
            return
        if at not in kind.numbers:
            if self._in_namespace[group.key[0]] >= self._limits.pods:
                return
            kind.numbers.add(at)
            self._in_namespace[group.key[0]] += 1
            self._state.set_pod(numbered(kind.info, group.key, name, at))
        pod = self._state.pods[uid_of(group.key, name, at)]
        if self._inherit(pod, left) or assume_on(self._state, pod, left.row):
            self._new_places.append(pod.info.uid)

    def _inherit(self, pod: StatePod, left: LastPodState) -> bool:
        """Assume devices for an expected pod that its predecessor has not released yet."""
        keys, own = pod.info.device_claims, set(own_keys(pod.info))
        if not own or len(keys) != len(left.claims):
            return False
        pairs = zip(keys, left.claims, strict=True)
        given = {key: (claim, has) for key, (claim, has) in pairs if key in own}
        devices = {key: has for key, (_, has) in given.items() if has is not None}
        if len(devices) < len(own):
            return False
        row = np.array([left.row])
        # The devices are in use by the old claim until kube-controller-manager releases it, and
        # others could get them then. So the check ignores that claim, and the expected pod shares
        # its devices from now on.
        with self._state.nodes.trial():
            self._state.devices.free([claim for claim, _ in given.values()])
            if not int(self._state.framework.slots_in(pod.shape, row)[0]):
                return False
        self._state.assume([pod], [left.row], devices=devices)
        return True

    def _is_held_number(self, number: tuple[Key, str, int]) -> bool:
        return is_held(self._state.pods.get(uid_of(*number)))

    def _take_in_members(self, group: ExpectedGroup, kinds: dict[str, ExpectedPodKind]) -> None:
        group.kinds = kinds
        known = self._state.forest.groups.get((POD_GROUP.kind, *group.key))
        for pod in list(known.members.values()) if known is not None else ():
            if not pod.info.expected and counts(pod.info):
                self._take_in(group, pod.info)

    def _take_in(self, group: ExpectedGroup, info: PodInfo) -> None:
        succeeded = info.phase == "Succeeded"
        name = nearest(info, {name: kind for name, kind in group.kinds.items() if kind.missing})
        if not name:
            # The count is of pods that run at the same time. A Job with more completions creates
            # others after some have succeeded, so these replace them.
            ended = {it: kind for it, kind in group.kinds.items() if succeeded or kind.over}
            name = nearest(info, ended)
            if name and succeeded:
                group.kinds[name].replaced.add(info.uid)
                self._of[info.uid] = (group.key, name)
                return
            if name:
                group.kinds[name].replace_one()
        self._of[info.uid] = (group.key, name)
        self._new_kinds[info.uid] = None
        if name:
            group.kinds[name].came.add(info.uid)
        else:
            group.extra.add(info.uid)
        self._note_success(group, info)

    def _note_success(self, group: ExpectedGroup, info: PodInfo) -> None:
        kind = group.kinds.get(self._of[info.uid][1])
        if kind is not None and info.phase == "Succeeded" and info.uid in kind.came:
            kind.over.add(info.uid)

    def _replace(
        self,
        group: ExpectedGroup,
        name: str,
        new: ExpectedPodKind | None,
        changes: ExpectedPodChanges,
    ) -> None:
        """Replace a kind by its new definition (None: it was removed)."""
        old = group.kinds[name]
        self._new_kinds |= dict.fromkeys(old.came)
        if new is None:
            del group.kinds[name]
            group.extra |= old.came
            self._of |= dict.fromkeys(old.came, (group.key, ""))
            for uid in old.replaced:
                del self._of[uid]
        # Only the count changed: expected pods keep their places.
        elif new.info == old.info:
            old.count, old.unseen = new.count, new.unseen
            return
        else:
            new.came, new.over, new.replaced = old.came, old.over, old.replaced
            group.kinds[name] = new
        # Places were chosen for the old template, so they are not kept for the new one.
        changes.deleted += [uid_of(group.key, name, at) for at in sorted(old.numbers)]
        self._in_namespace[group.key[0]] -= len(old.numbers)

    def _balance(self, group: ExpectedGroup, changes: ExpectedPodChanges) -> ExpectedPodChanges:
        """Match the number of expected pods to the missing ones."""
        self._touched[group.key] = None
        # First, as a refused group expects nothing.
        self._limit(group)
        off = group.expired or bool(group.refused)
        for name, kind in group.kinds.items():
            wanted = 0 if off else kind.missing
            free = (at for at in range(kind.count) if at not in kind.numbers)
            for at in [next(free) for _ in range(wanted - len(kind.numbers))]:
                kind.numbers.add(at)
                self._in_namespace[group.key[0]] += 1
                changes.set.append(numbered(kind.info, group.key, name, at))
            surplus = len(kind.numbers) - wanted
            # Pods that arrived and still wait are about to use these places.
            keep = 0 if off else min(surplus, sum(map(self._is_unplaced, kind.came)))
            for at in self._to_go(group, name, kind, surplus, keep):
                kind.numbers.discard(at)
                self._in_namespace[group.key[0]] -= 1
                changes.deleted.append(uid_of(group.key, name, at))
        self._note_requests(group)
        self._restage(changes)
        return changes

    def _restage(self, changes: ExpectedPodChanges) -> None:
        """Update the stage of pods that now count for another kind."""
        kinds, self._new_kinds = self._new_kinds, {}
        for uid in kinds:
            pod = self._state.pods.get(uid)
            info = None if pod is None else self.staged(pod.info)
            if pod is not None and info is not None and info is not pod.info:
                changes.set.append(info)

    def _to_go(
        self, group: ExpectedGroup, name: str, kind: ExpectedPodKind, surplus: int, keep: int
    ) -> list[int]:
        """Return the numbers of surplus expected pods, except `keep` that have a place."""
        if surplus <= 0:
            return []
        pods = {at: self._state.pods.get(uid_of(group.key, name, at)) for at in kind.numbers}
        # Pods without a place first: nothing is lost with them. Then the highest numbers.
        ordered = sorted(pods, key=lambda at: (is_held(pods[at]), -at))
        unplaced = sum(not is_held(pod) for pod in pods.values())
        return ordered[: max(surplus - keep, min(surplus, unplaced))]

    def _is_unplaced(self, uid: str) -> bool:
        pod = self._state.pods.get(uid)
        return pod is not None and not pod.placed and not pod.ended

    def _limit(self, group: ExpectedGroup) -> None:
        """Expect nothing for a group with which its namespace would exceed a limit."""
        namespace, own = group.key[0], sum(len(kind.numbers) for kind in group.kinds.values())
        wanted = sum(kind.missing for kind in group.kinds.values())
        others = self._in_namespace[namespace] - own
        group.refused = ""
        # Only growth is refused: a group keeps what it has if the limit is lowered.
        if wanted > own and others + wanted > self._limits.pods:
            group.refused = (
                f"its {wanted} expected pods do not count: with {others} of other groups namespace"
                f" {namespace} would have more than {self._limits.pods} (holding.podsPerNamespace)"
            )
        elif resource := self._too_much(group):
            group.refused = (
                f"its {wanted} expected pods do not count: with those of other groups they would"
                f" request more {resource} in namespace {namespace} than its expected pods may"
                " (holding.requestsPerNamespace)"
            )

    def _too_much(self, group: ExpectedGroup) -> str:
        """Return the first resource whose limit its missing pods exceed, or an empty text."""
        if not self._limits.requests:
            return ""
        wanted = group.requests({name: kind.missing for name, kind in group.kinds.items()})
        others = self._requested.get(group.key[0], Counter())
        for resource, most in sorted(self._limits.requests.items()):
            own, more = group.requested[resource], wanted[resource]
            if more > own and others[resource] - own + more > most:
                return resource
        return ""

    def _note_requests(self, group: ExpectedGroup) -> None:
        """Record the requests of its expected pods, if they are limited."""
        if not self._limits.requests:
            return
        now = group.requests({name: len(kind.numbers) for name, kind in group.kinds.items()})
        of_all = self._requested.setdefault(group.key[0], Counter())
        of_all.subtract(group.requested)
        of_all.update(now)
        group.requested = now
        if not any(of_all.values()):
            del self._requested[group.key[0]]

    def _kinds(self, key: Key, group: GroupObject) -> Iterator[tuple[str, ExpectedPodKind]]:
        """Yield the kinds. Entries beyond the limits of admission are ignored."""
        things: set[Thing] = set()
        for each in group.spec.expected_pods[:MAX_EXPECTED_KINDS]:
            # Admission rejects these, but must not be relied on: the name becomes a part of UIDs.
            if each.name and "/" not in each.name and 0 <= each.count <= MAX_EXPECTED_PODS:
                spec = each.template.spec
                info = info_of(key, group, each, self._schedulers)
                info, named = self.claims.applied(info, spec)
                things |= named
                unseen = (
                    "ResourceClaims" if self.claims.unseen(spec) else "",
                    "volumes" if has_volumes(each) else "",
                )
                yield (
                    each.name,
                    ExpectedPodKind(info, each.count, unseen=" and ".join(filter(None, unseen))),
                )
        self.claims.note(key, things)

    def _forget_group(self, group: ExpectedGroup) -> None:
        self.claims.forget(group.key)
        for uid in group.extra:
            self._of.pop(uid, None)
        del self._groups[group.key]
        if not self._in_namespace[group.key[0]]:
            del self._in_namespace[group.key[0]]
