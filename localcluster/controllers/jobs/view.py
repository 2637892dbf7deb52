"""What the Job controller sees of one Job at one moment, counted up from the Job and its pods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from localcluster.controllers.base.objects import (
    Obj,
    finalizers_of,
    is_deleting,
    is_terminal,
    is_true,
    phase_of,
    uid_of,
)
from localcluster.controllers.jobs.indexes import index_of, parse
from localcluster.controllers.jobs.pods import TRACKING_FINALIZER, finished_at
from localcluster.controllers.jobs.policies import (
    all_index_failures,
    gives_up_index,
    index_limit,
    verdict,
)

FIRST_BACKOFF = timedelta(seconds=10)
LAST_BACKOFF = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often pods failed since the last success, and when last."""

    failures: int = 0
    last_failure: datetime | None = None

    def remaining(self, now: datetime) -> timedelta:
        """How long new pods have to wait: 10 s after the first failure, doubling to 10 min."""
        if self.last_failure is None:
            return timedelta()
        return backoff_left(self.failures, self.last_failure, now)

    def after(self, succeeded: Sequence[Obj], failed: Sequence[Obj]) -> "Backoff":
        """The record once these pods have ended; only failures after the last success count."""
        ends = sorted(finished_at(pod) for pod in failed)
        if succeeded:
            last_success = max(finished_at(pod) for pod in succeeded)
            ends = [end for end in ends if end > last_success]
            return Backoff(len(ends), ends[-1] if ends else None)
        if not ends:
            return self
        return replace(self, failures=self.failures + len(ends), last_failure=ends[-1])


def backoff_left(failures: int, last_failure: datetime, now: datetime) -> timedelta:
    """How long it is until the next try, after so many failures in a row."""
    if failures == 0:
        return timedelta()
    wait = min(FIRST_BACKOFF * (1 << min(failures - 1, 10)), LAST_BACKOFF)
    return max(last_failure + wait - now, timedelta())


@dataclass(frozen=True, slots=True)
class View:
    """The counts of one sync. Pods are those that the Job controls, in order of arrival."""

    job: Obj
    pods: Sequence[Obj]
    active: Sequence[Obj]
    ready: int
    terminating: int
    succeeded: int
    failed: int
    # Completion indexes that have succeeded: as the status has them, and as the pods show.
    counted_indexes: frozenset[int]
    indexes: frozenset[int]
    # Indexes that are not tried again; None where all indexes share one limit.
    failed_indexes: frozenset[int] | None
    # By index, the failed pod that is kept until the next one counts its failures on.
    kept: Mapping[int, Obj]
    backoff: Backoff

    @property
    def spec(self) -> Obj:
        """The Job's spec."""
        spec: Obj = self.job["spec"]
        return spec

    @property
    def status(self) -> Obj:
        """The Job's status as it was last written."""
        return self.job.get("status") or {}

    @property
    def indexed(self) -> bool:
        """Whether every completion has an index."""
        return is_indexed(self.job)

    @property
    def suspended(self) -> bool:
        """Whether the Job is to have no pods for now."""
        return bool(self.spec.get("suspend"))

    @property
    def completions(self) -> int | None:
        """How many successes complete the Job; None when any success does."""
        wanted: int | None = self.spec.get("completions")
        return wanted


def observe(job: Obj, pods: Sequence[Obj], backoff: Backoff) -> View:
    """Count up what the pods say, beyond what the status has counted already."""
    status = job.get("status") or {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    fresh = [pod for pod in pods if is_tracked(pod) and _is_counted_by_index(pod, job)]
    new_succeeded = [
        pod
        for pod in fresh
        if phase_of(pod) == "Succeeded" and uid_of(pod) not in (uncounted.get("succeeded") or ())
    ]
    new_failed = [
        pod
        for pod in fresh
        if is_failed(pod, job) and uid_of(pod) not in (uncounted.get("failed") or ())
    ]
    counted, indexes = _indexes(job, pods)
    failed_indexes = _failed_indexes(job, pods)
    succeeded = (
        len(indexes)
        if is_indexed(job)
        else status.get("succeeded", 0) + len(new_succeeded) + len(uncounted.get("succeeded") or ())
    )
    active = [pod for pod in pods if not is_terminal(pod) and not is_deleting(pod)]
    return View(
        job=job,
        pods=pods,
        active=active,
        ready=sum(is_true(pod, "Ready") for pod in active),
        terminating=sum(is_deleting(pod) and not is_terminal(pod) for pod in pods),
        succeeded=succeeded,
        failed=status.get("failed", 0)
        + sum(verdict(job, pod).counted for pod in new_failed)
        + len(uncounted.get("failed") or ()),
        counted_indexes=counted,
        indexes=indexes,
        failed_indexes=failed_indexes,
        kept={}
        if failed_indexes is None
        else _kept(job, new_failed, active, indexes | failed_indexes),
        backoff=backoff.after(new_succeeded, new_failed),
    )


def is_indexed(job: Obj) -> bool:
    """Whether the Job's completions have indexes."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_tracked(pod: Obj) -> bool:
    """Whether the pod's end is not finally in the status yet."""
    return TRACKING_FINALIZER in finalizers_of(pod)


def is_failed(pod: Obj, job: Obj) -> bool:
    """Whether the pod counts as failed.

    A pod that is being deleted does, unless the Job replaces pods only once they have Failed.
    """
    if phase_of(pod) == "Failed":
        return True
    if job["spec"].get("podReplacementPolicy") == "Failed":
        return False
    return is_deleting(pod) and phase_of(pod) != "Succeeded"


def _is_counted_by_index(pod: Obj, job: Obj) -> bool:
    return not is_indexed(job) or index_of(pod, job["spec"]["completions"]) is not None


def _indexes(job: Obj, pods: Sequence[Obj]) -> tuple[frozenset[int], frozenset[int]]:
    if not is_indexed(job):
        return frozenset(), frozenset()
    completions = job["spec"]["completions"]
    counted = parse((job.get("status") or {}).get("completedIndexes", ""), completions)
    fresh = {
        index_of(pod, completions)
        for pod in pods
        if phase_of(pod) == "Succeeded" and is_tracked(pod)
    }
    return counted, counted | frozenset(index for index in fresh if index is not None)


def _failed_indexes(job: Obj, pods: Sequence[Obj]) -> frozenset[int] | None:
    if not is_indexed(job) or index_limit(job) is None:
        return None
    completions = job["spec"]["completions"]
    counted = parse((job.get("status") or {}).get("failedIndexes") or "", completions)
    fresh = {
        index_of(pod, completions)
        for pod in pods
        if is_tracked(pod) and is_failed(pod, job) and gives_up_index(job, pod)
    }
    return counted | frozenset(index for index in fresh if index is not None)


def _kept(
    job: Obj, failed: Sequence[Obj], active: Sequence[Obj], over: frozenset[int]
) -> dict[int, Obj]:
    completions = job["spec"]["completions"]
    replaced = {index_of(pod, completions) for pod in active}
    kept: dict[int, Obj] = {}
    for pod in sorted(failed, key=lambda pod: (all_index_failures(pod), finished_at(pod))):
        index = index_of(pod, completions)
        if index is not None and index not in over and index not in replaced:
            kept[index] = pod
    return kept
