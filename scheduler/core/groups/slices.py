"""Slices: the equal parts of a group's pods, of which each must be in one topology domain.

The pods of a slice have consecutive indexes if every pod that counts has an index of its own.
Otherwise, pods that run form slices by domain, and pods that wait fill the free places of these,
then new slices, in the order of `Pod.order`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar

import numpy as np

from scheduler.core.groups.groups import Group, Pod, in_order
from scheduler.core.nodes.node_table import Ints
from scheduler.core.values.model import Slicing
from scheduler.core.values.search_budget import nothing

INDEX_LABELS: Final = (
    "batch.kubernetes.io/job-completion-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "apps.kubernetes.io/pod-index",
)
"""Labels with the index of a pod: of Indexed Jobs, LeaderWorkerSets and StatefulSets."""

_REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
_GLOBAL_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-global-index"

_DIGITS: Final = 9
"""Digits of an index. A pod with a longer one counts as a pod without an index."""

_MOST = 10**_DIGITS

_STEP: Final = 1_024
"""Pods or slices that are read in one step: about a millisecond."""

_T = TypeVar("_T")


@dataclass(slots=True)
class Slice:
    """Pods of one slice: those that wait, in order, and the number `present` of running ones.

    `rows` are the node rows of the running ones, without those whose node is not known and those
    that have succeeded. `indexes` are the first and last index of its pods, None without indexes.
    """

    number: int
    size: int
    indexes: tuple[int, int] | None = None
    waiting: list[Pod] = field(default_factory=list)
    running: list[Pod] = field(default_factory=list)

    @property
    def present(self) -> int:
        return len(self.running)

    @property
    def rows(self) -> set[int]:
        return {pod.row for pod in self.running if pod.row >= 0}

    @property
    def complete(self) -> bool:
        """True if all its pods run or have succeeded."""
        return self.present >= self.size

    @property
    def can_complete(self) -> bool:
        """True if it lacks nothing but nodes for pods that wait."""
        return not self.complete and self.present + len(self.waiting) >= self.size

    @property
    def may_start(self) -> bool:
        """True if pods that wait may get nodes: a slice starts as one, then replaces pods."""
        return bool(self.waiting) and (self.present > 0 or self.can_complete)


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices of a group, in order; `total` is how many it has once all its pods exist."""

    all: tuple[Slice, ...]
    total: int

    def title(self, part: Slice) -> str:
        """Return the name of a slice in messages, such as `slice 2 of 4 (indexes 16-31)`."""
        name = f"slice {part.number + 1} of {self.total}"
        return f"{name} (indexes {part.indexes[0]}-{part.indexes[1]})" if part.indexes else name


def slices_of(group: Group, codes: Ints, pause: Callable[[], None] = nothing) -> Slices:
    """Return the slices of a PodGroup with a slicing; `codes` (N,) are the domains of the nodes.

    Raises LookupError for a group without one.
    """
    slicing = group.slicing
    if slicing is None:
        raise LookupError(group.key)
    counted = [pod for pod in in_steps(group.members.values(), pause) if counts(pod)]
    ranks = _ranks(counted, slicing, pause)
    if ranks is None:
        found = _by_domain(counted, slicing.size, codes)
    else:
        found = _by_rank(counted, ranks, slicing.size, pause)
    least = -(-(group.minimum or 0) // slicing.size) if group.spec and group.spec.gang else 1
    last = max((part.number for part in found), default=-1) + 1
    return Slices(tuple(found), max(least, last))


def counts(pod: Pod) -> bool:
    """Return True if the pod has a place in a slice: it waits, runs or has succeeded."""
    _, waiting, running = pod.counts_as()
    return waiting or running


def in_steps(items: Iterable[_T], pause: Callable[[], None]) -> Iterator[_T]:
    """Yield the pods or slices, and call `pause` now and then: a group may have 50,000."""
    every = iter(items)
    while some := list(islice(every, _STEP)):
        pause()
        yield from some


def _ranks(
    pods: Sequence[Pod], slicing: Slicing, pause: Callable[[], None]
) -> dict[str, int] | None:
    """Return the index of each pod by UID; None unless all have one, and no two the same."""
    jobs = {pod.info.labels.get(_REPLICATED_JOB, "") for pod in in_steps(pods, pause)}
    job_label = _JOB_INDEX if len(jobs) == 1 else _GLOBAL_JOB_INDEX
    # Without the number of a Job's pods, no slice has pods of two Jobs. Ranks fit into an int64.
    stride = slicing.job_pods or slicing.size * (_MOST // slicing.size + 1)
    ranks: dict[str, int] = {}
    seen: set[int] = set()
    for pod in in_steps(pods, pause):
        rank = _rank(pod.info.labels, job_label, stride)
        if rank is None or rank in seen:
            return None
        seen.add(rank)
        ranks[pod.info.uid] = rank
    return ranks


def _rank(labels: Mapping[str, str], job_label: str, stride: int) -> int | None:
    index = next((labels[key] for key in INDEX_LABELS if key in labels), None)
    job = labels.get(job_label, "0")
    if index is None or not _is_index(index) or not _is_index(job):
        return None
    return int(job) * stride + int(index)


def _is_index(text: str) -> bool:
    return len(text) <= _DIGITS and text.isascii() and text.isdigit()


def _by_rank(
    pods: Sequence[Pod], ranks: Mapping[str, int], size: int, pause: Callable[[], None]
) -> list[Slice]:
    """Return the slices of pods with indexes: `size` consecutive ones each."""
    # Positions are sorted as an array: sorting 50,000 pods by a key takes too long for one step.
    numbers = np.fromiter((ranks[pod.info.uid] for pod in in_steps(pods, pause)), np.int64)
    parts: dict[int, list[Pod]] = defaultdict(list)
    for at in in_steps(np.argsort(numbers, kind="stable").tolist(), pause):
        parts[int(numbers[at]) // size].append(pods[at])
    # Jobs whose number of pods is not known leave gaps: then slices are counted as they come.
    gaps = int(numbers.max(initial=0)) >= _MOST
    found = []
    for position, (number, members) in enumerate(in_steps(parts.items(), pause)):
        first = None if gaps else (number * size, number * size + size - 1)
        part = Slice(position if gaps else number, size, first)
        part.waiting = [pod for pod in members if not pod.running]
        part.running = [pod for pod in members if pod.running]
        found.append(part)
    return found


def _by_domain(pods: Sequence[Pod], size: int, codes: Ints) -> list[Slice]:
    """Return the slices of pods without indexes: by the domains of those that run."""
    there: dict[int, list[Pod]] = defaultdict(list)
    waiting, anywhere = [], []
    for pod in in_order(pods):
        if not pod.running:
            waiting.append(pod)
        elif pod.row < 0:
            anywhere.append(pod)
        else:
            there[int(codes[pod.row])].append(pod)
    found = [
        Slice(0, size, running=members[first : first + size])
        for members in there.values()
        for first in range(0, len(members), size)
    ]
    # Pods that have succeeded are in no domain any more: they are of slices that lack pods.
    _deal(found, anywhere, size, to_running=True)
    _deal(found, waiting, size, to_running=False)
    # Those with the earliest pods first, as long as these run.
    for number, part in enumerate(found):
        part.number = number
    return found


def _deal(parts: list[Slice], pods: Sequence[Pod], size: int, *, to_running: bool) -> None:
    """Let the pods fill the slices that lack the fewest, then new ones."""
    rest = iter(pods)
    for part in sorted(parts, key=lambda part: part.present, reverse=True):
        lack = size - part.present
        (part.running if to_running else part.waiting).extend(islice(rest, lack))
    while more := list(islice(rest, size)):
        part = Slice(0, size)
        (part.running if to_running else part.waiting).extend(more)
        parts.append(part)
