"""The next step of a Job: finish, delete pods or create pods."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from localcluster.base.clock import parse_time
from localcluster.controllers.base.objects import Obj, condition, is_deleting, is_terminal, is_true
from localcluster.controllers.jobs.indexes import first_free, index_of
from localcluster.controllers.jobs.pods import (
    container_statuses,
    finished_at,
    new_pod,
    surplus,
)
from localcluster.controllers.jobs.policies import (
    all_index_failures,
    failure_notes,
    success,
    verdict,
)
from localcluster.controllers.jobs.view import View, backoff_left, is_failed

MAX_PODS_PER_SYNC = 500


@dataclass(frozen=True, slots=True)
class Ending:
    """The interim condition (SuccessCriteriaMet or FailureTarget), its reason and message."""

    type: str
    reason: str
    message: str

    @property
    def successful(self) -> bool:
        """True if the Job completes rather than fails."""
        return self.type == "SuccessCriteriaMet"


COMPLETED = Ending(
    "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The pods to act on. At most one of `stop`, `remove` and `create` is not empty."""

    ending: Ending | None = None
    stop: tuple[Obj, ...] = ()  # delete; the tracking finalizer remains until they are counted
    remove: tuple[Obj, ...] = ()  # delete uncounted: the finalizer is removed first
    create: tuple[Obj, ...] = ()
    managed: bool = False  # True if this sync compared the number of pods
    again: timedelta | None = None


def decide(view: View, now: datetime) -> Decision:
    """Return the next step of an unfinished Job."""
    ending = _standing(view) or _failing(view, now) or _succeeding(view)
    if ending is not None:
        return Decision(ending=ending, stop=tuple(view.active))
    if is_deleting(view.job):
        return Decision()
    return _manage(view, now)


def _standing(view: View) -> Ending | None:
    """Return the ending that an earlier sync decided, or None."""
    for kind in ("SuccessCriteriaMet", "FailureTarget"):
        if is_true(view.job, kind):
            found = condition(view.job, kind) or {}
            return Ending(kind, found.get("reason", ""), found.get("message", ""))
    return None


def _failing(view: View, now: datetime) -> Ending | None:
    if message := _failed_by_policy(view):
        return Ending("FailureTarget", "PodFailurePolicy", message)
    if view.failed > view.spec["backoffLimit"] or _restarts_exhausted(view):
        message = "Job has reached the specified backoff limit"
        return Ending("FailureTarget", "BackoffLimitExceeded", message)
    left = _deadline(view, now)
    if left is not None and left <= timedelta():
        message = "Job was active longer than specified deadline"
        return Ending("FailureTarget", "DeadlineExceeded", message)
    return _failing_by_index(view)


def _failed_by_policy(view: View) -> str:
    """Return the message of the podFailurePolicy rule that fails the Job; empty if none does."""
    said = (verdict(view.job, pod).message for pod in view.pods if is_failed(pod, view.job))
    return next(filter(None, said), "")


def _failing_by_index(view: View) -> Ending | None:
    if not view.failed_indexes:
        return None
    most = view.spec.get("maxFailedIndexes")
    if most is not None and len(view.failed_indexes) > most:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return Ending("FailureTarget", "MaxFailedIndexesExceeded", message)
    if len(view.failed_indexes) + len(view.indexes) >= (view.completions or 0):
        return Ending("FailureTarget", "FailedIndexes", "Job has failed indexes")
    return None


def _succeeding(view: View) -> Ending | None:
    message = success(view.job, view.indexes) if view.indexed else ""
    return Ending("SuccessCriteriaMet", "SuccessPolicy", message) if message else None


def _restarts_exhausted(view: View) -> bool:
    """Return True if in-place container restarts exceed the limit; they count as failures too."""
    if view.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts: int = sum(
        one.get("restartCount", 0)
        for pod in view.pods
        if not is_terminal(pod)
        for one in container_statuses(pod)
    )
    return restarts > 0 and bool(restarts >= view.spec["backoffLimit"])


def _deadline(view: View, now: datetime) -> timedelta | None:
    """Return the time left until the deadline; None without one or before the start."""
    seconds = view.spec.get("activeDeadlineSeconds")
    start = view.status.get("startTime")
    if seconds is None or view.suspended:
        return None
    started = parse_time(start) if start else now
    return started + timedelta(seconds=seconds) - now


def _manage(view: View, now: datetime) -> Decision:
    again = _deadline(view, now)
    completions = view.completions if view.indexed else None
    if view.suspended:
        gone = surplus(view.active, len(view.active), completions)
        return Decision(remove=tuple(gone), managed=True)
    wanted = _wanted(view)
    too_many = surplus(view.active, max(0, len(view.active) - wanted), completions)
    if too_many:
        return Decision(remove=tuple(too_many[:MAX_PODS_PER_SYNC]), managed=True, again=again)
    missing = wanted - len(view.active)
    if view.spec.get("podReplacementPolicy") == "Failed":
        missing -= view.terminating
    if missing <= 0:
        return Decision(managed=True, again=again)
    missing = min(missing, MAX_PODS_PER_SYNC)
    if view.failed_indexes is not None:
        indexes, wait = _due(view, _free_indexes(view, missing), now)
    else:
        wait = view.backoff.remaining(now)
        indexes = _free_indexes(view, missing) if view.indexed else [None] * missing
    if wait > timedelta():
        return Decision(managed=True, again=min(wait, again) if again is not None else wait)
    made = tuple(_new_pod(view, index) for index in indexes)
    return Decision(create=made, managed=True, again=again)


def _due(
    view: View, indexes: list[int | None], now: datetime
) -> tuple[list[int | None], timedelta]:
    """Return the indexes that need no backoff; if all do, the shortest remaining backoff."""
    waits = {index: _index_wait(view, index, now) for index in indexes}
    due = [index for index in indexes if not waits[index]]
    return due, timedelta() if due or not waits else min(waits.values())


def _index_wait(view: View, index: int | None, now: datetime) -> timedelta:
    last = None if index is None else view.kept.get(index)
    if last is None:
        return timedelta()
    return backoff_left(all_index_failures(last) + 1, finished_at(last), now)


def _wanted(view: View) -> int:
    parallelism: int = view.spec["parallelism"]
    if view.completions is None:
        # A work queue: after the first success, the Job needs no new workers.
        return len(view.active) if view.succeeded else parallelism
    return max(0, min(parallelism, view.completions - view.succeeded))


def _free_indexes(view: View, missing: int) -> list[int | None]:
    completions = view.completions or 0
    taken = set(view.indexes | (view.failed_indexes or frozenset()))
    for pod in view.pods:
        if not is_terminal(pod) and (not is_deleting(pod) or _replaces_only_failed(view)):
            index = index_of(pod, completions)
            if index is not None:
                taken.add(index)
    return list(first_free(taken, completions, missing))


def _new_pod(view: View, index: int | None) -> Obj:
    pod = new_pod(view.job, index)
    if index is not None and view.failed_indexes is not None:
        pod["metadata"]["annotations"] |= failure_notes(view.job, view.kept.get(index))
    return pod


def _replaces_only_failed(view: View) -> bool:
    return bool(view.spec.get("podReplacementPolicy") == "Failed")


def is_finished(job: Obj) -> bool:
    """Return True if the Job is finished, so that the controller leaves it alone."""
    return is_true(job, "Complete") or is_true(job, "Failed")


def expires_in(job: Obj, now: datetime) -> timedelta | None:
    """Return the time until a finished Job expires; None if never."""
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    if seconds is None or not is_finished(job):
        return None
    ended = condition(job, "Complete" if is_true(job, "Complete") else "Failed") or {}
    return parse_time(ended["lastTransitionTime"]) + timedelta(seconds=seconds) - now
