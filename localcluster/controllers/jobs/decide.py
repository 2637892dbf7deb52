"""What a Job is to do next: end, delete pods or make pods."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from localcluster.clock import parse_time
from localcluster.controllers.jobs.indexes import first_free, index_of
from localcluster.controllers.jobs.pods import container_statuses, new_pod, surplus
from localcluster.controllers.jobs.view import View
from localcluster.controllers.objects import Obj, condition, is_deleting, is_terminal, is_true

MAX_PODS_PER_SYNC = 500


@dataclass(frozen=True, slots=True)
class Ending:
    """The interim condition (SuccessCriteriaMet or FailureTarget) and why."""

    type: str
    reason: str
    message: str

    @property
    def successful(self) -> bool:
        """Whether the Job completes rather than fails."""
        return self.type == "SuccessCriteriaMet"


COMPLETED = Ending(
    "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The pods to act on. At most one of `stop`, `remove` and `create` is not empty."""

    ending: Ending | None = None
    stop: tuple[Obj, ...] = ()  # delete; the tracking finalizer stays until they are counted
    remove: tuple[Obj, ...] = ()  # delete uncounted: the finalizer goes first
    create: tuple[Obj, ...] = ()
    managed: bool = False  # whether the number of pods was looked at
    again: timedelta | None = None


def decide(view: View, now: datetime) -> Decision:
    """The next step of a Job that has not finished."""
    ending = _standing(view) or _failing(view, now)
    if ending is not None:
        return Decision(ending=ending, stop=tuple(view.active))
    if is_deleting(view.job):
        return Decision()
    return _manage(view, now)


def _standing(view: View) -> Ending | None:
    """The ending that an earlier sync settled on."""
    for kind in ("SuccessCriteriaMet", "FailureTarget"):
        if is_true(view.job, kind):
            found = condition(view.job, kind) or {}
            return Ending(kind, found.get("reason", ""), found.get("message", ""))
    return None


def _failing(view: View, now: datetime) -> Ending | None:
    if view.failed > view.spec["backoffLimit"] or _restarts_exhausted(view):
        message = "Job has reached the specified backoff limit"
        return Ending("FailureTarget", "BackoffLimitExceeded", message)
    left = _deadline(view, now)
    if left is not None and left <= timedelta():
        message = "Job was active longer than specified deadline"
        return Ending("FailureTarget", "DeadlineExceeded", message)
    return None


def _restarts_exhausted(view: View) -> bool:
    """Containers restarted in place count against the limit too."""
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
    """How long the Job may go on; None without a deadline or before it started."""
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
    wait = view.backoff.remaining(now)
    if wait > timedelta():
        return Decision(managed=True, again=min(wait, again) if again is not None else wait)
    return Decision(
        create=tuple(_new_pods(view, min(missing, MAX_PODS_PER_SYNC))), managed=True, again=again
    )


def _wanted(view: View) -> int:
    parallelism: int = view.spec["parallelism"]
    if view.completions is None:
        # A work queue: the first success says that no new workers are needed.
        return len(view.active) if view.succeeded else parallelism
    return max(0, min(parallelism, view.completions - view.succeeded))


def _new_pods(view: View, missing: int) -> list[Obj]:
    if not view.indexed or view.completions is None:
        return [new_pod(view.job, None) for _ in range(missing)]
    taken = set(view.indexes)
    for pod in view.pods:
        if not is_terminal(pod) and (not is_deleting(pod) or _replaces_only_failed(view)):
            index = index_of(pod, view.completions)
            if index is not None:
                taken.add(index)
    return [new_pod(view.job, index) for index in first_free(taken, view.completions, missing)]


def _replaces_only_failed(view: View) -> bool:
    return bool(view.spec.get("podReplacementPolicy") == "Failed")


def is_finished(job: Obj) -> bool:
    """Whether the Job has come to its end and is left alone."""
    return is_true(job, "Complete") or is_true(job, "Failed")


def expires_in(job: Obj, now: datetime) -> timedelta | None:
    """How long a finished Job is kept; None when for ever."""
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    if seconds is None or not is_finished(job):
        return None
    ended = condition(job, "Complete" if is_true(job, "Complete") else "Failed") or {}
    return parse_time(ended["lastTransitionTime"]) + timedelta(seconds=seconds) - now
