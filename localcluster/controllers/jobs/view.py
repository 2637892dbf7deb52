"""The state of one Job in one sync, computed from the Job and its pods."""

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
    """The number of pod failures since the last success, and the time of the last one."""

    failures: int = 0
    last_failure: datetime | None = None

    def remaining(self, now: datetime) -> timedelta:
        """Return the remaining backoff: 10 s after the first failure, doubling to 10 min."""
        if self.last_failure is None:
            return timedelta()
        return backoff_left(self.failures, self.last_failure, now)

    def after(self, succeeded: Sequence[Obj], failed: Sequence[Obj]) -> "Backoff":
        """Return the backoff after these pods terminated.

        Only failures after the last success count.
        """
        ends = sorted(finished_at(pod) for pod in failed)
        if succeeded:
            last_success = max(finished_at(pod) for pod in succeeded)
            ends = [end for end in ends if end > last_success]
            return Backoff(len(ends), ends[-1] if ends else None)
        if not ends:
            return self
        return replace(self, failures=self.failures + len(ends), last_failure=ends[-1])


def backoff_left(failures: int, last_failure: datetime, now: datetime) -> timedelta:
    """Return the time until the next attempt, after that many consecutive failures."""
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
    # Completion indexes that succeeded: those in the status, and those that the pods show.
    counted_indexes: frozenset[int]
    indexes: frozenset[int]
    # Indexes that are not retried; None if all indexes share one limit.
    failed_indexes: frozenset[int] | None
    # By index, the failed pod that is kept until its replacement carries the failure count.
    kept: Mapping[int, Obj]
    backoff: Backoff

    @property
    def spec(self) -> Obj:
        """The Job's spec."""
        spec: Obj = self.job["spec"]
        return spec

    @property
    def status(self) -> Obj:
        """The Job's last written status."""
        return self.job.get("status") or {}

    @property
    def indexed(self) -> bool:
        """True if every completion has an index."""
        return is_indexed(self.job)

    @property
    def suspended(self) -> bool:
        """True if the Job is suspended and must have no pods."""
        return bool(self.spec.get("suspend"))

    @property
    def completions(self) -> int | None:
        """Number of successes that complete the Job; None if any success does."""
        wanted: int | None = self.spec.get("completions")
        return wanted


def observe(job: Obj, pods: Sequence[Obj], backoff: Backoff) -> View:
    """Count the pods that the status does not count yet."""
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
    """Return True if the Job is Indexed."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_tracked(pod: Obj) -> bool:
    """Return True if the status does not yet count the pod's termination."""
    return TRACKING_FINALIZER in finalizers_of(pod)


def is_failed(pod: Obj, job: Obj) -> bool:
    """Return True if the pod counts as failed.

    A terminating pod does, unless the Job's podReplacementPolicy is Failed.
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
