"""MPIJobs: the launcher, which a Job creates, and the workers in one group."""

from typing import Any

import pytest

from api.constants import ANNOTATION_MANAGED_GROUP, LABEL_POD_GROUP, MPI_OPERATOR
from api.groups import groups_of_object
from api.integration.common.owner_kind import Review
from api.integration.mpi.kinds import MpiJobs
from api.integration.single_group.kind import NO_UPDATE, single_group
from tests.support.apps import admitted
from tests.support.parts import mpi_job, pod_template

Json = dict[str, Any]
KIND = MpiJobs()
LATE: Json = {"launcherCreationPolicy": "WaitForWorkersReady"}


def min_count(obj: Json) -> int:
    group = single_group(KIND.read(admitted(obj)), NO_UPDATE, 0)
    return int(group["spec"]["schedulingPolicy"]["gang"]["minCount"])


def template(obj: Json, role: str) -> Json:
    found: Json = obj["spec"]["mpiReplicaSpecs"][role]["template"]
    return found


def test_launcher_and_workers_name_one_group() -> None:
    obj = admitted(mpi_job(3))

    group = KIND.read(obj).managed
    assert group.startswith("pg-mpijob-ring-")
    for role in ("Launcher", "Worker"):
        named = groups_of_object(template(obj, role), ours=True)
        assert [it.name for it in named] == [group]
        assert template(obj, role)["spec"]["schedulerName"] == "muster-scheduler"
    assert min_count(obj) == 4


def test_the_launchers_pod_belongs_to_the_group_though_a_job_creates_it() -> None:
    """With the annotation it would name a group of its Job."""
    obj = admitted(mpi_job())
    assert ANNOTATION_MANAGED_GROUP not in template(obj, "Launcher")["metadata"].get(
        "annotations", {}
    )
    assert ANNOTATION_MANAGED_GROUP in template(obj, "Worker")["metadata"]["annotations"]


def test_a_launcher_that_waits_for_ready_workers_is_not_waited_for() -> None:
    obj = admitted(mpi_job(3, **LATE))

    assert min_count(obj) == 3
    assert LABEL_POD_GROUP not in template(obj, "Launcher")["metadata"]["labels"]
    assert KIND.admit(mpi_job(3, **LATE), Review("CREATE", uid="r")).warnings


@pytest.mark.parametrize(
    ("workers", "want"), [(None, 1), (0, 1), (-5, 1), (10**40, 10**40 + 1), (True, 1)]
)
def test_workers_are_counted_as_the_operator_does(workers: Any, want: int) -> None:
    assert min_count(mpi_job(workers)) == want


def test_priorities_must_agree() -> None:
    obj = mpi_job()
    obj["spec"]["mpiReplicaSpecs"]["Worker"]["template"] = pod_template(priorityClassName="high")
    causes = KIND.admit(admitted(obj), Review("CREATE", uid="r")).causes
    assert [it.field for it in causes] == [
        "spec.mpiReplicaSpecs.Worker.template.spec.priorityClassName"
    ]


def test_one_that_another_controller_runs_gets_no_group() -> None:
    policy = {"managedBy": "kueue.x-k8s.io/multikueue"}
    admission = KIND.admit(mpi_job(runPolicy=policy), Review("CREATE", uid="r"))
    assert admission.patch == []
    assert admission.warnings[0].startswith("spec.runPolicy.managedBy: ")
    assert KIND.read(mpi_job(runPolicy={"managedBy": MPI_OPERATOR})).options.asks


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        ([{"type": "Running", "status": "True"}], False),
        ([{"type": "Succeeded", "status": "False"}], False),
        ([{"type": "Succeeded", "status": "True"}], True),
        ([None, 7, {"type": "Failed", "status": "True"}], True),
        (None, False),
    ],
)
def test_its_end_is_in_the_conditions(conditions: Any, want: bool) -> None:
    assert KIND.is_finished({"conditions": conditions}) is want


def test_run_policy_suspends() -> None:
    assert KIND.is_suspended({"runPolicy": {"suspend": True}})
    assert not KIND.is_suspended({"suspend": True})
