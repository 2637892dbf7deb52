"""An index of pods by namespace and label, to find the pods that a new match count selects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scheduler.core.forest import Pod
from scheduler.core.model import PodInfo
from scheduler.core.pod_selectors import HAS, IS, LACKS, MatchCount, Trait, traits_needed

_Uids = dict[str, None]


class PodLabelIndex:
    """Indexes `pods` (by UID) by namespace, and by the labels that some selector has used."""

    def __init__(self, pods: Mapping[str, Pod]) -> None:
        self._pods = pods
        self._within: dict[str, _Uids] = {}
        self._with: dict[str, dict[str, _Uids]] = {}
        self._without: dict[str, dict[str, _Uids]] = {}

    def __len__(self) -> int:
        labels = (*self._with.values(), *self._without.values())
        return len(self._within) + sum(map(len, labels))

    def add(self, info: PodInfo) -> None:
        for index, value in self._places(info):
            index.setdefault(value, {})[info.uid] = None

    def remove(self, info: PodInfo) -> None:
        for index, value in self._places(info):
            del index[value][info.uid]
            if not index[value]:
                del index[value]

    def of(self, match_count: MatchCount) -> list[Pod]:
        """The pods that the match count may select; it selects no pod outside of these."""
        needed = traits_needed(match_count.selectors)
        if not needed:
            return list(self._pods.values())
        # A pod must have a trait of each set: use the set with the fewest pods.
        groups = min(map(self._holders, needed), key=lambda groups: sum(map(len, groups)))
        return [self._pods[uid] for uid in dict.fromkeys(uid for group in groups for uid in group)]

    def _places(self, info: PodInfo) -> Iterator[tuple[dict[str, _Uids], str]]:
        """The index entries of the pod, as (index, value)."""
        yield self._within, info.namespace
        for key in self._with.keys() & info.labels.keys():
            yield self._with[key], info.labels[key]
        for key in self._without.keys() - info.labels.keys():
            yield self._without[key], info.namespace

    def _holders(self, traits: Iterable[Trait]) -> list[_Uids]:
        """Groups of UIDs: all pods with one of these traits, and some of other namespaces."""
        groups: list[_Uids] = []
        for space, kind, key, value in traits:
            if kind in (IS, HAS):
                index, wanted = self._known(key), value if kind == IS else None
            else:
                index = self._lacking(key) if kind == LACKS else self._within
                wanted = space or None
            groups += index.values() if wanted is None else [index.get(wanted, {})]
        return groups

    def _known(self, key: str) -> dict[str, _Uids]:
        if key not in self._with:
            self._with[key] = {}
            for pod in self._pods.values():
                if key in pod.info.labels:
                    self._with[key].setdefault(pod.info.labels[key], {})[pod.info.uid] = None
        return self._with[key]

    def _lacking(self, key: str) -> dict[str, _Uids]:
        if key not in self._without:
            self._without[key] = {}
            for pod in self._pods.values():
                if key not in pod.info.labels:
                    self._without[key].setdefault(pod.info.namespace, {})[pod.info.uid] = None
        return self._without[key]
