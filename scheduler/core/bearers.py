"""Pods by the labels that selectors ask for, so that a new selector finds those it speaks of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.core.forest import Pod
from scheduler.core.relations import Tally, labels_needed
from scheduler.core.values import PodInfo


class Bearers:
    """An index over `pods` by uid, of label keys that some selector asked for and no others."""

    def __init__(self, pods: Mapping[str, Pod]) -> None:
        self._pods = pods
        self._uids: dict[str, dict[str, dict[str, None]]] = {}

    def add(self, info: PodInfo) -> None:
        for key in self._uids.keys() & info.labels.keys():
            self._file(key, info)

    def remove(self, info: PodInfo) -> None:
        for key in self._uids.keys() & info.labels.keys():
            value, values = info.labels[key], self._uids[key]
            del values[value][info.uid]
            if not values[value]:
                del values[value]

    def of(self, tally: Tally) -> list[Pod]:
        """Pods that the tally may speak of; all others it does not."""
        needed = labels_needed(tally.selectors)
        if not needed:
            return list(self._pods.values())
        # Of the labels that a pod must have, the one that fewest have.
        groups = min((self._with(slots) for slots in needed), key=lambda g: sum(map(len, g)))
        return list(self._all(groups))

    def _with(self, slots: Iterable[tuple[str, str | None]]) -> list[Mapping[str, None]]:
        """UIDs, in groups, of pods with one of these labels, None for any value."""
        groups: list[Mapping[str, None]] = []
        for key, value in slots:
            values = self._known(key)
            groups += values.values() if value is None else [values.get(value, {})]
        return groups

    def _known(self, key: str) -> dict[str, dict[str, None]]:
        if key not in self._uids:
            self._uids[key] = {}
            for pod in self._pods.values():
                if key in pod.info.labels:
                    self._file(key, pod.info)
        return self._uids[key]

    def _file(self, key: str, info: PodInfo) -> None:
        self._uids[key].setdefault(info.labels[key], {})[info.uid] = None

    def _all(self, groups: Iterable[Mapping[str, None]]) -> Iterable[Pod]:
        return (self._pods[uid] for group in groups for uid in group)
