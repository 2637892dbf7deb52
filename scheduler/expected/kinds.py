"""Kinds of pods that a group expects: which pods arrived of each, and which kind a pod matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from kube.client.meta import Key
from scheduler.core.groups.forest import Pod
from scheduler.core.values.model import PodInfo, Requirements
from scheduler.decoding.objects import GroupObject

_FIELDS: Final = tuple(each.name for each in fields(Requirements) if each.name != "stage")
"""Fields that an arriving pod is compared by. Its stage comes from the kind that it matches."""


@dataclass(slots=True)
class ExpectedPodKind:
    """A kind of expected pods. `info` is the pod to copy; `numbers` are the copies in the state.

    `came` are the UIDs of pods that arrived, and `over` those of them that succeeded. If more
    arrive than expected, one of `over` moves to `replaced` for each: the new pod runs after that
    one. `done` counts pods that succeeded and are deleted: none arrives for them while members
    remain. `unseen` names the parts of the template for which nothing is held.
    """

    info: PodInfo
    count: int
    numbers: set[int] = field(default_factory=set)
    came: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)
    replaced: set[str] = field(default_factory=set)
    done: int = 0
    unseen: str = ""

    @property
    def missing(self) -> int:
        return max(0, self.count - self.done - len(self.came))

    def replace_one(self) -> None:
        """Count a further pod in place of the first, by UID, that has succeeded."""
        # By UID, so that every process and each replay chooses the same.
        uid = min(self.over)
        self.over.remove(uid)
        self.came.remove(uid)
        self.replaced.add(uid)


@dataclass(slots=True)
class ExpectedGroup:
    """The kinds of a group by name, as its object has them.

    If `expired`, no place is held until nothing of its tree runs.
    """

    key: Key
    obj: GroupObject | None = None
    kinds: dict[str, ExpectedPodKind] = field(default_factory=dict)
    extra: set[str] = field(default_factory=set)
    requested: Counter[str] = field(default_factory=Counter)
    expired: bool = False
    refused: str = ""

    def requests(self, counts: Mapping[str, int]) -> Counter[str]:
        """Return the requests of so many pods of each kind."""
        found: Counter[str] = Counter()
        for name, count in counts.items():
            for resource, amount in self.kinds[name].info.requirements.requests:
                found[resource] += amount * count
        return found

    @property
    def wanted(self) -> int:
        return 0 if self.expired or self.refused else sum(k.missing for k in self.kinds.values())


def problem_of(info: PodInfo) -> str:
    """Return why expected pods are not placed even with enough capacity, or an empty text."""
    unsupported = info.requirements.unsupported
    return info.unclaimed or (f"they use {', '.join(unsupported)}" if unsupported else "")


def is_held(pod: Pod | None) -> bool:
    return pod is not None and pod.assumed


def counts(info: PodInfo) -> bool:
    """True if the pod is one of those that the group expects: it exists, or it succeeded."""
    # A pod that is kept back names a group of another owner.
    return info.phase != "Failed" and not info.membership.held


def nearest(info: PodInfo, kinds: Mapping[str, ExpectedPodKind]) -> str:
    """Return the kind whose requirements differ least from the pod's; empty without kinds.

    Kinds whose labels the pod has come first. Of equal ones, that of the lowest stage is returned.
    """
    return min(kinds, key=lambda name: _distance(kinds[name].info, info), default="")


def _distance(expected: PodInfo, found: PodInfo) -> tuple[bool, int, int, str]:
    wanted, stage = expected.labels.items(), expected.requirements.stage
    return (
        # Labels first: an initializer and its trainers may request the same.
        not wanted <= found.labels.items(),
        _differences(expected.requirements, found.requirements),
        0 if stage is None else stage.number,
        expected.name,
    )


def _differences(expected: Requirements, found: Requirements) -> int:
    # A pod that was created from the template needs no comparison by field.
    if expected == found:
        return 0
    return sum(getattr(expected, name) != getattr(found, name) for name in _FIELDS)
