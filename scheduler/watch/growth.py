"""Pods of an owner that grew wait until the minCount of their group has followed.

Jobs make their new pods before Muster's controllers hear of the new size: placed at once they would
be extras of a gang that is to be larger, and it would run in part. The note on a generated group
says for how many pods at once its minCount is right. If more are there, so many of those that wait,
the newest ones, are held until the note is changed or others are gone. They take no room, and
nobody else waits for them, however long that takes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace

from api.constants import ANNOTATION_MANAGED_GROUP, ANNOTATION_MIN_COUNT_BASIS
from api.integration.common.minimum import most_pods
from api.ownership import made_for
from kube.client.meta import Key
from scheduler.core.values.model import PodInfo
from scheduler.decoding.objects import GroupObject, Pod


@dataclass(slots=True)
class _Members:
    """The pods that Muster put into a group: `present` ones have not ended and are not going.

    `strangers` are held anyway, as the group is another's: they are not counted. `ended` pods ended
    or are going while others were held, and count until they are gone or the note is changed: what
    takes their place is of the new size.
    """

    key: Key
    limit: int | None = None
    present: int = 0
    waiting: dict[str, PodInfo] = field(default_factory=dict)
    held: OrderedDict[str, PodInfo] = field(default_factory=OrderedDict)
    strangers: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    def put(self, info: PodInfo) -> None:
        """A present pod is so now; one that is bound or gated is counted, and cannot be held."""
        if info.node or info.gated:
            self.waiting.pop(info.uid, None)
            self.held.pop(info.uid, None)
        elif info.uid in self.held:
            self.held[info.uid] = info
        else:
            self.waiting[info.uid] = info

    def drop(self, uid: str) -> None:
        """The pod is counted no more."""
        if uid in self.strangers:
            self.strangers.discard(uid)
            return
        self.present -= 1
        self.ended.discard(uid)
        self.waiting.pop(uid, None)
        self.held.pop(uid, None)

    def end(self, uid: str) -> bool:
        """The pod ends or is going; whether it counts on nevertheless."""
        if uid in self.strangers or uid in self.held or not self.held:
            return False
        self.waiting.pop(uid, None)
        self.ended.add(uid)
        return True

    def balanced(self) -> dict[str, PodInfo]:
        """Hold or release pods until as many are held as are too many; these, as they count now."""
        surplus = 0 if self.limit is None else self.present - self.limit
        changed: dict[str, PodInfo] = {}
        while len(self.held) < surplus and self.waiting:
            uid, info = self.waiting.popitem()
            self.held[uid] = info
            changed[uid] = replace(info, exceeds=True)
        while len(self.held) > max(0, surplus):
            uid, info = self.held.popitem(last=False)
            self.waiting[uid] = changed[uid] = info
        return changed


class Growth:
    """Counts the pods of generated groups, O(1) for each event, and holds those that exceed."""

    def __init__(self) -> None:
        self._groups: dict[Key, _Members] = {}
        self._of: dict[str, _Members] = {}

    def judged(self, pod: Pod, info: PodInfo) -> list[PodInfo]:
        """The pod as it counts, and others that count otherwise because of it.

        One that was put into the group by a user is an extra, and neither counted nor held.
        """
        members, before = self._members_of(pod, info), self._of.get(info.uid)
        if members is None and before is not None and before.end(info.uid):
            return [info]
        released = [] if members is before else self.forget(info.uid)
        if members is None:
            return [info, *released]
        # Held without gates of its own: the group is another's.
        stranger = info.gated and not pod.spec.scheduling_gates
        return [*self._counted(members, info, stranger=stranger), *released]

    def judged_again(self, info: PodInfo) -> list[PodInfo]:
        """The same where it turned out whose the group of the pod is."""
        members = self._of.get(info.uid)
        if members is None:
            return [info]
        uid = info.uid
        held = uid in members.waiting or uid in members.held or uid in members.strangers
        stranger = info.group != members.key[1] or (info.gated and held)
        return self._counted(members, replace(info, exceeds=False), stranger=stranger)

    def _counted(self, members: _Members, info: PodInfo, *, stranger: bool) -> list[PodInfo]:
        uid = info.uid
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
        """The pod is gone; the pods that count otherwise because of it."""
        members = self._of.pop(uid, None)
        if members is None:
            return []
        members.drop(uid)
        changed = members.balanced()
        self._prune(members)
        return list(changed.values())

    def group_is(self, key: Key, group: GroupObject | None) -> list[PodInfo]:
        """A PodGroup is there, or gone (None): the pods that count otherwise from now on."""
        limit = _limit(group)
        members = self._groups.get(key)
        if members is None:
            if limit is not None:
                self._groups[key] = _Members(key, limit)
            return []
        if limit != members.limit:
            members.limit = limit
            for uid in list(members.ended):
                del self._of[uid]
                members.drop(uid)
        changed = members.balanced()
        self._prune(members)
        return list(changed.values())

    def _members_of(self, pod: Pod, info: PodInfo) -> _Members | None:
        """Of the group that Muster named for the pod; None for one that is not or no more of it."""
        gone = info.terminating or info.phase in ("Succeeded", "Failed")
        if gone or not info.group or not info.ours:
            return None
        if pod.metadata.annotations.get(ANNOTATION_MANAGED_GROUP) != info.group:
            return None
        key = (info.namespace, info.group)
        members = self._groups.get(key)
        if members is None:
            members = self._groups[key] = _Members(key)
        return members

    def _prune(self, members: _Members) -> None:
        if members.limit is None and not (members.present or members.strangers):
            self._groups.pop(members.key, None)


def _limit(group: GroupObject | None) -> int | None:
    if group is None or made_for(group.metadata) is None:
        return None
    return most_pods(group.metadata.annotations.get(ANNOTATION_MIN_COUNT_BASIS, ""))
