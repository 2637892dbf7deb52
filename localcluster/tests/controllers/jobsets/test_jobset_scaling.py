"""JobSets that change their sizes, with scaling enabled in the embedded cluster."""

from copy import deepcopy

import pytest

from localcluster.base.errors import StatusError
from localcluster.controllers.jobsets.admission import update_problems
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
from localcluster.tests.controllers.cluster import SimulatedCluster, simulated_cluster

BEFORE = make_jobset("x", make_role("a", replicas=2, pods=2), make_role("b"))
PATH = "spec.replicatedJobs[0]"


def sized(replicas: int = 2, **job: object) -> Obj:
    role = make_role("a", replicas=replicas, pods=2)
    role["template"]["spec"] |= job
    return make_jobset("x", role, make_role("b"))


@pytest.mark.parametrize(
    ("after", "want"),
    [
        pytest.param(sized(3), "", id="more replicas"),
        pytest.param(sized(parallelism=1), "", id="fewer pods at once"),
        pytest.param(sized(parallelism=3, completions=3), "", id="a larger elastic Job"),
        pytest.param(sized(0), f"{PATH}.replicas", id="no replicas"),
        pytest.param(sized(parallelism=0), f"{PATH}.template.spec.parallelism", id="no pods"),
        pytest.param(
            sized(completions=3), f"{PATH}.template.spec.completions", id="completions alone"
        ),
        pytest.param(
            make_jobset("x", make_role("a", replicas=2, pods=2)),
            "spec.replicatedJobs: Invalid value",
            id="a role less",
        ),
        pytest.param(
            sized(backoffLimit=1), "spec.replicatedJobs: Invalid value", id="another template"
        ),
    ],
)
def test_sizes_may_change_and_nothing_else(after: Obj, want: str) -> None:
    found = update_problems(after, BEFORE, scaling=True)

    assert [problem.startswith(want) for problem in found] == ([True] if want else [])


def test_a_jobset_made_without_pods_may_change_otherwise() -> None:
    before = make_jobset("x", make_role("a", replicas=0, pods=0))
    after = deepcopy(before)
    after["metadata"]["finalizers"] = ["orphan"]

    assert update_problems(after, before, scaling=True) == []


def jobs_of(jobset: Obj) -> list[Obj]:
    """Return the Jobs that the JobSet creates."""
    return [
        new_job(jobset, role, index)
        for role in jobset["spec"]["replicatedJobs"]
        for index in range(role["replicas"])
    ]


def plan(jobset: Obj, jobs: list[Obj], *, scaling: bool = True) -> Plan:
    return reconcile(jobset, jobs, at(100), scaling=scaling)


def names(jobs: list[Obj]) -> list[str]:
    return [job["metadata"]["name"] for job in jobs]


def test_the_highest_indexes_go_first() -> None:
    found = plan(sized(1), jobs_of(sized(3)))

    assert names(found.delete) == ["x-a-1", "x-a-2"]
    assert found.create == []


def test_a_job_that_goes_is_not_deleted_again() -> None:
    jobs = jobs_of(sized(2))
    jobs[1]["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"

    assert plan(sized(1), jobs).delete == []


def test_a_job_that_goes_neither_fails_the_jobset_nor_counts() -> None:
    jobs = jobs_of(sized(2))
    jobs[1] = ended(jobs[1], "Failed")

    found = plan(sized(1), jobs)

    assert found.status is not None
    assert "terminalState" not in found.status
    assert [one["failed"] for one in found.status["replicatedJobsStatus"]] == [0, 0]


def test_jobs_that_run_follow_their_sizes() -> None:
    found = plan(sized(parallelism=3, completions=3), jobs_of(BEFORE))

    assert names(found.resize) == ["x-a-0", "x-a-1"]
    for job in found.resize:
        assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (3, 3)


def test_a_job_of_the_right_size_is_left_alone() -> None:
    implied = sized()
    for field in ("parallelism", "completions"):
        del implied["spec"]["replicatedJobs"][1]["template"]["spec"][field]

    assert plan(implied, jobs_of(BEFORE)).resize == []


def test_a_job_is_written_once_in_a_reconcile() -> None:
    changed = sized(parallelism=1)
    changed["spec"]["suspend"] = True

    found = plan(changed, jobs_of(BEFORE))

    assert names(found.suspend) == ["x-a-0", "x-a-1", "x-b-0"]
    assert found.resize == []


def test_an_ended_job_keeps_its_size() -> None:
    jobs = [with_status(ended(job, "Complete"), succeeded=2) for job in jobs_of(BEFORE)[:2]]

    assert plan(sized(parallelism=1), jobs).resize == []


def test_without_the_option_others_may_size_jobs() -> None:
    found = plan(sized(1, parallelism=1), jobs_of(BEFORE), scaling=False)

    assert (found.delete, found.resize) == ([], [])


def jobset() -> Obj:
    made = make_jobset("x", make_role("a", replicas=2, pods=2))
    return made | {"metadata": {"name": "x"}}


async def scale(cluster: SimulatedCluster, replicas: int, pods: int) -> None:
    roles = deepcopy(cluster.get("JobSet", "x")["spec"]["replicatedJobs"])
    roles[0]["replicas"] = replicas
    roles[0]["template"]["spec"] |= {"parallelism": pods, "completions": pods}
    await cluster.patch("JobSet", "x", {"spec": {"replicatedJobs": roles}})
    await cluster.settle()


async def test_a_jobset_grows_and_shrinks() -> None:
    async with simulated_cluster(jobset_scaling=True) as cluster:
        await cluster.create(jobset())
        await cluster.settle()
        for replicas, pods in ((3, 4), (1, 1), (2, 3)):
            await scale(cluster, replicas, pods)

            assert names(cluster.list("Job")) == [f"x-a-{index}" for index in range(replicas)]
            assert len(cluster.list("Pod")) == replicas * pods


async def test_a_jobset_of_this_release_does_not() -> None:
    async with simulated_cluster() as cluster:
        await cluster.create(jobset())

        with pytest.raises(StatusError, match="field is immutable"):
            await scale(cluster, 3, 2)
