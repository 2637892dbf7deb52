"""The expected state of a Job and a JobSet, and the verdict's findings, without a cluster."""

from typing import Any

import pytest

from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_WAITING_FOR,
    CONDITION_POD_GROUP_SCHEDULED,
    LABEL_POD_GROUP,
)
from e2e.faults.lives.drawing import draw
from e2e.faults.lives.script import Life
from e2e.faults.lives.state import State, due, indexes, wanted
from e2e.faults.lives.verdict import Verdict
from e2e.harness.objects import POD_GROUPS, Json
from kube.client.resources import JOBS, PODS


def job(spec: Json | None = None, *, name: str = "x", **status: Any) -> Json:
    given = {"parallelism": 4, "completions": 4} | (spec or {})
    meta = {"name": name, "uid": f"uid-{name}"}
    return {"kind": "Job", "metadata": meta, "spec": given, "status": status}


def said(kind: str) -> list[Json]:
    return [{"type": kind, "status": "True"}]


@pytest.mark.parametrize(
    ("made", "active", "want"),
    [
        pytest.param(job(), 0, 4, id="all"),
        pytest.param(job(succeeded=1), 0, 3, id="those that have not succeeded"),
        pytest.param(job({"completions": 9}, succeeded=3), 0, 4, id="as many as at once"),
        pytest.param(job(succeeded=1, failedIndexes="0,2-3"), 0, 0, id="none that was given up"),
        pytest.param(job({"completions": None}), 0, 4, id="a work queue's workers"),
        pytest.param(job({"completions": None}, succeeded=1), 2, 2, id="no more after a success"),
        pytest.param(
            job({"completions": None, "parallelism": 2}, succeeded=1), 4, 4, id="all that run then"
        ),
        pytest.param(job({"suspend": True}), 4, 0, id="none while suspended"),
        pytest.param(job(conditions=said("Complete")), 0, 0, id="none once complete"),
        pytest.param(job(conditions=said("FailureTarget")), 3, 0, id="none once failing"),
    ],
)
def test_a_job_wants_what_its_controller_keeps(made: Json, active: int, want: int) -> None:
    assert wanted(made, active) == want


def test_indexes_are_counted() -> None:
    assert [indexes(text) for text in ("", "3", "0,2-4")] == [0, 1, 4]


def jobset(**spec: Any) -> Json:
    roles: list[Json] = [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}]
    if "dependsOn" in spec:
        roles[1]["dependsOn"] = [{"name": "a", "status": spec.pop("dependsOn")}]
    meta = {"name": "x", "uid": "uid-x"}
    return {"kind": "JobSet", "metadata": meta, "spec": {"replicatedJobs": roles, **spec}}


IN_ORDER = {"startupPolicyOrder": "InOrder"}
READY = [job(name="x-a-0", ready=4), job(name="x-a-1", ready=3, succeeded=1)]
OVER = [job(name=each, conditions=said("Complete")) for each in ("x-a-0", "x-a-1")]


@pytest.mark.parametrize(
    ("made", "jobs", "want"),
    [
        pytest.param(jobset(), [], 3, id="all at once"),
        pytest.param(jobset(startupPolicy=IN_ORDER), READY[:1], 2, id="the first in order"),
        pytest.param(jobset(startupPolicy=IN_ORDER), READY, 3, id="the next when it is ready"),
        pytest.param(jobset(dependsOn="Complete"), READY, 2, id="not before it is complete"),
        pytest.param(jobset(dependsOn="Complete"), OVER, 3, id="once it is complete"),
    ],
)
def test_the_jobs_of_a_jobset_come_in_its_order(made: Json, jobs: list[Json], want: int) -> None:
    assert len(list(due(made, jobs))) == want


# Verdicts


def pod(name: str, node: str = "n", phase: str = "", group: str = "g", of: str = "uid-x") -> Json:
    owner = {"kind": "Job", "name": "x", "uid": of, "controller": True}
    meta = {"name": name, "uid": f"uid-{name}", "labels": {LABEL_POD_GROUP: group}}
    return {
        "metadata": {**meta, "ownerReferences": [owner]},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase or ("Running" if node else "Pending")},
    }


def group(status: str = "True", made_for: str = "uid-x", uid: str = "uid-g") -> Json:
    condition = {"type": CONDITION_POD_GROUP_SCHEDULED, "status": status}
    notes = {ANNOTATION_MADE_FOR: f"batch/Job/x/{made_for}"}
    meta = {"name": "g", "uid": uid, "annotations": notes}
    return {"kind": "PodGroup", "metadata": meta, "status": {"conditions": [condition]}}


class Case:
    """A Job in mode Gang, and the verdict about it."""

    def __init__(self, *pods: Json, room: int = 4, groups: tuple[Json, ...] = (), **spec: Any):
        self.owner = job(spec, active=len(pods), ready=sum("nodeName" in p["spec"] for p in pods))
        self.pods = pods
        self.groups = groups or (group(),)
        life = Life(0, "Job", "Gang", {}, {}, None, room, ())
        self.verdict = Verdict(life, self.look, None, room)

    def look(self) -> State:
        return State(self.owner, (), (self.owner,), self.pods, self.groups, (), ())

    def found(self) -> list[str]:
        controllers, muster = self.verdict.unrest()
        return [*controllers, *muster]


def placed(count: int, of: int = 4) -> list[Json]:
    return [pod(f"p{number}", "n" if number < count else "") for number in range(of)]


def test_nothing_is_wrong_where_all_run_or_none_fits() -> None:
    assert Case(*placed(4)).found() == []
    assert Case(*placed(0), room=3).found() == []


def test_a_gang_that_fits_may_not_wait() -> None:
    (line,) = Case(*placed(0), room=4).found()

    assert line.startswith("4 pods of gang Job wait though 4 suffice")


def test_half_a_gang_may_not_run() -> None:
    case = Case(*placed(3), room=3)
    for each in case.pods:
        case.verdict.note(PODS, None, each)

    (line,) = case.found()

    assert line.startswith("HALF GANG: 3 of 4 pods")


def test_what_ran_before_the_gang_grew_may_run_on() -> None:
    case = Case(*placed(2, of=2), room=2, parallelism=2, completions=2)
    case.verdict.note(PODS, None, case.pods[0])
    case.verdict.rest()
    case.owner = job({"parallelism": 4, "completions": 4}, active=4, ready=2)
    case.pods = tuple(placed(2))
    case.verdict.note(JOBS, None, case.owner)

    assert case.found() == []

    case.pods, case.owner["status"]["ready"] = tuple(placed(3)), 3
    case.verdict.note(PODS, None, case.pods[2])
    assert [line[:10] for line in case.found()] == ["HALF GANG:"]


def test_a_size_that_changed_while_pods_were_placed_is_no_fault() -> None:
    case = Case(*placed(2, of=2), room=2, parallelism=2, completions=2)
    case.verdict.note(PODS, None, case.pods[0])
    case.owner = job({"parallelism": 4, "completions": 4}, active=4, ready=2)
    case.pods = tuple(placed(2))

    assert case.found() == []


@pytest.mark.parametrize(
    ("case", "want"),
    [
        (Case(*placed(4), groups=(group(made_for="uid-other"),)), "made for another owner"),
        (Case(*placed(4), groups=(group("False"),)), "says False, though all of its pods run"),
        (Case(*placed(3, of=3)), "has 3 of 4 pods"),
        (Case(*placed(4), pod("old", of="uid-old")), "of another Job is still there"),
        (Case(suspend=True), "is there though all is suspended"),
    ],
)
def test_what_is_wrong_at_rest(case: Case, want: str) -> None:
    assert any(want in line for line in case.found())


def test_one_that_failed_while_it_was_suspended_keeps_its_groups() -> None:
    case = Case(suspend=True)
    case.owner = job({"suspend": True}, conditions=said("Failed"))

    assert case.found() == []


def test_nobody_may_say_that_it_waits_when_no_pod_does() -> None:
    case = Case(*placed(4))
    case.owner["metadata"]["annotations"] = {ANNOTATION_WAITING_FOR: "more pods"}

    (line,) = case.found()

    assert line == "Job says that it waits, though no pod does: more pods"


def test_what_may_never_be_is_noted_at_once() -> None:
    case = Case()
    case.verdict.told.add("told")
    case.verdict.note(PODS, None, pod("told", phase="Failed"))
    case.verdict.note(POD_GROUPS, None, group("False"))
    case.verdict.note(POD_GROUPS, None, group("True"))
    case.verdict.note(POD_GROUPS, None, group("False", uid="uid-of-the-next"))
    assert case.verdict.faults == []

    case.verdict.note(PODS, None, pod("other", phase="Failed"))
    case.verdict.note(POD_GROUPS, None, group("False"))

    assert case.verdict.faults == [
        "pod other failed by itself: no reason",
        "PodGroup g said True, and then False",
    ]


# Drawing


def test_a_life_is_always_the_same() -> None:
    assert [draw(seed) for seed in range(50)] == [draw(seed) for seed in range(50)]


def test_everything_is_drawn() -> None:
    lives = [draw(seed) for seed in range(500)]

    modes = {(life.kind, life.mode) for life in lives}
    assert len(modes) == 9
    steps = {step.what for life in lives for step in life.steps}
    assert steps == {
        "end",
        "remove",
        "suspend",
        "resume",
        "scale",
        "min-count",
        "room",
        "again",
        "kill",
        "delete",
    }
    specs = [life.spec for life in lives]
    fields = {key for spec in specs for key in spec}
    fields |= {key for spec in specs for role in spec.get("replicatedJobs", ()) for key in role}
    assert fields >= {
        *("backoffLimitPerIndex", "maxFailedIndexes", "podFailurePolicy", "podReplacementPolicy"),
        *("successPolicy", "suspend", "ttlSecondsAfterFinished", "failurePolicy"),
        *("dependsOn", "startupPolicy"),
    }
    assert any(spec.get("parallelism") == 0 for spec in specs)


def test_steps_are_left_out() -> None:
    life = next(life for life in map(draw, range(50)) if len(life.steps) > 3)

    assert life.without(frozenset({0, 2})).steps == (life.steps[1], *life.steps[3:])
