"""The kinds of pods that a group expects: who came of each, and which one a pod is nearest to."""

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
"""What is compared of a pod that comes; its kind's stage is its own then."""


@dataclass(slots=True)
class Kind:
    """`info` is what each expected pod is a copy of; `numbers` are those in the state.

    Of those that `came`, `over` have succeeded; once more come than are expected, each of these
    stands for one that is `replaced`: it runs after that.
    `done` are pods that succeeded and are gone: no others come for them while members are left.
    `unseen` is what its template has of which nothing is held, in words.
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
        """A pod comes for the first, by UID, of those that have succeeded."""
        uid = min(self.over)
        self.over.remove(uid)
        self.came.remove(uid)
        self.replaced.add(uid)


@dataclass(slots=True)
class ExpectedGroup:
    """Its kinds by name, as its object has them.

    `expired`: no place is held any more until none of its tree runs.
    """

    key: Key
    obj: GroupObject | None = None
    kinds: dict[str, Kind] = field(default_factory=dict)
    extra: set[str] = field(default_factory=set)
    requested: Counter[str] = field(default_factory=Counter)
    expired: bool = False
    refused: str = ""

    def requests(self, counts: Mapping[str, int]) -> Counter[str]:
        """What so many pods of each kind request."""
        found: Counter[str] = Counter()
        for name, count in counts.items():
            for resource, amount in self.kinds[name].info.requirements.requests:
                found[resource] += amount * count
        return found

    @property
    def wanted(self) -> int:
        return 0 if self.expired or self.refused else sum(k.missing for k in self.kinds.values())


def lack_of(info: PodInfo) -> str:
    """Why expected pods are not placed wherever there is room; empty if they are."""
    unsupported = info.requirements.unsupported
    return info.unclaimed or (f"they use {', '.join(unsupported)}" if unsupported else "")


def is_held(pod: Pod | None) -> bool:
    return pod is not None and pod.assumed


def counts(info: PodInfo) -> bool:
    """Whether the pod is one of those that the group expects: there, or it has done its work."""
    return info.phase != "Failed" and not info.membership.held


def nearest(info: PodInfo, kinds: Mapping[str, Kind]) -> str:
    """The kind that asks for the most of the same; empty without one.

    Those come first whose labels the pod has; of equal ones that of the lowest stage.
    """
    return min(kinds, key=lambda name: _distance(kinds[name].info, info), default="")


def _distance(expected: PodInfo, found: PodInfo) -> tuple[bool, int, int, str]:
    wanted, stage = expected.labels.items(), expected.requirements.stage
    return (
        not wanted <= found.labels.items(),
        _differences(expected.requirements, found.requirements),
        0 if stage is None else stage.number,
        expected.name,
    )


def _differences(expected: Requirements, found: Requirements) -> int:
    if expected == found:
        return 0
    return sum(getattr(expected, name) != getattr(found, name) for name in _FIELDS)
