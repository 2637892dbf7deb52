"""The minCount of a group at every moment of the life of its Jobs. Pure functions.

A gang waits for its pods; for one that cannot come any more it must not wait. A Job that is nearly
done, has given up an index, or lost its succeeded pods to a cleaner has fewer pods than its spec
says: `standing` works out how many can be there, and `minimum` what follows for minCount. The
scheduler counts pods that wait, that run, and that have succeeded as long as they exist.

Caches lag behind each other. A pod that is there is counted though its Job's status says that it is
done: so minCount is never lowered for pods that are only on their way to be counted.
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
    """What a Job's status says; `given_up` are indexes that are not tried again."""

    succeeded: int = 0
    given_up: int = 0
    complete: bool = False


class Pods(NamedTuple):
    """A Job's pods that the scheduler counts: not terminating, and not failed."""

    active: int = 0
    succeeded: int = 0


NO_PODS: Final = Pods()


@dataclass(frozen=True, slots=True)
class Part:
    """One Job of a group, in the size that its owner's spec says.

    `progress` None: there is no such Job now. It will be made (again), and starts from nothing.
    """

    parallelism: int
    completions: int | None = None
    progress: Progress | None = None
    pods: Pods = NO_PODS

    @property
    def size(self) -> int:
        """The pods it runs at once at its start."""
        most = self.parallelism if self.completions is None else self.completions
        return max(0, min(self.parallelism, most))

    @property
    def wanted(self) -> int:
        """The pods that its controller still wants at once, or that are still there."""
        return max(self._wanted(), self.pods.active)

    def _wanted(self) -> int:
        if self.progress is None:
            return self.size
        if self.progress.complete:
            return 0
        if self.completions is None:
            # A work queue: once a pod succeeded no new ones are made.
            return 0 if self.progress.succeeded else self.size
        left = self.completions - self.progress.succeeded - self.progress.given_up
        return min(self.size, left)


class Standing(NamedTuple):
    """The pods of a group: `size` at its start, `left` that are or can be there by now.

    `pods` is how many its Jobs have at once while its minCount is right: more are there only
    because their owner grew.
    """

    size: int
    left: int
    pods: int


def standing(parts: Iterable[Part]) -> Standing:
    """The standing of a group with these Jobs."""
    size = left = wanted = 0
    for part in parts:
        size += part.size
        wanted += part.wanted
        left += part.wanted + part.pods.succeeded
    return Standing(size, left, size if left >= size else wanted)


def minimum(asked: int, now: Standing, live: int | None = None, note: str = "") -> tuple[int, str]:
    """The minCount of a group, and the note (annotation `min-count-basis`) that goes with it.

    `asked` is what its template says. `live` and `note` are those of the group that is there: a
    minCount that somebody changed by hand is kept until the size or what is asked changes. It is
    lowered like any other while fewer pods are left.
    """
    noted = _Note.read(note)
    edited = None
    if noted is not None and live is not None and (noted.size, noted.asked) == (now.size, asked):
        edited = live if live != noted.minimum else noted.edited
    value = asked if edited is None else edited
    if now.left < now.size:
        value = max(1, min(value, now.left))
    if (
        noted is not None
        and live == value
        and (noted.size, noted.asked) == (now.size, asked)
        and noted.pods >= now.pods
    ):
        return value, note  # a smaller number of pods alone is not worth a write
    return value, _Note(now.size, asked, now.pods, value, edited).text()


def most_pods(note: str) -> int | None:
    """For how many pods at once a group's minCount is right; None where its note does not say."""
    noted = _Note.read(note)
    return None if noted is None else noted.pods


def remaining(groups: list[Json], standings: Mapping[str, Standing]) -> list[Json]:
    """The groups, parents first, for which pods are or can be there; composites need no others.

    `standings` are those of the PodGroups by name; one that is not in it is left as it is.
    """
    kept: list[Json] = []
    children: dict[str, int] = {}
    lost: dict[str, int] = {}
    for group in reversed(groups):
        name, spec = group["metadata"]["name"], group["spec"]
        if group["kind"] == COMPOSITE_POD_GROUP.kind:
            stays = name in children or name not in lost
        else:
            stays = name not in standings or standings[name].left > 0
        counts = children if stays else lost
        parent = spec.get("parentCompositePodGroupName", "")
        counts[parent] = counts.get(parent, 0) + 1
        if stays:
            fewer = group["kind"] == COMPOSITE_POD_GROUP.kind and name in lost
            kept.append(_with_group_count(group, children[name]) if fewer else group)
    return kept[::-1]


def with_minimum(group: Json, now: Standing, live: int | None = None, note: str = "") -> Json:
    """A wanted PodGroup with the minCount of now and its note; one that is no gang as it is."""
    asked = group["spec"]["schedulingPolicy"].get("gang", {}).get("minCount")
    if asked is None:
        return group
    value, noted = minimum(asked, now, live, note)
    metadata = group["metadata"]
    notes = metadata["annotations"] | {ANNOTATION_MIN_COUNT_BASIS: noted}
    spec = group["spec"] | {"schedulingPolicy": {"gang": {"minCount": value}}}
    return group | {"metadata": metadata | {"annotations": notes}, "spec": spec}


def count_indexes(text: str, completions: int) -> int:
    """How many indexes below `completions` a Job's status lists, as in `1,3-5`.

    Costs O(length of the text), whatever the numbers are.
    """
    count = 0
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        if found is not None:
            first, last = int(found[1]), int(found[2] or found[1])
            count += max(0, min(last, completions - 1) - first + 1)
    return count


class _Note(NamedTuple):
    """`size` and `asked` are what a minimum was computed from, `edited` what somebody set."""

    size: int
    asked: int
    pods: int
    minimum: int
    edited: int | None

    @classmethod
    def read(cls, note: str) -> "_Note | None":
        """None for a note that is not of this form."""
        found = _NOTE.fullmatch(note)
        if found is None:
            return None
        size, asked, pods, minimum, edited = found.groups()
        return cls(int(size), int(asked), int(pods), int(minimum), int(edited) if edited else None)

    def text(self) -> str:
        """The annotation's value."""
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
