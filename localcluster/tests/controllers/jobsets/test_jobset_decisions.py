"""The next step of a JobSet, computed from its Jobs alone."""

from datetime import timedelta
from typing import Any

import pytest

from localcluster.controllers.jobsets.build import new_job
from localcluster.controllers.jobsets.sync import Plan, reconcile
from localcluster.tests.controllers.builders import (
    Obj,
    at,
    ended,
    make_jobset,
    make_role,
    with_status,
)

NOW = at(100)
PREFIX = "jobset.sigs.k8s.io/"


def jobs_of(jobset: Obj, **status: Any) -> list[Obj]:
    """Return all Jobs of a JobSet, each with the given status."""
    return [
        with_status({**new_job(jobset, role, index)}, **status)
        for role in jobset["spec"]["replicatedJobs"]
        for index in range(role["replicas"])
    ]


def plan(jobset: Obj, jobs: list[Obj]) -> Plan:
    return reconcile(jobset, jobs, NOW)


def names(objects: list[Obj]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def conditions(found: Plan) -> list[str]:
    assert found.status is not None
    return [f"{one['type']}={one['status']}" for one in found.status.get("conditions", [])]


def test_a_new_jobset_makes_all_jobs_and_its_service() -> None:
    jobset = make_jobset("train", make_role("a", replicas=2), make_role("b"))

    found = plan(jobset, [])

    assert found.service
    assert names(found.create) == ["train-a-0", "train-a-1", "train-b-0"]
    assert found.status is not None
    assert found.status["restarts"] == 0
    assert [one["name"] for one in found.status["replicatedJobsStatus"]] == ["b", "a"]
    assert "conditions" not in found.status


def test_jobs_and_pods_carry_the_marks_of_their_place() -> None:
    jobset = make_jobset("train", make_role("a", replicas=2), make_role("b", replicas=2))

    job = plan(jobset, []).create[3]

    for meta in (job["metadata"], job["spec"]["template"]["metadata"]):
        for marks in (meta["labels"], meta["annotations"]):
            assert marks[PREFIX + "jobset-name"] == "train"
            assert marks[PREFIX + "replicatedjob-name"] == "b"
            assert marks[PREFIX + "job-index"] == "1"
            assert marks[PREFIX + "job-global-index"] == "3"
            assert marks[PREFIX + "job-group-index"] == "3"
            assert marks[PREFIX + "replicatedjob-replicas"] == "2"
            assert marks[PREFIX + "global-replicas"] == "4"
            assert marks[PREFIX + "restart-attempt"] == "0"
    assert job["metadata"]["annotations"]["note"] == "kept"
    assert job["spec"]["template"]["metadata"]["labels"]["app"] == "work"
    assert job["spec"]["template"]["spec"]["subdomain"] == "train"
    assert job["spec"]["suspend"] is False


def test_groups_have_indexes_of_their_own() -> None:
    roles = (make_role("a", replicas=2, groupName="x"), make_role("b"), make_role("c"))
    jobset = make_jobset("train", *roles)

    last = plan(jobset, []).create[-1]["metadata"]["labels"]

    assert (last[PREFIX + "group-replicas"], last[PREFIX + "job-group-index"]) == ("2", "1")
    assert last[PREFIX + "job-global-index"] == "3"


def test_a_coordinator_is_named_everywhere() -> None:
    jobset = make_jobset("train", coordinator={"replicatedJob": "b", "podIndex": 2})

    labels = plan(jobset, []).create[0]["metadata"]["labels"]

    assert labels[PREFIX + "coordinator"] == "train-b-0-2.train"


def test_only_missing_jobs_are_made() -> None:
    jobset = make_jobset()

    found = plan(jobset, jobs_of(jobset)[:1])

    assert names(found.create) == ["train-b-0"]


def test_ready_active_and_suspended_jobs_are_counted() -> None:
    jobset = make_jobset("train", make_role("a", replicas=2, pods=2), make_role("b"))
    half, whole, other = jobs_of(jobset)

    found = plan(
        jobset,
        [
            with_status(half, active=2, ready=1),
            with_status(whole, active=1, ready=1, succeeded=1),
            {**other, "spec": {**other["spec"], "suspend": True}},
        ],
    )

    assert found.status is not None
    assert found.status["replicatedJobsStatus"] == [
        {"name": "b", "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 1},
        {"name": "a", "ready": 1, "succeeded": 0, "failed": 0, "active": 2, "suspended": 0},
    ]


def test_in_order_the_next_role_waits_for_the_one_before() -> None:
    jobset = make_jobset(startupPolicy={"startupPolicyOrder": "InOrder"})

    first = plan(jobset, [])
    assert names(first.create) == ["train-a-0"]
    assert conditions(first) == ["StartupPolicyInProgress=True"]

    started = with_status(jobs_of(jobset)[0], active=1, ready=1)
    jobset = with_status(jobset, **(first.status or {}))
    second = plan(jobset, [started])
    assert names(second.create) == ["train-b-0"]

    done = plan(jobset, jobs_of(jobset, active=1, ready=1))
    assert conditions(done) == ["StartupPolicyInProgress=False", "StartupPolicyCompleted=True"]
    assert [note.reason for note in done.notes] == ["InOrderStartupPolicyCompleted"]


@pytest.mark.parametrize(
    ("status", "wanted", "want"),
    [
        pytest.param("Ready", {"active": 1}, [], id="not ready yet, so it waits"),
        pytest.param("Ready", {"active": 1, "ready": 1}, ["train-b-0"], id="ready is enough"),
        pytest.param("Complete", {"active": 1, "ready": 1}, [], id="ready is not complete"),
    ],
)
def test_a_role_waits_for_what_it_depends_on(
    status: str, wanted: dict[str, Any], want: list[str]
) -> None:
    dependency = [{"name": "a", "status": status}]
    jobset = make_jobset("train", make_role("a"), make_role("b", dependsOn=dependency))

    found = plan(jobset, jobs_of(jobset, **wanted)[:1])

    assert names(found.create) == want


def test_a_role_starts_once_what_it_depends_on_is_complete() -> None:
    dependency = [{"name": "a", "status": "Complete"}]
    jobset = make_jobset("train", make_role("a"), make_role("b", dependsOn=dependency))

    found = plan(jobset, [ended(jobs_of(jobset)[0], "Complete")])

    assert names(found.create) == ["train-b-0"]


def test_a_suspended_jobset_makes_suspended_jobs() -> None:
    found = plan(make_jobset(suspend=True), [])

    assert [job["spec"]["suspend"] for job in found.create] == [True, True]
    assert conditions(found) == ["Suspended=True"]


def test_suspending_suspends_the_jobs_that_run() -> None:
    jobset = make_jobset(suspend=True)
    running = jobs_of({**jobset, "spec": {**jobset["spec"], "suspend": False}}, active=1)

    found = plan(jobset, running)

    assert [(job["metadata"]["name"], job["spec"]["suspend"]) for job in found.suspend] == [
        ("train-a-0", True),
        ("train-b-0", True),
    ]


def test_resuming_takes_over_what_changed_in_the_template() -> None:
    jobset = make_jobset("train", make_role("a"))
    jobs = jobs_of({**jobset, "spec": {**jobset["spec"], "suspend": True}})
    suspended = [{"type": "Suspended", "status": "True", "reason": "", "message": ""}]
    template = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["spec"]["nodeSelector"] = {"pool": "fast"}

    found = plan(with_status(jobset, conditions=suspended), jobs)

    (job,) = found.resume
    assert job["spec"]["suspend"] is False
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "fast"}
    assert PREFIX + "job-index" in job["spec"]["template"]["metadata"]["labels"]
    assert conditions(found) == ["Suspended=False"]


@pytest.mark.parametrize(
    ("policy", "ends", "want"),
    [
        pytest.param({"operator": "All"}, ["Complete", ""], False, id="all roles have to succeed"),
        pytest.param({"operator": "All"}, ["Complete", "Complete"], True, id="all have succeeded"),
        pytest.param({"operator": "Any"}, ["", "Complete"], True, id="any success is enough"),
        pytest.param(
            {"operator": "All", "targetReplicatedJobs": ["a"]},
            ["Complete", ""],
            True,
            id="only the target has to succeed",
        ),
        pytest.param(
            {"operator": "Any", "targetReplicatedJobs": ["a"]},
            ["", "Complete"],
            False,
            id="success of another role does not count",
        ),
    ],
)
def test_success_follows_the_policy(policy: Obj, ends: list[str], want: bool) -> None:
    jobset = make_jobset(successPolicy=policy)
    jobs = [ended(job, end) if end else job for job, end in zip(jobs_of(jobset), ends, strict=True)]

    found = plan(jobset, jobs)

    assert ("Completed=True" in conditions(found)) is want
    assert (found.status or {}).get("terminalState") == ("Completed" if want else None)


def test_a_finished_jobset_ends_the_jobs_that_are_left() -> None:
    jobset = ended(make_jobset(), "Completed")

    found = plan(jobset, jobs_of(jobset))

    assert names(found.delete) == ["train-a-0", "train-b-0"]
    assert found.create == []


def test_without_a_failure_policy_the_first_failed_job_ends_all() -> None:
    jobset = make_jobset()
    first, second = jobs_of(jobset)

    found = plan(jobset, [ended(first, "Failed", when=9), ended(second, "Failed", when=5)])

    assert conditions(found) == ["Failed=True"]
    assert found.status is not None
    assert found.status["terminalState"] == "Failed"
    assert found.notes[0].message == (
        "jobset failed due to one or more job failures (first failed job: train-b-0)"
    )


def test_a_failed_job_restarts_the_jobset_while_restarts_are_left() -> None:
    jobset = make_jobset(failurePolicy={"maxRestarts": 1})
    failed, running = jobs_of(jobset)

    found = plan(jobset, [ended(failed, "Failed"), running])

    assert found.status is not None
    assert (found.status["restarts"], found.status["restartsCountTowardsMax"]) == (1, 1)
    assert found.notes[0].reason == "RestartJobSetFailurePolicyAction"


def test_after_a_restart_old_jobs_go_and_new_ones_wait_for_their_names() -> None:
    jobset = with_status(make_jobset(failurePolicy={"maxRestarts": 1}), restarts=1)
    old = jobs_of(make_jobset())

    found = plan(jobset, old[:1])

    assert names(found.delete) == ["train-a-0"]
    assert names(found.create) == ["train-b-0"]
    assert found.create[0]["metadata"]["labels"][PREFIX + "restart-attempt"] == "1"


def test_blocking_recreate_waits_until_all_old_jobs_are_gone() -> None:
    policy = {"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}
    jobset = with_status(make_jobset(failurePolicy=policy), restarts=1)

    waiting = plan(jobset, jobs_of(make_jobset())[:1])
    free = plan(jobset, [])

    assert waiting.create == []
    assert names(free.create) == ["train-a-0", "train-b-0"]


def test_no_restart_is_left() -> None:
    jobset = make_jobset(failurePolicy={"maxRestarts": 1})
    jobset = with_status(jobset, restarts=1, restartsCountTowardsMax=1)

    found = plan(jobset, [ended(jobs_of(jobset)[0], "Failed")])

    assert conditions(found) == ["Failed=True"]
    assert found.notes[0].reason == "ReachedMaxRestarts"


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        pytest.param({"action": "FailJobSet"}, (0, 0), id="fail at once"),
        pytest.param(
            {"action": "RestartJobSetAndIgnoreMaxRestarts"}, (1, 0), id="restart uncounted"
        ),
        pytest.param(
            {"action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
            (1, 1),
            id="a rule for another reason does not apply",
        ),
        pytest.param(
            {"action": "FailJobSet", "targetReplicatedJobs": ["b"]},
            (1, 1),
            id="a rule for another role does not apply",
        ),
        pytest.param(
            {"action": "FailJobSet", "onJobFailureMessagePatterns": ["back.ff limit"]},
            (0, 0),
            id="the message matches the pattern",
        ),
    ],
)
def test_rules_choose_the_action(rule: Obj, want: tuple[int, int]) -> None:
    jobset = make_jobset(failurePolicy={"maxRestarts": 5, "rules": [rule]})
    failed = ended(
        jobs_of(jobset)[0], "Failed", reason="BackoffLimitExceeded", message="the backoff limit"
    )

    status = plan(jobset, [failed]).status

    assert status is not None
    assert (status["restarts"], status.get("restartsCountTowardsMax", 0)) == want


def test_a_finished_jobset_is_deleted_when_its_time_has_come() -> None:
    early = plan(ended(make_jobset(ttlSecondsAfterFinished=60), "Failed", when=60), [])
    late = plan(ended(make_jobset(ttlSecondsAfterFinished=60), "Failed", when=40), [])

    assert (early.expire, early.again) == (False, timedelta(seconds=20))
    assert late.expire


def test_a_settled_jobset_is_not_written_again() -> None:
    jobset = make_jobset()
    jobs = jobs_of(jobset, active=1, ready=1)
    first = plan(jobset, jobs)

    again = plan(with_status(jobset, **(first.status or {})), jobs)

    assert (again.status, again.create, again.suspend, again.resume) == (None, [], [], [])
