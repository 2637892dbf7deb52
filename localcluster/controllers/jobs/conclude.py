"""The writes of a sync: the status before and after the tracking finalizers are removed.

A terminated pod is first listed in `status.uncountedTerminatedPods`, then loses its finalizer, and
only then is counted. So a crash between any two writes neither counts a pod twice nor loses one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from localcluster.base.clock import timestamp
from localcluster.controllers.base.event_recorder import Note
from localcluster.controllers.base.objects import Obj, is_deleting, phase_of, uid_of
from localcluster.controllers.jobs.decide import COMPLETED, Decision, Ending
from localcluster.controllers.jobs.indexes import compress, index_of
from localcluster.controllers.jobs.policies import verdict
from localcluster.controllers.jobs.view import View, is_failed, is_tracked

MAX_UNCOUNTED = 500  # limits the size of the status; the next sync takes the rest


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a decision: pods created, pods deleted, and ready pods deleted."""

    created: int = 0
    deleted: int = 0
    deleted_ready: int = 0


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The writes in order: `interim` status, removal of finalizers (`release`), `final` status.

    A status is None if there is nothing to write.
    """

    interim: Obj | None
    release: tuple[Obj, ...]
    final: Obj | None
    notes: tuple[Note, ...]  # recorded after the interim status is written
    end_notes: tuple[Note, ...]  # recorded after the final status is written


def conclude(view: View, decision: Decision, outcome: Outcome, now: datetime) -> Conclusion:
    """Return the writes of a Job after its sync."""
    status = _counted(view, outcome, now)
    notes: list[Note] = []
    ending = decision.ending
    if ending is None and _is_complete(view, status["active"]):
        ending = COMPLETED
    elif decision.managed:
        notes = _suspension(view, status, now)
    _drop_zeroes(status)

    release, reached_limit = _take_up(view, status, ending)
    if ending is not None:
        _set_condition(status, ending.type, ending.reason, ending.message, now)
    interim = status if _differs(status, view.status) else None

    final = _copy(status)
    _count(final, keep=_tracked_uids(view) - {uid_of(pod) for pod in release})
    _drop_zeroes(final)
    end_notes: tuple[Note, ...] = ()
    # The Job finishes only when all pods are listed and the last terminating one is gone.
    if ending is not None and not reached_limit and not final.get("terminating"):
        end_notes = _end(view, final, ending, now)
    return Conclusion(
        interim=interim,
        release=tuple(release),
        final=final if _differs(final, status) else None,
        notes=tuple(notes),
        end_notes=end_notes,
    )


def _counted(view: View, outcome: Outcome, now: datetime) -> Obj:
    """Return the old status with current counts, including pods released earlier."""
    status = _copy(view.status)
    if not status.get("startTime") and not view.suspended:
        status["startTime"] = timestamp(now)
    _count(status, keep=_tracked_uids(view))
    status["active"] = len(view.active) + outcome.created - outcome.deleted
    status["ready"] = view.ready - outcome.deleted_ready
    status["terminating"] = view.terminating + outcome.deleted
    return status


def _is_complete(view: View, active: int) -> bool:
    wanted = view.completions if view.completions is not None else 1
    return view.succeeded >= wanted and active == 0


def _suspension(view: View, status: Obj, now: datetime) -> list[Note]:
    if view.suspended:
        if _set_condition(status, "Suspended", "JobSuspended", "Job suspended", now):
            status.pop("startTime", None)
            return [Note("Normal", "Suspended", "Job suspended")]
        return []
    known = any(one["type"] == "Suspended" for one in status.get("conditions") or [])
    if known and _set_condition(status, "Suspended", "JobResumed", "Job resumed", now, value=False):
        # The deadline counts from here: time spent suspended does not count.
        status["startTime"] = timestamp(now)
        return [Note("Normal", "Resumed", "Job resumed")]
    return []


def _take_up(view: View, status: Obj, ending: Ending | None) -> tuple[list[Obj], bool]:
    """List the terminated pods in the status.

    Returns the pods to release, and True if the limit left some for the next sync.
    """
    uncounted = status["uncountedTerminatedPods"]
    taken = {*uncounted.get("succeeded", ()), *uncounted.get("failed", ())}
    indexes = set(view.counted_indexes)
    release: list[Obj] = []
    fresh = 0
    reached_limit = False
    for pod in _in_order(view):
        if not is_tracked(pod) or not _may_release(view, pod, ending):
            continue
        release.append(pod)
        counter, index = _counts_as(view, pod, ending), _index(view, pod)
        if counter == "succeeded" and view.indexed:
            # The set of indexes already prevents a success from being counted twice.
            fresh += index not in indexes
            indexes.add(index or 0)
        elif counter and uid_of(pod) not in taken:
            uncounted.setdefault(counter, []).append(uid_of(pod))
        if fresh + sum(map(len, uncounted.values())) >= MAX_UNCOUNTED:
            reached_limit = True
            break
    if view.indexed:
        _put(status, "completedIndexes", compress(indexes))
        _put(status, "succeeded", len(indexes))
        if view.failed_indexes is not None:
            status["failedIndexes"] = compress(view.failed_indexes)
    return release, reached_limit


def _in_order(view: View) -> Iterable[Obj]:
    if not view.indexed:
        return view.pods
    return sorted(view.pods, key=lambda pod: -1 if (i := _index(view, pod)) is None else i)


def _index(view: View, pod: Obj) -> int | None:
    return index_of(pod, view.completions or 0) if view.indexed else None


def _may_release(view: View, pod: Obj, ending: Ending | None) -> bool:
    if is_deleting(view.job) or ending is not None or phase_of(pod) == "Succeeded":
        return True
    kept = (uid_of(each) for each in view.kept.values())
    return is_failed(pod, view.job) and uid_of(pod) not in kept


def _counts_as(view: View, pod: Obj, ending: Ending | None) -> str:
    """Return the counter of a pod; in a failed Job every pod that did not succeed is failed."""
    if view.indexed and _index(view, pod) is None:
        return ""
    failed_before = (view.status.get("uncountedTerminatedPods") or {}).get("failed") or ()
    if phase_of(pod) == "Succeeded" and uid_of(pod) not in failed_before:
        return "succeeded"
    if is_failed(pod, view.job) or (ending is not None and not ending.successful):
        return "failed" if verdict(view.job, pod).counted else ""
    return ""


def _tracked_uids(view: View) -> set[str]:
    return {uid_of(pod) for pod in view.pods if is_tracked(pod)}


def _count(status: Obj, *, keep: set[str]) -> None:
    """Move the uncounted pods that have lost their finalizer into the counters."""
    uncounted = status["uncountedTerminatedPods"]
    for counter in ("succeeded", "failed"):
        named = uncounted.pop(counter, [])
        left = [uid for uid in named if uid in keep]
        if left:
            uncounted[counter] = left
        if len(left) < len(named):
            status[counter] = status.get(counter, 0) + len(named) - len(left)


def _end(view: View, status: Obj, ending: Ending, now: datetime) -> tuple[Note, ...]:
    kind = "Complete" if ending.successful else "Failed"
    _set_condition(status, kind, ending.reason, ending.message, now)
    if not ending.successful:
        return (Note("Warning", ending.reason, ending.message),)
    status["completionTime"] = timestamp(now)
    done = Note("Normal", "Completed", "Job completed")
    if view.completions is not None and status.get("succeeded", 0) > view.completions:
        message = "Too many succeeded pods running after completion count reached"
        return Note("Warning", "TooManySucceededPods", message), done
    return (done,)


def _set_condition(
    status: Obj, kind: str, reason: str, message: str, now: datetime, *, value: bool = True
) -> bool:
    """Set a condition; return True if anything changed."""
    stamp = timestamp(now)
    wanted = {
        "type": kind,
        "status": "True" if value else "False",
        "reason": reason,
        "message": message,
    }
    full = {**wanted, "lastProbeTime": stamp, "lastTransitionTime": stamp}
    conditions: list[Obj] = list(status.get("conditions") or [])
    for place, present in enumerate(conditions):
        if present["type"] == kind:
            if all(present.get(name) == text for name, text in wanted.items()):
                return False
            conditions[place] = full
            break
    else:
        conditions.append(full)
    status["conditions"] = conditions
    return True


def _copy(status: Obj) -> Obj:
    uncounted = status.get("uncountedTerminatedPods") or {}
    return {**status, "uncountedTerminatedPods": {k: list(v) for k, v in uncounted.items()}}


def _put(status: Obj, name: str, value: str | int) -> None:
    if value:
        status[name] = value
    else:
        status.pop(name, None)


def _drop_zeroes(status: Obj) -> None:
    """Drop the counters that Kubernetes omits at zero; it always writes ready and terminating."""
    for name in ("active", "succeeded", "failed"):
        _put(status, name, status.get(name, 0))


def _differs(new: Obj, old: Obj) -> bool:
    """Return True if a write is due; a missing empty list in the old status does not count."""
    return new != {"uncountedTerminatedPods": {}, **old}
