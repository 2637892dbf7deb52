"""The release of Jobs and pending pods: released if no work is lost, else kept and reported."""

import pytest
from jsonpatch import apply_patch

from api.integration.common.native import GroupsApi, NativeApi
from api.integration.common.owner_kind import Review
from api.integration.job.admission import job_admission
from cli.uninstall.release import (
    Handover,
    HandoverMethod,
    Target,
    needs_release,
    release_job,
    release_pod,
    remade,
)
from kube.client.resources import JOBS
from localcluster.builtin.jobs import Jobs
from tests.cli.uninstall.objects import (
    RUNNING,
    WAITING,
    Json,
    child,
    controlled,
    gang,
    jobset,
    stored,
)
from tests.support.builders import make_pod
from tests.support.owners import job_template, make_job


@pytest.mark.parametrize(
    ("want", "job", "pods", "owner"),
    [
        pytest.param(HandoverMethod.REMADE, stored(gang()), [], None, id="no pods yet"),
        pytest.param(
            HandoverMethod.REMADE, stored(gang(), active=4), [WAITING], None, id="its pods wait"
        ),
        pytest.param(
            HandoverMethod.REMADE, stored(gang().suspended()), [], None, id="it is suspended"
        ),
        pytest.param(
            HandoverMethod.LEFT, stored(gang()), [WAITING, RUNNING], None, id="one of its pods runs"
        ),
        pytest.param(
            HandoverMethod.LEFT, stored(gang(), succeeded=1), [], None, id="a pod succeeded"
        ),
        pytest.param(HandoverMethod.LEFT, stored(gang(), failed=1), [], None, id="a pod failed"),
        pytest.param(
            HandoverMethod.LEFT,
            stored(gang(), uncountedTerminatedPods={"succeeded": ["uid-1"]}),
            [],
            None,
            id="a pod ended that is not counted yet",
        ),
        pytest.param(
            HandoverMethod.LEFT,
            stored(gang(), completedIndexes="0-2"),
            [],
            None,
            id="indexes are done",
        ),
        pytest.param(
            HandoverMethod.LEFT,
            stored(make_job("train").scheduler("muster-scheduler")),
            [],
            None,
            id="its user named the scheduler",
        ),
        pytest.param(
            HandoverMethod.LEFT,
            controlled(stored(gang()), "CronJob"),
            [],
            None,
            id="a CronJob made it",
        ),
        pytest.param(
            HandoverMethod.BY_OWNER,
            child(),
            [WAITING],
            jobset(job_template().pods(4)),
            id="a JobSet made it",
        ),
        pytest.param(
            HandoverMethod.LEFT,
            child(ready=1),
            [],
            jobset(job_template().pods(4)),
            id="a JobSet made it, and its pods run",
        ),
        pytest.param(
            HandoverMethod.LEFT,
            child(),
            [],
            jobset(job_template().scheduler("muster-scheduler")),
            id="the JobSet itself names the scheduler",
        ),
        pytest.param(HandoverMethod.LEFT, child(), [], None, id="its JobSet is gone"),
    ],
)
def test_what_becomes_of_a_job(
    want: HandoverMethod, job: Json, pods: list[Json], owner: Json | None
) -> None:
    assert needs_release(job)

    found = release_job(job, pods, owner)

    assert found.way is want
    assert bool(found.why and found.command) is (want is HandoverMethod.LEFT)


def test_a_job_that_a_finalizer_holds_is_not_deleted() -> None:
    job = stored(gang())
    job["metadata"]["finalizers"] = ["example.com/report"]

    assert release_job(job, [], None).way is HandoverMethod.LEFT


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(stored(make_job("train").pods(1)), id="another scheduler's"),
        pytest.param(
            stored(gang(), conditions=[{"type": "Complete", "status": "True"}]), id="complete"
        ),
        pytest.param(
            stored(gang(), conditions=[{"type": "Failed", "status": "True"}]), id="failed"
        ),
        pytest.param({}, id="empty"),
        pytest.param({"spec": "x", "status": {"conditions": 7}}, id="of another structure"),
    ],
)
def test_a_job_that_makes_no_more_pods_of_ours_needs_nothing(job: Json) -> None:
    assert not needs_release(job)


@pytest.mark.parametrize(
    ("want", "pod", "owner"),
    [
        pytest.param(
            HandoverMethod.BY_OWNER,
            controlled(make_pod("web-1", "team").build(), "ReplicaSet", "web"),
            {"spec": {"template": {"spec": {}}}},
            id="its owner names no scheduler",
        ),
        pytest.param(
            HandoverMethod.LEFT,
            controlled(make_pod("web-1", "team").build(), "ReplicaSet", "web"),
            {"spec": {"template": {"spec": {"schedulerName": "muster-scheduler"}}}},
            id="its owner names ours",
        ),
        pytest.param(
            HandoverMethod.LEFT,
            controlled(make_pod("x", "team").build(), "PyTorchJob", "x"),
            None,
            id="its owner is of a kind that is not known",
        ),
        pytest.param(
            HandoverMethod.LEFT, make_pod("alone", "team").build(), None, id="it has no owner"
        ),
    ],
)
def test_what_becomes_of_a_waiting_pod(want: HandoverMethod, pod: Json, owner: Json | None) -> None:
    found = release_pod(pod, owner)

    assert found.way is want
    assert bool(found.command) is (want is HandoverMethod.LEFT)


def test_the_command_for_a_deployment_changes_the_deployment() -> None:
    pod = controlled(make_pod("web-1", "team").build(), "ReplicaSet", "web-5d")
    owner = controlled({"metadata": {"name": "web-5d"}}, "Deployment", "web")
    owner["spec"] = {"template": {"spec": {"schedulerName": "muster-scheduler"}}}

    assert "patch deployment web --type=merge" in release_pod(pod, owner).command


def test_a_handover_says_what_becomes_of_what() -> None:
    given = Handover(Target(JOBS, "team", "train", "uid"), HandoverMethod.REMADE)

    assert str(given) == "Job team/train: recreated for the default scheduler"


def test_a_job_made_again_is_what_its_user_wrote() -> None:
    written = make_job("train").asks(gang_mode="Gang").labelled({"app": "x"}).pods(2).build()
    written["metadata"] |= {"namespace": "team", "labels": {"team": "red"}}
    del written["metadata"]["uid"]
    job = stored(gang().labelled({"app": "x", "scheduling.muster.dev/pod-group": "pg-train"}))
    job["spec"] = job["spec"] | {"parallelism": 2}
    job["metadata"] |= {"labels": {"team": "red"}, "resourceVersion": "7", "generation": 1}
    job["metadata"]["annotations"]["scheduling.muster.dev/waiting-for"] = "room"
    job["spec"]["template"]["metadata"]["annotations"] = {
        "scheduling.muster.dev/managed-group": "pg-train"
    }
    Jobs().prepare_create(job)

    again = remade(job)

    assert {key: again[key] for key in written} == written
    assert again["kind"] == "Job"


def test_the_pods_of_a_job_made_again_have_claims_of_their_own() -> None:
    """The claim that their group had for all of them is deleted with the group."""
    own: Json = {"name": "own", "resourceClaimName": "mine"}
    asked = make_job("train").asks(gang_mode="Gang", shared_claims="imex")
    written = asked.claim_entries(
        own, {"name": "imex", "resourceClaimTemplateName": "channel"}
    ).build()
    written["metadata"] |= {"namespace": "team"}
    admitted = apply_patch(written, job_admission(written, Review("CREATE")).patch)
    named = admitted["spec"]["template"]["spec"]["resourceClaims"][1]
    assert named == {"name": "imex", "resourceClaimName": "pg-job-train.imex"}

    again = remade(admitted)

    assert (
        again["spec"]["template"]["spec"]["resourceClaims"]
        == (written["spec"]["template"]["spec"]["resourceClaims"])
    )
    assert again["metadata"]["annotations"] == written["metadata"]["annotations"]


def test_a_job_made_again_is_in_no_native_group_of_musters() -> None:
    """kube-scheduler would wait for the group, which is deleted with the Job."""
    written = make_job("train").asks(gang_mode="Gang").build()
    native = NativeApi(GroupsApi.NATIVE, served=True)
    admitted = apply_patch(written, job_admission(written, Review("CREATE", native=native)).patch)
    assert admitted["spec"]["template"]["spec"]["schedulingGroup"]

    again = remade(admitted)

    assert again["spec"]["template"]["spec"] == written["spec"]["template"]["spec"]
    assert again["metadata"]["annotations"] == written["metadata"]["annotations"]


def test_a_selector_of_the_users_stays() -> None:
    job = stored(gang().labelled({"job": "mine"}))
    job["spec"] |= {"manualSelector": True, "selector": {"matchLabels": {"job": "mine"}}}

    again = remade(job)

    assert again["spec"]["selector"] == {"matchLabels": {"job": "mine"}}
    assert again["spec"]["template"]["metadata"]["labels"] == {"job": "mine"}


def test_a_user_puts_nothing_into_a_command_that_an_administrator_copies() -> None:
    pod = controlled(make_pod("x", "team").build(), "Foo; reboot", "x $(reboot)\n\x1b[2J")

    found = release_pod(pod, None)

    assert found.command == "kubectl -n team edit 'foo; reboot' 'x $(reboot)??[2J'"
    assert str(found).isprintable()
