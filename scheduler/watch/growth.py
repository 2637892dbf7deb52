"""Pods of an owner that grew wait until the minCount of their group has followed.

Jobs create their new pods before Muster's controllers see the new size. Placed immediately, these
would be extras of a gang that is about to grow, and the gang would run in part. An annotation of a
generated group has the number of pods for which its minCount is right. If there are more, the
newest of the waiting ones are kept back until the annotation changes or others are deleted. They
use no capacity, and no other pod waits for them, however long that takes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace

from api.constants import ANNOTATION_MANAGED_GROUP, ANNOTATION_MIN_COUNT_BASIS, POD_GROUP
from api.integration.common.minimum import most_pods
from api.ownership import created_for
from kube.client.meta import Key
from scheduler.core.values.model import PodInfo
from scheduler.decoding.objects import GroupObject, Pod


@dataclass(slots=True)
class _Members:
    """The pods that Muster assigned to a group.

    `present` pods have neither ended nor are they terminating. `held` pods are kept back.
    `strangers` are kept back in any case, because the group has another owner; they do not count.
    `ended` pods ended or are terminating while others were kept back. They count until they are
    deleted or the annotation changes, because their replacements have the new size.
    """

    key: Key
    limit: int | None = None
    present: int = 0
    waiting: dict[str, PodInfo] = field(default_factory=dict)
    # In the order in which they were kept back: the first one is released first.
    held: OrderedDict[str, PodInfo] = field(default_factory=OrderedDict)
    strangers: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    def put(self, info: PodInfo) -> None:
        """Record a present pod. A bound or gated one counts, but cannot be kept back."""
        if info.node or info.gated:
            self.waiting.pop(info.uid, None)
            self.held.pop(info.uid, None)
        elif info.uid in self.held:
            self.held[info.uid] = info
        else:
            self.waiting[info.uid] = info

    def drop(self, uid: str) -> None:
        """Stop counting the pod."""
        if uid in self.strangers:
            self.strangers.discard(uid)
            return
        self.present -= 1
        self.ended.discard(uid)
        self.waiting.pop(uid, None)
        self.held.pop(uid, None)

    def end(self, uid: str) -> bool:
        """Record that the pod ends or is terminating. True if it still counts."""
        # While none is kept back, the owner has not grown: a replacement takes the pod's place.
        if uid in self.strangers or uid in self.held or not self.held:
            return False
        self.waiting.pop(uid, None)
        self.ended.add(uid)
        return True

    def balanced(self) -> dict[str, PodInfo]:
        """Keep back or release pods until the surplus is kept back. Return the changed ones."""
        surplus = 0 if self.limit is None else self.present - self.limit
        changed: dict[str, PodInfo] = {}
        while len(self.held) < surplus and self.waiting:
            # The newest: older pods may be of the old size, and complete the gang.
            uid, info = self.waiting.popitem()
            self.held[uid] = info
            changed[uid] = replace(info, exceeds=True)
        while len(self.held) > max(0, surplus):
            uid, info = self.held.popitem(last=False)
            self.waiting[uid] = changed[uid] = info
        return changed


class Growth:
    """Counts the pods of generated groups, O(1) for each event, and keeps the surplus back."""

    def __init__(self) -> None:
        self._groups: dict[Key, _Members] = {}
        self._of: dict[str, _Members] = {}

    def evaluate(self, pod: Pod, info: PodInfo) -> list[PodInfo]:
        """Return the pod as it counts, and others that count differently because of it.

        A pod that a user assigned to the group is an extra. It neither counts nor is kept back.
        """
        members, before = self._members_of(pod, info), self._of.get(info.uid)
        # The pod leaves, but its replacement must wait until the annotation has the new size.
        if members is None and before is not None and before.end(info.uid):
            return [info]
        released = [] if members is before else self.forget(info.uid)
        if members is None:
            return [info, *released]
        return [*self._counted(members, info), *released]

    def reevaluate(self, info: PodInfo) -> list[PodInfo]:
        """Return the same after the owner of the pod's group became known."""
        members = self._of.get(info.uid)
        if members is None:
            return [info]
        return self._counted(members, replace(info, exceeds=False))

    def _counted(self, members: _Members, info: PodInfo) -> list[PodInfo]:
        uid = info.uid
        stranger = info.group != members.key[1] or info.membership.held
        if uid not in self._of or (uid in members.strangers) != stranger:
            if uid in self._of:
                members.drop(uid)
            self._of[uid] = members
            if stranger:
                members.strangers.add(uid)
            else:
                members.present += 1
        if not stranger:
            members.put(info)
        changed = members.balanced()
        changed.pop(uid, None)
        own = replace(info, exceeds=True) if uid in members.held else info
        return [own, *changed.values()]

    def forget(self, uid: str) -> list[PodInfo]:
        """Drop a deleted pod. Return the pods that count differently because of it."""
        members = self._of.pop(uid, None)
        if members is None:
            return []
        members.drop(uid)
        changed = members.balanced()
        self._prune(members)
        return list(changed.values())

    def on_group_changed(self, key: Key, group: GroupObject | None) -> list[PodInfo]:
        """Apply a PodGroup (None: deleted). Return the pods that count differently from now on."""
        limit = _limit(group)
        members = self._groups.get(key)
        if members is None:
            if limit is not None:
                self._groups[key] = _Members(key, limit)
            return []
        if limit != members.limit:
            members.limit = limit
            # They count for the old number only: with the new one, replacements count themselves.
            for uid in list(members.ended):
                del self._of[uid]
                members.drop(uid)
        changed = members.balanced()
        self._prune(members)
        return list(changed.values())

    def _members_of(self, pod: Pod, info: PodInfo) -> _Members | None:
        """Return the group that Muster named for the pod, None if the pod is not of it."""
        gone = info.terminating or info.phase in ("Succeeded", "Failed")
        if gone or not info.group or not info.ours or info.group_kind != POD_GROUP.kind:
            return None
        if pod.metadata.annotations.get(ANNOTATION_MANAGED_GROUP) != info.group:
            return None
        key = (info.namespace, info.group)
        members = self._groups.get(key)
        if members is None:
            # Pods may arrive before the object of their group.
            members = self._groups[key] = _Members(key)
        return members

    def _prune(self, members: _Members) -> None:
        # A group with a limit is dropped when its object is deleted.
        if members.limit is None and not (members.present or members.strangers):
            self._groups.pop(members.key, None)


def _limit(group: GroupObject | None) -> int | None:
    if group is None or created_for(group.metadata) is None:
        return None
    return most_pods(group.metadata.annotations.get(ANNOTATION_MIN_COUNT_BASIS, ""))
