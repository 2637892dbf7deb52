"""The minCount of a group during the life cycle of its Jobs: pure functions.

A gang waits for its pods, but must not wait for a pod that can no longer come. A Job has fewer
pods than its spec states if it is nearly complete, has given up an index, or lost succeeded pods to
a cleaner. `group_pod_counts` computes how many pods can exist, `minimum` the new minCount. The
scheduler counts pods that wait or run, and succeeded pods as long as they exist.

Caches lag behind each other. A pod that exists counts even if its Job's status reports it as done,
so minCount is never lowered because of pods that are not counted yet.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from api.constants import ANNOTATION_MIN_COUNT_BASIS, COMPOSITE_POD_GROUP

Json = dict[str, Any]

_NOTE: Final = re.compile(
    r"size=([0-9]{1,10}),asked=([0-9]{1,10}),pods=([0-9]{1,10}),minCount=([0-9]{1,10})"
    r"(?:,edited=([0-9]{1,10}))?",
    re.ASCII,
)
_RANGE: Final = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)


class Progress(NamedTuple):
    """The progress in a Job's status; `given_up` counts indexes that are not retried."""

    succeeded: int = 0
    given_up: int = 0
    complete: bool = False


class CountedPods(NamedTuple):
    """The pods of a Job that the scheduler counts: neither terminating nor failed."""

    active: int = 0
    succeeded: int = 0


NO_PODS: Final = CountedPods()


@dataclass(frozen=True, slots=True)
class GroupJob:
    """One Job of a group, in the size of its owner's spec.

    `progress` is None if the Job does not exist now. It will be created, and start from the
    beginning.
    """

    parallelism: int
    completions: int | None = None
    progress: Progress | None = None
    pods: CountedPods = NO_PODS

    @property
    def size(self) -> int:
        """Number of pods that the Job runs at once at its start."""
        most = self.parallelism if self.completions is None else self.completions
        return max(0, min(self.parallelism, most))

    @property
    def wanted(self) -> int:
        """Number of pods that the Job controller still wants at once, or that still exist."""
        return max(self._wanted(), self.pods.active)

    def _wanted(self) -> int:
        if self.progress is None:
            return self.size
        if self.progress.complete:
            return 0
        if self.completions is None:
            # A work queue: once a pod has succeeded, the controller creates no new ones.
            return 0 if self.progress.succeeded else self.size
        possible = self.completions - self.progress.succeeded - self.progress.given_up
        return min(self.size, possible)


class GroupPodCounts(NamedTuple):
    """The pod counts of a group: `size` at its start, `possible` that exist or can exist by now.

    `pods` is the number that its Jobs have at once while minCount is right. There are more only if
    their owner was scaled up.
    """

    size: int
    possible: int
    pods: int


def group_pod_counts(parts: Iterable[GroupJob]) -> GroupPodCounts:
    """Return the pod counts of a group with these Jobs."""
    size = possible = wanted = 0
    for part in parts:
        size += part.size
        wanted += part.wanted
        possible += part.wanted + part.pods.succeeded
    return GroupPodCounts(size, possible, size if possible >= size else wanted)


def minimum(
    asked: int, now: GroupPodCounts, live: int | None = None, note: str = ""
) -> tuple[int, str]:
    """Return the minCount of a group, and its annotation `min-count-basis`.

    `asked` is the minCount of its template. `live` and `note` are those of the existing group. A
    minCount that a user changed on the group is kept until the size or `asked` changes. It is
    lowered like any other while fewer pods are left.
    """
    noted = _Note.read(note)
    edited = None
    if noted is not None and live is not None and (noted.size, noted.asked) == (now.size, asked):
        # The annotation states the last computed minCount, so a user has set any other value.
        edited = live if live != noted.minimum else noted.edited
    value = asked if edited is None else edited
    if now.possible < now.size:
        value = max(1, min(value, now.possible))
    if (
        noted is not None
        and live == value
        and (noted.size, noted.asked) == (now.size, asked)
        and noted.pods >= now.pods
    ):
        # A smaller number of pods alone is not worth a write.
        return value, note
    return value, _Note(now.size, asked, now.pods, value, edited).text()


def most_pods(note: str) -> int | None:
    """Return the number of pods for which a group's minCount is right; None if not annotated."""
    noted = _Note.read(note)
    return None if noted is None else noted.pods


def remaining(groups: list[Json], pod_counts: Mapping[str, GroupPodCounts]) -> list[Json]:
    """Return the groups for which pods exist or can exist, parents first.

    `pod_counts` are those of PodGroups by name. Groups without one do not change. minGroupCount of
    a CompositePodGroup drops to its remaining children.
    """
    kept: list[Json] = []
    children: dict[str, int] = {}
    lost: dict[str, int] = {}
    # Leaves first, as a parent remains if any of its children does.
    for group in reversed(groups):
        name, spec = group["metadata"]["name"], group["spec"]
        if group["kind"] == COMPOSITE_POD_GROUP.kind:
            stays = name in children or name not in lost
        else:
            stays = name not in pod_counts or pod_counts[name].possible > 0
        counts = children if stays else lost
        parent = spec.get("parentCompositePodGroupName", "")
        counts[parent] = counts.get(parent, 0) + 1
        if stays:
            fewer = group["kind"] == COMPOSITE_POD_GROUP.kind and name in lost
            kept.append(_with_group_count(group, children[name]) if fewer else group)
    return kept[::-1]


def with_minimum(group: Json, now: GroupPodCounts, live: int | None = None, note: str = "") -> Json:
    """Return a wanted PodGroup with its current minCount and annotation; others as they are."""
    asked = group["spec"]["schedulingPolicy"].get("gang", {}).get("minCount")
    if asked is None:
        return group
    value, noted = minimum(asked, now, live, note)
    metadata = group["metadata"]
    notes = metadata["annotations"] | {ANNOTATION_MIN_COUNT_BASIS: noted}
    spec = group["spec"] | {"schedulingPolicy": {"gang": {"minCount": value}}}
    return group | {"metadata": metadata | {"annotations": notes}, "spec": spec}


def count_indexes(text: str, completions: int) -> int:
    """Return the number of indexes below `completions` in a Job's status, as in `1,3-5`.

    This costs O(length of the text), whatever the numbers are.
    """
    count = 0
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is not None:
            first, last = int(found[1]), int(found[2] or found[1])
            count += max(0, min(last, completions - 1) - first + 1)
    return count


class _Note(NamedTuple):
    """The values from which a minimum was computed; `edited` is the value that a user set."""

    size: int
    asked: int
    pods: int
    minimum: int
    edited: int | None

    @classmethod
    def read(cls, note: str) -> "_Note | None":
        """Parse the annotation; return None if it has another form."""
        found = _NOTE.fullmatch(note)
        if found is None:
            return None
        size, asked, pods, minimum, edited = found.groups()
        return cls(int(size), int(asked), int(pods), int(minimum), int(edited) if edited else None)

    def text(self) -> str:
        """Return the annotation's value."""
        edited = "" if self.edited is None else f",edited={self.edited}"
        return (
            f"size={self.size},asked={self.asked},pods={self.pods},minCount={self.minimum}{edited}"
        )


def _with_group_count(group: Json, children: int) -> Json:
    gang = group["spec"]["schedulingPolicy"].get("gang")
    if gang is None:
        return group
    fewer = {"gang": {"minGroupCount": min(gang["minGroupCount"], children)}}
    return group | {"spec": group["spec"] | {"schedulingPolicy": fewer}}
