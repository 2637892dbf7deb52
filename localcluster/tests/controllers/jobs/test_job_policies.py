"""A Job's policies for failed pods and indexes; the recorded flows cover the rest."""

from datetime import timedelta

import pytest

from localcluster.controllers.jobs.decide import decide
from localcluster.controllers.jobs.policies import failure_notes, success, verdict
from localcluster.controllers.jobs.view import Backoff, observe
from localcluster.tests.controllers.builders import Obj, at, make_job, make_pod

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


def failed(
    name: str = "a", *, code: int = 1, index: int | None = None, marks: dict[str, str] | None = None
) -> Obj:
    pod = make_pod(name, phase="Failed", index=index, ended_at=100)
    pod["metadata"].setdefault("annotations", {}).update(marks or {})
    (container,) = pod["status"]["containerStatuses"]
    container["state"]["terminated"]["exitCode"] = code
    pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    return pod


def by_codes(action: str, operator: str = "In", container: str | None = None) -> Obj:
    named = {} if container is None else {"containerName": container}
    return {"action": action, "onExitCodes": {"operator": operator, "values": [1, 2], **named}}


DISRUPTED = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}


@pytest.mark.parametrize(
    ("rules", "code", "want"),
    [
        pytest.param([by_codes("FailJob")], 2, "FailJob", id="a code that is named"),
        pytest.param([by_codes("FailJob")], 3, "Count", id="another code"),
        pytest.param([by_codes("FailJob", "NotIn")], 3, "FailJob", id="all but those named"),
        pytest.param([by_codes("FailJob", "NotIn")], 0, "Count", id="success is no failure"),
        pytest.param([by_codes("FailJob", container="side")], 1, "Count", id="another container"),
        pytest.param([DISRUPTED], 1, "Ignore", id="a condition"),
        pytest.param([by_codes("FailIndex"), DISRUPTED], 1, "FailIndex", id="the first that fits"),
        pytest.param([by_codes("FailIndex"), DISRUPTED], 9, "Ignore", id="the next that fits"),
    ],
)
def test_the_first_rule_that_matches_decides(rules: list[Obj], code: int, want: str) -> None:
    job = make_job(podFailurePolicy={"rules": rules})

    found = verdict(job, failed(code=code))

    assert found.action == want
    assert found.counted is (want != "Ignore")
    assert bool(found.message) is (want == "FailJob")


def test_the_next_pod_of_an_index_counts_the_failures_on() -> None:
    job = make_job(podFailurePolicy={"rules": [DISRUPTED]})
    plain = make_job()

    assert failure_notes(plain, None) == {FAILURES: "0"}
    assert failure_notes(plain, failed(marks={FAILURES: "2"})) == {FAILURES: "3"}
    assert failure_notes(job, failed(marks={FAILURES: "2", IGNORED: "1"})) == {
        FAILURES: "2",
        IGNORED: "2",
    }


@pytest.mark.parametrize(
    ("rule", "done", "want"),
    [
        ({"succeededCount": 2}, {0}, False),
        ({"succeededCount": 2}, {0, 3}, True),
        ({"succeededIndexes": "0-1"}, {0}, False),
        ({"succeededIndexes": "0-1"}, {0, 1, 3}, True),
        ({"succeededIndexes": "0-2", "succeededCount": 2}, {0, 3}, False),
        ({"succeededIndexes": "0-2", "succeededCount": 2}, {0, 2}, True),
        ({"succeededIndexes": "0-2", "succeededCount": 2}, set(), False),
    ],
)
def test_enough_indexes_are_a_success(rule: Obj, done: set[int], want: bool) -> None:
    job = make_job(completions=4, successPolicy={"rules": [rule]})

    assert bool(success(job, done)) is want


def per_index(limit: int) -> Obj:
    job = make_job(parallelism=3, completions=3, backoffLimit=2**31 - 1)
    job["spec"] |= {"completionMode": "Indexed", "backoffLimitPerIndex": limit}
    return job


def test_an_index_waits_for_its_own_back_off_alone() -> None:
    """Index 0 failed twice and has a backoff of twenty seconds; index 2 has had no attempt."""
    pods = [failed("a", index=0, marks={FAILURES: "1"}), make_pod("b", phase="Running", index=1)]

    view = observe(per_index(3), pods, Backoff())
    decision = decide(view, at(101))

    (made,) = decision.create
    assert made["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "2"
    assert made["metadata"]["annotations"][FAILURES] == "0"

    later = decide(observe(per_index(3), [*pods, make_pod("c", index=2)], Backoff()), at(101))
    assert later.create == ()
    assert later.again == timedelta(seconds=19)


def test_an_index_that_is_given_up_is_not_made_again() -> None:
    pods = [failed("a", index=0), make_pod("b", phase="Running", index=1)]

    decision = decide(observe(per_index(0), pods, Backoff()), at(200))

    (made,) = decision.create
    assert made["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "2"
