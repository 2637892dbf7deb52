"""The next writes of a JobSet, computed from the JobSet and its Jobs alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from localcluster.base.clock import parse_time
from localcluster.controllers.base.event_recorder import Note
from localcluster.controllers.base.objects import Obj, condition, is_deleting, is_true, labels_of
from localcluster.controllers.jobsets import constants as words
from localcluster.controllers.jobsets.build import job_name, new_job, replicas, resumed, roles_of
from localcluster.controllers.jobsets.failure import FailureAction, choose
from localcluster.controllers.jobsets.scaling import is_surplus, resized
from localcluster.controllers.jobsets.status import (
    ChildJobs,
    StatusDraft,
    all_started,
    is_finished,
    is_suspended,
    replicated_jobs_status,
    sort_out,
)

FINISHED = (words.COMPLETED, words.FAILED)


@dataclass(slots=True)
class Plan:
    """The writes of one reconcile, in the order of the fields."""

    delete: list[Obj] = field(default_factory=list)  # Jobs, in the foreground
    service: bool = False  # create the headless Service
    create: list[Obj] = field(default_factory=list)
    suspend: list[Obj] = field(default_factory=list)  # Jobs in their desired state
    resume: list[Obj] = field(default_factory=list)
    resize: list[Obj] = field(default_factory=list)
    expire: bool = False  # delete the JobSet itself
    status: Obj | None = None
    notes: list[Note] = field(default_factory=list)  # recorded after the status is written
    again: timedelta | None = None


def reconcile(jobset: Obj, jobs: Sequence[Obj], now: datetime, *, scaling: bool = False) -> Plan:
    """Return the plan for a JobSet that this controller manages and that is not being deleted.

    With `scaling` Jobs beyond the replicas are deleted, and the others are resized.
    """
    surplus = [job for job in jobs if is_surplus(job, jobset)] if scaling else []
    children = sort_out(jobset, [job for job in jobs if job not in surplus])
    draft = StatusDraft(jobset, now)
    draft.replicated_jobs(replicated_jobs_status(jobset, children))
    plan = Plan()
    if is_finished(jobset):
        _wind_up(jobset, children, plan, now)
    else:
        plan.delete = [job for job in (*children.previous, *surplus) if not is_deleting(job)]
        _step(jobset, children, plan, draft)
        if scaling:
            _resize(jobset, children, plan)
    plan.status, plan.notes = draft.result()
    return plan


def _step(jobset: Obj, children: ChildJobs, plan: Plan, draft: StatusDraft) -> None:
    if children.failed:
        _fail_or_restart(choose(jobset, children.failed), draft)
        return
    if children.successful and _has_succeeded(jobset, children):
        draft.finish(words.COMPLETED, "AllJobsCompleted", "jobset completed successfully")
        return
    plan.service = True
    _make_jobs(jobset, children, plan, draft)
    if is_suspended(jobset):
        _suspend(children, plan, draft)
    else:
        _resume(jobset, children, plan, draft)


def _wind_up(jobset: Obj, children: ChildJobs, plan: Plan, now: datetime) -> None:
    plan.delete = [job for job in children.active if not is_deleting(job)]
    ttl = jobset["spec"].get("ttlSecondsAfterFinished")
    if ttl is None:
        return
    ended = next(
        found
        for kind in FINISHED
        if is_true(jobset, kind)
        for found in [condition(jobset, kind)]
        if found
    )
    left = parse_time(ended["lastTransitionTime"]) + timedelta(seconds=ttl) - now
    plan.expire = left <= timedelta()
    plan.again = None if plan.expire else left


def _fail_or_restart(action: FailureAction, draft: StatusDraft) -> None:
    if action.restart:
        draft.restart(counted=action.counted, note=Note("Warning", action.reason, action.message))
    else:
        draft.finish(words.FAILED, action.reason, action.message)


def _has_succeeded(jobset: Obj, children: ChildJobs) -> bool:
    policy = jobset["spec"].get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [one["name"] for one in roles_of(jobset)]
    done = sum(labels_of(job).get(words.REPLICATED_JOB) in targets for job in children.successful)
    if policy.get("operator") == "Any":
        return done >= 1
    wanted = [one for one in roles_of(jobset) if one["name"] in targets]
    return done >= sum(map(replicas, wanted))


def _make_jobs(jobset: Obj, children: ChildJobs, plan: Plan, draft: StatusDraft) -> None:
    in_order = _is_in_order(jobset) and not is_suspended(jobset)
    for replicated in roles_of(jobset):
        if not _dependencies_met(jobset, replicated, draft):
            continue
        if in_order and all_started(replicated, draft.status_of(replicated["name"])):
            continue
        plan.create += _missing_jobs(jobset, replicated, children)
        if in_order:
            _startup_in_progress(draft)
            return
    if in_order:
        draft.condition(
            words.STARTUP_COMPLETED,
            "InOrderStartupPolicyCompleted",
            "in order startup policy has completed",
        )


def _missing_jobs(jobset: Obj, replicated: Obj, children: ChildJobs) -> list[Obj]:
    policy = jobset["spec"].get("failurePolicy") or {}
    if children.previous and policy.get("restartStrategy") == "BlockingRecreate":
        return []
    present = {job["metadata"]["name"] for job in children.all()}
    return [
        new_job(jobset, replicated, index)
        for index in range(replicas(replicated))
        if job_name(jobset, replicated["name"], index) not in present
    ]


def _suspend(children: ChildJobs, plan: Plan, draft: StatusDraft) -> None:
    plan.suspend = [
        {**job, "spec": {**job["spec"], "suspend": True}}
        for job in children.active
        if not is_suspended(job)
    ]
    draft.condition(words.SUSPENDED, "SuspendedJobs", "jobset is suspended")


def _resume(jobset: Obj, children: ChildJobs, plan: Plan, draft: StatusDraft) -> None:
    for replicated in roles_of(jobset):
        name = replicated["name"]
        if not _dependencies_met(jobset, replicated, draft):
            continue
        if _is_in_order(jobset) and all_started(replicated, draft.status_of(name)):
            continue
        plan.resume += [
            resumed(job, replicated)
            for job in children.active
            if labels_of(job).get(words.REPLICATED_JOB) == name and is_suspended(job)
        ]
        if _is_in_order(jobset):
            _startup_in_progress(draft)
            return
    draft.condition(words.SUSPENDED, "ResumeJobs", "jobset is resumed", value=False)


def _resize(jobset: Obj, children: ChildJobs, plan: Plan) -> None:
    """Plan the resizing of Jobs.

    One with another write in this plan waits for the next reconcile.
    """
    written = [job["metadata"]["name"] for job in (*plan.suspend, *plan.resume)]
    for job in children.active:
        if job["metadata"]["name"] not in written and not is_deleting(job):
            changed = resized(job, jobset)
            plan.resize += [] if changed is None else [changed]


def _startup_in_progress(draft: StatusDraft) -> None:
    draft.condition(
        words.STARTUP_IN_PROGRESS,
        "InOrderStartupPolicyInProgress",
        "in order startup policy is in progress",
    )


def _is_in_order(jobset: Obj) -> bool:
    policy = jobset["spec"].get("startupPolicy") or {}
    return bool(policy.get("startupPolicyOrder") == "InOrder")


def _dependencies_met(jobset: Obj, replicated: Obj, draft: StatusDraft) -> bool:
    by_name = {one["name"]: one for one in roles_of(jobset)}
    for dependency in replicated.get("dependsOn") or []:
        name = dependency["name"]
        status = draft.status_of(name)
        if dependency["status"] == "Complete":
            if status["succeeded"] != replicas(by_name[name]):
                return False
        elif not all_started(by_name[name], status):
            return False
    return True
