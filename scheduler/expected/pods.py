"""Pods that a group will have and that do not exist yet: the state has one of its own for each.

An owner that creates some pods only after others run says so in the group's `expectedPods`. For
each kind there are as many expected pods as members are missing. A pod that comes is counted as one
of the kind whose template asks for the same, or else of the nearest that still expects some. An
expected pod whose place is held stays until the pod that came has taken the place over.
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
from scheduler.expected.kinds import ExpectedGroup, Kind, counts, is_held, lack_of, nearest
from scheduler.expected.pod_info import has_volumes, info_of, numbered, parse, uid_of
from scheduler.support.config import ExpectedLimits


@dataclass(slots=True)
class Changes:
    """Expected pods to be set in the state, and the UIDs of those to be removed."""

    set: list[PodInfo] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Left:
    """What a pod was that is gone: where it had room (-1: nowhere), and whether it succeeded.

    `claims` are those that it used, with what they have.
    """

    row: int
    succeeded: bool
    claims: tuple[tuple[ClaimKey, Allocation | None], ...] = ()

    @classmethod
    def of(cls, state: State, uid: str) -> Left | None:
        """As the pod is now; None if it is not known. What is evicted leaves its room to others."""
        pod = state.pods.get(uid)
        if pod is None:
            return None
        evicted = uid in state.units.evicting or pod.info.preemption.targeted
        runs = pod.info.node and not pod.ended and not evicted
        allocation = state.devices.allocation
        claims = tuple((key, allocation(key)) for key in pod.info.device_claims if runs)
        return cls(pod.row if runs else -1, pod.info.phase == "Succeeded", claims)


@dataclass(frozen=True, slots=True)
class KindNow:
    """A kind of a group: UIDs of the pods that `came` and of those expected, and how many too many.

    Those in `excess` are expected ones whose places pods that came have not taken over yet.
    """

    name: str
    came: tuple[str, ...]
    expected: tuple[str, ...]
    excess: int


class ExpectedPods:
    """The expected pods of all groups, within `limits` for each namespace.

    ResourceQuotas do not see them, so without a limit a namespace could hold more than it may use.
    `claims` are what they ask of devices: call `renewed` after changes of those.
    """

    def __init__(
        self,
        state: State,
        limits: ExpectedLimits,
        schedulers: SchedulerNames = USUAL,
        *,
        claims_refused: str = "",
    ) -> None:
        """`claims_refused` says why pods with ResourceClaims are refused; empty if they are not."""
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
        """The PodGroups that expect pods."""
        return iter([(POD_GROUP.kind, *key) for key in self._groups])

    def __contains__(self, key: GroupKey) -> bool:
        return key[1:] in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def group_is(self, key: Key, group: GroupObject | None) -> Changes:
        """A PodGroup is there, or gone (None).

        Raises kube.client.quantity.QuantityError for a request in a template that is no quantity.
        """
        known = self._groups.get(key)
        written = [] if group is None else group.spec.expected_pods
        if known is None and not written:
            return Changes()
        kinds = {} if group is None or not written else dict(self._kinds(key, group))
        if known is None:
            known = self._groups[key] = ExpectedGroup(key)
            self._take_in_members(known, kinds)
        known.obj = group
        changes = Changes()
        for name in list(known.kinds):
            self._replace(known, name, kinds.get(name), changes)
        for name, kind in kinds.items():
            known.kinds.setdefault(name, kind)
        self._balance(known, changes)
        if not known.kinds:
            self._forget_group(known)
        return changes

    def renewed(self) -> Changes:
        """Some of the groups are counted anew, of which something changed that their pods name."""
        changes = Changes()
        for key in self.claims.stale():
            known = self._groups.get(key)
            if known is not None:
                more = self.group_is(key, known.obj)
                changes.set += more.set
                changes.gone += more.gone
        return changes

    def pod_is(self, info: PodInfo, left: Left | None = None) -> Changes:
        """A pod is so now; it may have come instead of an expected one. `left` is what it was."""
        if not self._groups or info.group is None:
            return self.forget(info.uid) if info.uid in self._of else Changes()
        key = (info.namespace, info.group)
        group = self._groups.get(key)
        before = self._of.get(info.uid)
        if group is None or not counts(info) or (before is not None and before[0] != key):
            changes = self.forget(info.uid, left)
            if group is None or not counts(info):
                return changes
        if info.uid in self._of:
            self._note_success(group, info)
            return Changes()
        self._take_in(group, info)
        return self._balance(group, Changes())

    def forget(self, uid: str, left: Left | None = None) -> Changes:
        """The pod is gone, or does not count any more; `left` is what it was, if that is known.

        Where it ran an expected pod has its place, for the one that its owner makes again.
        """
        key, name = self._of.pop(uid, (None, ""))
        group = self._groups.get(key) if key is not None else None
        if group is None:
            return Changes()
        group.extra.discard(uid)
        kind = group.kinds.get(name)
        if kind is not None:
            kind.done += left is not None and left.succeeded and uid in kind.came
            for uids in (kind.came, kind.over, kind.replaced):
                uids.discard(uid)
            self._take_in_extra(group)
            if left is not None and left.row >= 0:
                self._succeed(group, name, kind, left)
        if not any(each.came for each in group.kinds.values()):
            for each in group.kinds.values():
                each.done = 0
        return self._balance(group, Changes())

    def removed(self, uid: str) -> None:
        """An expected pod was removed from the state: another took its place over."""
        key, name, number = parse(uid)
        group = self._groups.get(key)
        if group is not None and name in group.kinds:
            numbers = group.kinds[name].numbers
            self._in_namespace[key[0]] -= number in numbers
            numbers.discard(number)
            self._note_requests(group)

    def expire(self, key: GroupKey, *, expired: bool = True) -> Changes:
        """The time of the group's held places is over, or begins anew."""
        group = self._groups.get(key[1:])
        if group is None or group.expired == expired:
            return Changes()
        group.expired = expired
        return self._balance(group, Changes())

    def expired(self, key: GroupKey) -> bool:
        """Whether no places are held for the group any more."""
        group = self._groups.get(key[1:])
        return group is not None and group.expired

    def any_expired(self, root: Group) -> bool:
        """Whether places of a group of the tree were given up as their time was over."""
        return bool(self._groups) and any(self.expired(leaf.key) for leaf in root.leaves())

    def touch_all(self) -> None:
        """Have `take_touched` return all groups that expect pods."""
        self._touched |= dict.fromkeys(self._groups)

    def take_touched(self) -> list[GroupKey]:
        """The groups whose `problem` may be another one since the last call."""
        touched, self._touched = self._touched, {}
        return [(POD_GROUP.kind, *key) for key in touched]

    def problem(self, key: GroupKey) -> str:
        """Why the group's expected pods do not count, or how those that came differ; or empty."""
        group = self._groups.get(key[1:])
        if group is None:
            return ""
        if group.refused:
            return group.refused
        if group.extra:
            return f"{len(group.extra)} pods are more than expectedPods has"
        for name, kind in sorted(group.kinds.items()):
            if kind.missing and (lack := lack_of(kind.info)):
                return f"the expected pods {name} are not placed: {lack}"
        unseen = sorted(f"{it.unseen} of {name}" for name, it in group.kinds.items() if it.unseen)
        if unseen:
            return f"no {', '.join(unseen)} are held: these are looked at once the pods exist"
        return ""

    def staged(self, info: PodInfo) -> PodInfo:
        """The pod with the stage of the kind that it was counted as."""
        key, name = self._of.get(info.uid, (None, "")) if self._of else (None, "")
        group = self._groups.get(key) if key is not None else None
        kind = group.kinds.get(name) if group is not None else None
        expected = kind.info.requirements.stage if kind is not None else None
        stage = None if expected is None else Stage(expected.number)
        if stage == info.requirements.stage:
            return info
        return replace(info, requirements=replace(info.requirements, stage=stage))

    def kind_of(self, uid: str) -> str:
        """The kind that a pod was counted as; empty if none."""
        return self._of.get(uid, (None, ""))[1]

    def kinds(self, key: GroupKey) -> list[KindNow]:
        """The kinds of a PodGroup, as they are now."""
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
        """UIDs of the expected pods that took over places of pods that are gone; empties the list.

        No decision placed them, so no Reservation has them.
        """
        found, self._new_places = self._new_places, []
        return found

    def _take_in_extra(self, group: ExpectedGroup) -> None:
        """Pods that were too many may be those that were made again."""
        for uid in sorted(group.extra) if any(it.missing for it in group.kinds.values()) else ():
            pod = self._state.pods.get(uid)
            if pod is not None:
                group.extra.discard(uid)
                self._take_in(group, pod.info)

    def _succeed(self, group: ExpectedGroup, name: str, kind: Kind, left: Left) -> None:
        """An expected pod takes the place of one that is gone, if it fits there."""
        placed = sum(not self._is_unplaced(uid) for uid in kind.came)
        held = sum(map(self._is_held_number, ((group.key, name, at) for at in kind.numbers)))
        if group.expired or group.refused or placed + held + kind.done >= kind.count:
            return
        waiting = [at for at in kind.numbers if not self._is_held_number((group.key, name, at))]
        free = (at for at in range(kind.count) if at not in kind.numbers)
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

    def _inherit(self, pod: StatePod, left: Left) -> bool:
        """Assume the devices for an expected pod that the one before it has not given back yet."""
        keys, own = pod.info.device_claims, set(own_keys(pod.info))
        if not own or len(keys) != len(left.claims):
            return False
        pairs = zip(keys, left.claims, strict=True)
        given = {key: (claim, has) for key, (claim, has) in pairs if key in own}
        devices = {key: has for key, (_, has) in given.items() if has is not None}
        if len(devices) < len(own):
            return False
        row = np.array([left.row])
        with self._state.nodes.trial():
            self._state.devices.free([claim for claim, _ in given.values()])
            if not int(self._state.framework.slots_in(pod.shape, row)[0]):
                return False
        self._state.assume([pod], [left.row], devices=devices)
        return True

    def _is_held_number(self, number: tuple[Key, str, int]) -> bool:
        return is_held(self._state.pods.get(uid_of(*number)))

    def _take_in_members(self, group: ExpectedGroup, kinds: dict[str, Kind]) -> None:
        group.kinds = kinds
        known = self._state.forest.groups.get((POD_GROUP.kind, *group.key))
        for pod in list(known.members.values()) if known is not None else ():
            if not pod.info.expected and counts(pod.info):
                self._take_in(group, pod.info)

    def _take_in(self, group: ExpectedGroup, info: PodInfo) -> None:
        succeeded = info.phase == "Succeeded"
        name = nearest(info, {name: kind for name, kind in group.kinds.items() if kind.missing})
        if not name:
            # As many as are expected run at once: others come for those that are done.
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

    def _replace(self, group: ExpectedGroup, name: str, new: Kind | None, changes: Changes) -> None:
        """A kind as it is written now; None: it is no more."""
        old = group.kinds[name]
        self._new_kinds |= dict.fromkeys(old.came)
        if new is None:
            del group.kinds[name]
            group.extra |= old.came
            self._of |= dict.fromkeys(old.came, (group.key, ""))
            for uid in old.replaced:
                del self._of[uid]
        elif new.info == old.info:
            old.count, old.unseen = new.count, new.unseen
            return
        else:
            new.came, new.over, new.replaced = old.came, old.over, old.replaced
            group.kinds[name] = new
        changes.gone += [uid_of(group.key, name, at) for at in sorted(old.numbers)]
        self._in_namespace[group.key[0]] -= len(old.numbers)

    def _balance(self, group: ExpectedGroup, changes: Changes) -> Changes:
        """As many expected pods as are missing; of those with a place only what came too late."""
        self._touched[group.key] = None
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
            # Pods that came, and wait still, are to take places over.
            keep = 0 if off else min(surplus, sum(map(self._is_unplaced, kind.came)))
            for at in self._to_go(group, name, kind, surplus, keep):
                kind.numbers.discard(at)
                self._in_namespace[group.key[0]] -= 1
                changes.gone.append(uid_of(group.key, name, at))
        self._note_requests(group)
        self._restage(changes)
        return changes

    def _restage(self, changes: Changes) -> None:
        """Let pods that are counted as another kind have the stage of that one."""
        kinds, self._new_kinds = self._new_kinds, {}
        for uid in kinds:
            pod = self._state.pods.get(uid)
            info = None if pod is None else self.staged(pod.info)
            if pod is not None and info is not None and info is not pod.info:
                changes.set.append(info)

    def _to_go(
        self, group: ExpectedGroup, name: str, kind: Kind, surplus: int, keep: int
    ) -> list[int]:
        """The numbers of expected pods that are too many, but `keep` that have a place."""
        if surplus <= 0:
            return []
        pods = {at: self._state.pods.get(uid_of(group.key, name, at)) for at in kind.numbers}
        # Those without a place first, then the last.
        ordered = sorted(pods, key=lambda at: (is_held(pods[at]), -at))
        unplaced = sum(not is_held(pod) for pod in pods.values())
        return ordered[: max(surplus - keep, min(surplus, unplaced))]

    def _is_unplaced(self, uid: str) -> bool:
        pod = self._state.pods.get(uid)
        return pod is not None and not pod.placed and not pod.ended

    def _limit(self, group: ExpectedGroup) -> None:
        """Expect nothing for a group with which its namespace would have too many."""
        namespace, own = group.key[0], sum(len(kind.numbers) for kind in group.kinds.values())
        wanted = sum(kind.missing for kind in group.kinds.values())
        others = self._in_namespace[namespace] - own
        group.refused = ""
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
        """The first resource of which its missing pods request more than is left; or empty."""
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
        """What its expected pods request, where that is limited."""
        if not self._limits.requests:
            return
        now = group.requests({name: len(kind.numbers) for name, kind in group.kinds.items()})
        of_all = self._requested.setdefault(group.key[0], Counter())
        of_all.subtract(group.requested)
        of_all.update(now)
        group.requested = now
        if not any(of_all.values()):
            del self._requested[group.key[0]]

    def _kinds(self, key: Key, group: GroupObject) -> Iterator[tuple[str, Kind]]:
        """What is beyond the limits of admission is left out."""
        things: set[Thing] = set()
        for each in group.spec.expected_pods[:MAX_EXPECTED_KINDS]:
            if each.name and "/" not in each.name and 0 <= each.count <= MAX_EXPECTED_PODS:
                spec = each.template.spec
                info = info_of(key, group, each, self._schedulers)
                info, named = self.claims.applied(info, spec)
                things |= named
                unseen = (
                    "ResourceClaims" if self.claims.unseen(spec) else "",
                    "volumes" if has_volumes(each) else "",
                )
                yield each.name, Kind(info, each.count, unseen=" and ".join(filter(None, unseen)))
        self.claims.note(key, things)

    def _forget_group(self, group: ExpectedGroup) -> None:
        self.claims.forget(group.key)
        for uid in group.extra:
            self._of.pop(uid, None)
        del self._groups[group.key]
        if not self._in_namespace[group.key[0]]:
            del self._in_namespace[group.key[0]]
