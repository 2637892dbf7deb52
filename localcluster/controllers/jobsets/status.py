"""A JobSet's status: classification and counts of its Jobs, and its conditions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from localcluster.base.clock import timestamp
from localcluster.controllers.base.event_recorder import EventType, Note
from localcluster.controllers.base.objects import Obj, is_true, labels_of
from localcluster.controllers.jobsets import constants as words
from localcluster.controllers.jobsets.build import replicas, restarts, roles_of

_EXCLUSIVE = {
    words.STARTUP_IN_PROGRESS: words.STARTUP_COMPLETED,
    words.STARTUP_COMPLETED: words.STARTUP_IN_PROGRESS,
}


@dataclass(frozen=True, slots=True)
class ChildJobs:
    """The Jobs of a JobSet; `previous` are those of attempts before a restart."""

    active: Sequence[Obj]
    successful: Sequence[Obj]
    failed: Sequence[Obj]
    previous: Sequence[Obj]

    def all(self) -> list[Obj]:
        """Return all Jobs."""
        return [*self.active, *self.successful, *self.failed, *self.previous]


def sort_out(jobset: Obj, jobs: Sequence[Obj]) -> ChildJobs:
    """Group the Jobs by attempt and outcome."""
    active, successful, failed, previous = [], [], [], []
    for job in jobs:
        if int(labels_of(job)[words.RESTART_ATTEMPT]) < restarts(jobset):
            previous.append(job)
        elif is_true(job, "Failed"):
            failed.append(job)
        elif is_true(job, "Complete"):
            successful.append(job)
        else:
            active.append(job)
    return ChildJobs(active, successful, failed, previous)


def is_finished(jobset: Obj) -> bool:
    """Return True if the JobSet has completed or failed."""
    return is_true(jobset, words.COMPLETED) or is_true(jobset, words.FAILED)


def is_suspended(owner: Obj) -> bool:
    """Return True if a Job or JobSet is suspended."""
    return bool(owner["spec"].get("suspend"))


def replicated_jobs_status(jobset: Obj, children: ChildJobs) -> list[Obj]:
    """Return `status.replicatedJobsStatus`, by descending name, as JobSet writes it."""
    names = [one["name"] for one in roles_of(jobset)]
    empty = {"ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
    counts = {name: dict(empty) for name in names}
    for job in children.active:
        count, status = counts[labels_of(job)[words.REPLICATED_JOB]], job.get("status") or {}
        done = status.get("succeeded", 0) + (status.get("ready") or 0)
        count["ready"] += done >= _pods_count(job)
        count["active"] += status.get("active", 0) > 0
        count["suspended"] += is_suspended(job)
    for name, jobs in (("succeeded", children.successful), ("failed", children.failed)):
        for job in jobs:
            counts[labels_of(job)[words.REPLICATED_JOB]][name] += 1
    return [{"name": name, **counts[name]} for name in sorted(names, reverse=True)]


def _pods_count(job: Obj) -> int:
    parallelism: int = job["spec"].get("parallelism", 1)
    completions = job["spec"].get("completions")
    return parallelism if completions is None else min(parallelism, completions)


def all_started(replicated: Obj, status: Obj) -> bool:
    """Return True if every Job of a replicatedJob has started, whatever its outcome."""
    return bool(status["failed"] + status["ready"] + status["succeeded"] == replicas(replicated))


class StatusDraft:
    """The status under construction in one reconcile, and the events of its changes."""

    def __init__(self, jobset: Obj, now: datetime) -> None:
        self._old: Obj = jobset.get("status") or {}
        self._status: Obj = dict(self._old)
        self._conditions: list[Obj] = [dict(one) for one in self._old.get("conditions") or []]
        self._now = now
        self._notes: list[Note] = []
        self._changed = False

    def replicated_jobs(self, statuses: list[Obj]) -> None:
        """Set the counts."""
        # An old list may be in another order: compare it as a map by name.
        old = {one["name"]: one for one in self._old.get("replicatedJobsStatus") or []}
        self._changed |= old != {one["name"]: one for one in statuses}
        self._status["replicatedJobsStatus"] = statuses

    def status_of(self, replicated_job: str) -> Obj:
        """Return the counts of one replicatedJob."""
        statuses: list[Obj] = self._status["replicatedJobsStatus"]
        return next(one for one in statuses if one["name"] == replicated_job)

    def condition(
        self,
        kind: str,
        reason: str,
        message: str,
        *,
        value: bool = True,
        severity: EventType = "Normal",
    ) -> None:
        """Set a condition; one that does not exist is not set to False."""
        wanted = "True" if value else "False"
        changed = False
        if value:
            changed = self._end_exclusive(_EXCLUSIVE.get(kind, ""))
        present = next((one for one in self._conditions if one["type"] == kind), None)
        new = {
            "type": kind,
            "status": wanted,
            "reason": reason,
            "message": message,
            "lastTransitionTime": timestamp(self._now),
        }
        if present is None and value:
            self._conditions.append(new)
            changed = True
        elif present is not None and present["status"] != wanted:
            self._conditions[self._conditions.index(present)] = new
            changed = True
        if changed:
            self._changed = True
            self._notes.append(Note(severity, reason, message))

    def finish(self, kind: str, reason: str, message: str) -> None:
        """Mark the JobSet as completed or failed."""
        severity: EventType = "Warning" if kind == words.FAILED else "Normal"
        self.condition(kind, reason, message, severity=severity)
        self._status["terminalState"] = kind

    def restart(self, *, counted: bool, note: Note) -> None:
        """Start the next attempt; `counted` counts it against maxRestarts."""
        self._status["restarts"] = self._old.get("restarts", 0) + 1
        if counted:
            before = self._old.get("restartsCountTowardsMax", 0)
            self._status["restartsCountTowardsMax"] = before + 1
        self._changed = True
        self._notes.append(note)

    def result(self) -> tuple[Obj | None, list[Note]]:
        """Return the status to write, None if unchanged, and the events."""
        if not self._changed:
            return None, []
        self._status.setdefault("restarts", 0)
        if self._conditions:
            self._status["conditions"] = self._conditions
        return self._status, self._notes

    def _end_exclusive(self, other: str) -> bool:
        for one in self._conditions:
            if one["type"] == other and one["status"] == "True":
                one["status"] = "False"
                return True
        return False
