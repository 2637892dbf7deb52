"""An index of pods by namespace and label, to find the pods that a new match count selects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from scheduler.core.groups.forest import Pod
from scheduler.core.pods.pod_selectors import IS, WITHIN, MatchCount, Trait, traits_needed
from scheduler.core.values.model import PodInfo

_Uids = dict[str, None]


class PodLabelIndex:
    """An index of `pods` (by UID) by namespace, by label, and by the values of the labels in use.

    The cost of a pod is the cost of its own labels. The values of a label are indexed while a match
    count that was passed to `add_user` uses them.
    """

    def __init__(self, pods: Mapping[str, Pod]) -> None:
        self._pods = pods
        self._within: dict[str, _Uids] = {}
        self._with: dict[str, _Uids] = {}
        self._by_value: dict[str, dict[str, _Uids]] = {}
        self._users: Counter[str] = Counter()

    def __len__(self) -> int:
        values = sum(map(len, self._by_value.values()))
        return len(self._within) + len(self._with) + len(self._by_value) + values

    def add(self, info: PodInfo) -> None:
        self._within.setdefault(info.namespace, {})[info.uid] = None
        for key, value in info.labels.items():
            self._with.setdefault(key, {})[info.uid] = None
            if key in self._by_value:
                self._by_value[key].setdefault(value, {})[info.uid] = None

    def remove(self, info: PodInfo) -> None:
        _discard(self._within, info.namespace, info.uid)
        for key, value in info.labels.items():
            _discard(self._with, key, info.uid)
            if key in self._by_value:
                _discard(self._by_value[key], value, info.uid)

    def within(self, namespace: str) -> list[Pod]:
        """Return the pods of a namespace."""
        return [self._pods[uid] for uid in self._within.get(namespace, ())]

    def discard(self, uid: str) -> None:
        """Remove a pod from every index that may contain it."""
        # A change to the pod broke off, so its labels do not tell where it is indexed.
        for index in (self._within, self._with, *self._by_value.values()):
            for value in [value for value, uids in index.items() if uid in uids]:
                del index[value][uid]
                if not index[value]:
                    del index[value]

    def add_user(self, match_count: MatchCount) -> None:
        """Keep the index of the values by which the match count's pods are found."""
        self._users.update(_keys(match_count))

    def remove_user(self, match_count: MatchCount) -> None:
        """Drop the index of the values that no other match count uses."""
        for key in _keys(match_count):
            self._users[key] -= 1
            if self._users[key] <= 0:
                del self._users[key]
                self._by_value.pop(key, None)

    def of(self, match_count: MatchCount) -> list[Pod]:
        """Return the pods that the match count may select; it selects no other pod."""
        needed = traits_needed(match_count.selectors)
        if not needed:
            return list(self._pods.values())
        # A pod must have a trait of each set: use the set with the fewest pods.
        groups = min(map(self._holders, needed), key=lambda groups: sum(map(len, groups)))
        return [self._pods[uid] for uid in dict.fromkeys(uid for group in groups for uid in group)]

    def _holders(self, traits: Iterable[Trait]) -> list[_Uids]:
        """Return groups of UIDs: all pods with one of these traits, some of other namespaces."""
        groups: list[_Uids] = []
        for space, kind, key, value in traits:
            if kind == WITHIN:
                groups += [self._within.get(space, {})] if space else self._within.values()
            elif kind == IS:
                groups.append(self._values(key).get(value, {}))
            else:
                groups.append(self._with.get(key, {}))
        return groups

    def _values(self, key: str) -> dict[str, _Uids]:
        # Build it on first use: most labels are never selected by value.
        if key not in self._by_value:
            by_value = self._by_value[key] = {}
            for uid in self._with.get(key, ()):
                by_value.setdefault(self._pods[uid].info.labels[key], {})[uid] = None
        return self._by_value[key]


def _keys(match_count: MatchCount) -> set[str]:
    """Return the labels by whose values the match count's pods are found."""
    needed = traits_needed(match_count.selectors)
    return {key for traits in needed for _, kind, key, _ in traits if kind == IS}


def _discard(index: dict[str, _Uids], value: str, uid: str) -> None:
    del index[value][uid]
    if not index[value]:
        del index[value]
