"""The next step of a Job, computed from its pods alone."""

from datetime import timedelta
from typing import Any

import pytest

from localcluster.controllers.jobs.conclude import Conclusion, Outcome, conclude
from localcluster.controllers.jobs.decide import Decision, decide, expires_in
from localcluster.controllers.jobs.view import Backoff, View, observe
from localcluster.tests.controllers.builders import Obj, at, make_job, make_pod, with_status

NOW = at(100)


def look(job: Obj, *pods: Obj, backoff: Backoff | None = None) -> tuple[View, Decision]:
    view = observe(job, pods, backoff or Backoff())
    return view, decide(view, NOW)


def sync(job: Obj, *pods: Obj, made: int | None = None) -> Conclusion:
    """Run a complete sync in which every action succeeds, or which creates only `made` pods."""
    view, decision = look(job, *pods)
    gone = decision.stop or decision.remove
    outcome = Outcome(len(decision.create) if made is None else made, len(gone), 0)
    return conclude(view, decision, outcome, NOW)


def names(pods: tuple[Obj, ...]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def condition_types(status: Obj | None) -> list[str]:
    assert status is not None
    return [f"{one['type']}={one['status']}" for one in status.get("conditions", [])]


@pytest.mark.parametrize(
    ("spec", "pods", "want"),
    [
        pytest.param({"parallelism": 3, "completions": 3}, [], 3, id="a new Job starts all pods"),
        pytest.param({"parallelism": 2, "completions": 5}, [], 2, id="parallelism is the limit"),
        pytest.param(
            {"parallelism": 5, "completions": 2}, [], 2, id="no more pods than completions"
        ),
        pytest.param(
            {"parallelism": 2, "completions": None}, [], 2, id="a work queue starts parallelism"
        ),
        pytest.param(
            {"parallelism": 2, "completions": None},
            [make_pod("a", phase="Succeeded"), make_pod("b", phase="Running")],
            0,
            id="a work queue starts no worker after the first success",
        ),
        pytest.param(
            {"parallelism": 2, "completions": 3},
            [make_pod("a", phase="Succeeded"), make_pod("b", phase="Running")],
            1,
            id="a success is followed by the next pod",
        ),
        pytest.param(
            {"parallelism": 1, "completions": 1},
            [make_pod("a", phase="Running", deleted_at=1)],
            1,
            id="a pod being deleted is replaced at once",
        ),
        pytest.param(
            {"parallelism": 1, "completions": 1, "podReplacementPolicy": "Failed"},
            [make_pod("a", phase="Running", deleted_at=1)],
            0,
            id="a pod being deleted is replaced only when gone, if so asked",
        ),
    ],
)
def test_missing_pods_are_made(spec: dict[str, Any], pods: list[Obj], want: int) -> None:
    # The deleted pod terminated long ago, so that no backoff delays its replacement.
    _, decision = look(make_job(**spec), *pods)

    assert len(decision.create) == want


def test_pods_of_an_indexed_job_carry_their_index() -> None:
    job = make_job(parallelism=3, completions=3, completionMode="Indexed")

    _, decision = look(job, make_pod("b", phase="Running", index=1))

    first, second = decision.create
    assert first["metadata"]["generateName"] == "work-0-"
    assert second["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "2"
    assert second["spec"]["hostname"] == "work-2"
    assert second["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    assert "env" not in job["spec"]["template"]["spec"]["containers"][0]


def test_the_least_advanced_pods_go_when_parallelism_shrinks() -> None:
    pods = [
        make_pod("ready", phase="Running", node="n", ready=True),
        make_pod("bound", node="n"),
        make_pod("unbound"),
        make_pod("running", phase="Running", node="n"),
    ]

    _, decision = look(make_job(parallelism=2, completions=9), *pods)

    assert names(decision.remove) == ["unbound", "bound"]


def test_a_repeated_index_is_removed_though_there_are_not_too_many_pods() -> None:
    job = make_job(parallelism=2, completions=2, completionMode="Indexed")
    pods = [make_pod("old", phase="Running", node="n", index=0), make_pod("new", index=0)]

    _, decision = look(job, *pods)

    assert names(decision.remove) == ["new"]


def test_a_suspended_job_removes_its_pods_uncounted() -> None:
    job = with_status(make_job(suspend=True), startTime="2026-01-01T12:00:00Z", active=1, ready=1)

    conclusion = sync(job, make_pod("a", phase="Running", ready=True))

    assert condition_types(conclusion.interim) == ["Suspended=True"]
    assert conclusion.interim is not None
    assert "startTime" not in conclusion.interim
    assert conclusion.interim["terminating"] == 1
    assert conclusion.release == ()
    assert [note.reason for note in conclusion.notes] == ["Suspended"]


def test_a_resumed_job_starts_its_time_afresh() -> None:
    suspended = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": ""}
    job = with_status(make_job(), conditions=[suspended], uncountedTerminatedPods={})

    conclusion = sync(job)

    assert condition_types(conclusion.interim) == ["Suspended=False"]
    assert conclusion.interim is not None
    assert conclusion.interim["startTime"] == "2026-01-01T12:01:40Z"
    assert [note.reason for note in conclusion.notes] == ["Resumed"]


def test_success_is_named_before_it_is_counted() -> None:
    job = make_job(parallelism=2, completions=2)
    pods = [make_pod("a", phase="Succeeded"), make_pod("b", phase="Succeeded")]

    conclusion = sync(job, *pods)

    assert conclusion.interim is not None
    assert conclusion.final is not None
    assert condition_types(conclusion.interim) == ["SuccessCriteriaMet=True"]
    assert conclusion.interim["uncountedTerminatedPods"] == {"succeeded": ["uid-a", "uid-b"]}
    assert "succeeded" not in conclusion.interim
    assert names(conclusion.release) == ["a", "b"]
    assert condition_types(conclusion.final) == ["SuccessCriteriaMet=True", "Complete=True"]
    assert conclusion.final["succeeded"] == 2
    assert conclusion.final["uncountedTerminatedPods"] == {}
    assert [note.reason for note in conclusion.end_notes] == ["Completed"]


def test_a_pod_that_was_counted_is_not_counted_again() -> None:
    """The controller crashes after it has written the status and removed the finalizer."""
    job = with_status(
        make_job(parallelism=1, completions=2), uncountedTerminatedPods={"succeeded": ["uid-a"]}
    )

    conclusion = sync(job, make_pod("a", phase="Succeeded", tracked=False))

    assert conclusion.interim is not None
    assert conclusion.interim["succeeded"] == 1
    assert conclusion.interim["uncountedTerminatedPods"] == {}
    assert conclusion.release == ()


def test_an_indexed_success_is_counted_by_its_index() -> None:
    job = make_job(parallelism=2, completions=3, completionMode="Indexed")
    job = with_status(job, completedIndexes="0", succeeded=1)

    conclusion = sync(job, make_pod("b", phase="Succeeded", index=2), made=1)

    assert conclusion.interim is not None
    assert conclusion.interim["completedIndexes"] == "0,2"
    assert conclusion.interim["succeeded"] == 2
    assert conclusion.interim["uncountedTerminatedPods"] == {}
    assert names(conclusion.release) == ["b"]


def test_a_pod_of_an_indexed_job_without_an_index_does_not_count() -> None:
    job = make_job(parallelism=1, completions=3, completionMode="Indexed")

    conclusion = sync(job, make_pod("stray", phase="Failed"), made=1)

    assert names(conclusion.release) == ["stray"]
    assert conclusion.interim is not None
    assert conclusion.interim["uncountedTerminatedPods"] == {}


def test_no_more_than_five_hundred_pods_are_counted_at_once() -> None:
    """The status has a size limit, and the Job finishes only when the rest is counted too."""
    job = make_job(parallelism=501, completions=501)
    pods = [make_pod(f"p{number}", phase="Succeeded") for number in range(501)]

    first = sync(job, *pods)
    assert len(first.release) == 500
    assert first.final is not None
    assert first.final["succeeded"] == 500
    assert condition_types(first.final) == ["SuccessCriteriaMet=True"]

    released = [make_pod(f"p{number}", phase="Succeeded", tracked=False) for number in range(500)]
    second = sync({**job, "status": first.final}, *released, pods[500])
    assert second.final is not None
    assert second.final["succeeded"] == 501
    assert condition_types(second.final) == ["SuccessCriteriaMet=True", "Complete=True"]


def test_a_failure_beyond_the_limit_ends_the_job_and_its_other_pods() -> None:
    job = make_job(parallelism=2, completions=2, backoffLimit=0)
    pods = [make_pod("a", phase="Failed"), make_pod("b", phase="Running")]

    _, decision = look(job, *pods)
    conclusion = sync(job, *pods)

    assert names(decision.stop) == ["b"]
    assert condition_types(conclusion.interim) == ["FailureTarget=True"]
    assert names(conclusion.release) == ["a", "b"]
    assert conclusion.final is not None
    assert conclusion.final["failed"] == 2
    # One pod is still terminating, so the Job has not failed yet.
    assert condition_types(conclusion.final) == ["FailureTarget=True"]


def test_a_doomed_job_fails_once_its_last_pod_is_gone() -> None:
    target = {
        "type": "FailureTarget",
        "status": "True",
        "reason": "BackoffLimitExceeded",
        "message": "Job has reached the specified backoff limit",
    }
    job = with_status(make_job(), conditions=[target], failed=2, terminating=1)

    conclusion = sync(job)

    assert condition_types(conclusion.final) == ["FailureTarget=True", "Failed=True"]
    assert [note.reason for note in conclusion.end_notes] == ["BackoffLimitExceeded"]


def test_a_failed_pod_is_replaced_after_a_while() -> None:
    ended = NOW - timedelta(seconds=4)
    pod = make_pod("a", phase="Failed", ended_at=96)

    view, decision = look(make_job(), pod)

    assert view.backoff == Backoff(1, ended)
    assert decision.create == ()
    assert decision.again == timedelta(seconds=6)


@pytest.mark.parametrize(
    ("failures", "want"),
    [
        pytest.param(0, 0, id="no failure, no wait"),
        pytest.param(1, 10, id="ten seconds after the first"),
        pytest.param(3, 40, id="doubling"),
        pytest.param(30, 600, id="ten minutes at most"),
    ],
)
def test_back_off_doubles(failures: int, want: int) -> None:
    assert Backoff(failures, NOW).remaining(NOW) == timedelta(seconds=want)


def test_a_success_resets_the_back_off() -> None:
    succeeded = [make_pod("s", phase="Succeeded", ended_at=50)]
    failed = [make_pod(f"f{i}", phase="Failed", ended_at=i) for i in (40, 60)]

    assert Backoff(5, at(30)).after(succeeded, failed) == Backoff(1, at(60))


def test_a_job_past_its_deadline_fails() -> None:
    job = make_job(activeDeadlineSeconds=5)
    job = with_status(job, startTime="2026-01-01T12:01:00Z")

    _, decision = look(job, make_pod("a", phase="Running"))

    assert decision.ending is not None
    assert decision.ending.reason == "DeadlineExceeded"


def test_a_job_with_a_deadline_is_looked_at_again_when_it_comes() -> None:
    job = with_status(make_job(activeDeadlineSeconds=60), startTime="2026-01-01T12:01:00Z")

    _, decision = look(job, make_pod("a", phase="Running"))

    assert decision.again == timedelta(seconds=20)


def test_refused_pods_are_not_counted_as_active() -> None:
    conclusion = sync(make_job(parallelism=4, completions=4), made=1)

    assert conclusion.interim is not None
    assert conclusion.interim["active"] == 1


def test_a_job_being_deleted_lets_its_pods_go_and_makes_none() -> None:
    job = make_job(parallelism=2, completions=2)
    job["metadata"]["deletionTimestamp"] = "2026-01-01T12:01:00Z"

    _, decision = look(job, make_pod("a", phase="Running"))
    conclusion = sync(job, make_pod("a", phase="Running"))

    assert decision == Decision()
    assert names(conclusion.release) == ["a"]


def test_a_settled_job_is_not_written_again() -> None:
    job, pod = make_job(), make_pod("a", phase="Running", ready=True)
    first = sync(job, pod)
    assert first.interim is not None

    again = sync({**job, "status": first.interim}, pod)

    assert (again.interim, again.release, again.final) == (None, (), None)


def test_a_finished_job_is_kept_for_its_time_to_live() -> None:
    done = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T12:01:00Z"}
    job = with_status(make_job(ttlSecondsAfterFinished=60), conditions=[done])

    assert expires_in(job, NOW) == timedelta(seconds=20)
    assert expires_in(with_status(make_job(), conditions=[done]), NOW) is None
