"""Completion indexes of an Indexed Job, and their compressed form in its status."""

from collections.abc import Iterable
from itertools import count, islice

from localcluster.controllers.base.objects import Obj, annotations_of

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def index_of(pod: Obj, completions: int) -> int | None:
    """Return the pod's completion index; None if it has none or one beyond the completions."""
    text = annotations_of(pod).get(COMPLETION_INDEX, "")
    if not text.isdecimal():
        return None
    index = int(text)
    return index if index < completions else None


def parse(text: str, completions: int) -> frozenset[int]:
    """Parse `status.completedIndexes`, such as "0,2-4"; drop indexes beyond the completions."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), min(int(last or first) + 1, completions)))
    return frozenset(index for index in indexes if index < completions)


def compress(indexes: Iterable[int]) -> str:
    """Format indexes as Kubernetes does: runs of three or more as "first-last"."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs
    )


def first_free(taken: Iterable[int], completions: int, wanted: int) -> list[int]:
    """Return the lowest `wanted` free indexes below `completions`."""
    used = frozenset(taken)
    free = (index for index in count() if index not in used)
    below = (index for index in free if index < completions)
    return list(islice(below, min(wanted, completions - len(used))))
