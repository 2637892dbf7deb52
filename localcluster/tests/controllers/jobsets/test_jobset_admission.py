"""JobSet's own webhooks, in the server's process."""

from typing import Any

import pytest

from localcluster.base.errors import StatusError
from localcluster.base.hooks import AdmissionRequest, Operation, User
from localcluster.base.resources import ResourceInfo
from localcluster.controllers.jobsets.admission import JobSetAdmission, defaulted
from localcluster.tests.controllers.builders import Obj, make_jobset, make_role

JOBSETS = ResourceInfo("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")


def request(operation: Operation, obj: Obj, old: Obj | None = None) -> AdmissionRequest:
    name = obj["metadata"]["name"]
    return AdmissionRequest(operation, JOBSETS, "default", name, obj, old, User("me"))


async def test_a_new_jobset_is_defaulted() -> None:
    role: Obj = {"name": "a", "template": {"spec": {"template": {"spec": {"containers": []}}}}}
    spec = {"replicatedJobs": [role], "failurePolicy": {"rules": [{"action": "FailJobSet"}]}}
    asked = request("CREATE", {"metadata": {"name": "train"}, "spec": spec})

    await JobSetAdmission().mutate(asked)

    assert asked.obj is not None
    found = asked.obj["spec"]
    assert found["successPolicy"] == {"operator": "All"}
    assert found["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}
    assert found["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert found["failurePolicy"]["rules"][0]["name"] == "failurePolicyRule0"
    job = found["replicatedJobs"][0]["template"]["spec"]
    assert job["completionMode"] == "Indexed"
    assert job["template"]["spec"]["restartPolicy"] == "OnFailure"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("text", id="a text for a spec"),
        pytest.param({"replicatedJobs": [7]}, id="a number for a role"),
        pytest.param({"network": []}, id="a list for an object"),
    ],
)
async def test_what_is_no_jobset_is_refused(spec: Any) -> None:
    with pytest.raises(StatusError) as refusal:
        await JobSetAdmission().mutate(request("CREATE", {"metadata": {"name": "x"}, "spec": spec}))

    assert refusal.value.code == 400


async def test_an_empty_jobset_is_one() -> None:
    asked = request("CREATE", {"metadata": {"name": "x"}})

    await JobSetAdmission().mutate(asked)
    await JobSetAdmission().validate(asked)


async def test_an_update_is_not_defaulted() -> None:
    jobset = {"metadata": {"name": "train"}, "spec": {}}
    asked = request("UPDATE", jobset, jobset)

    await JobSetAdmission().mutate(asked)

    assert asked.obj == {"metadata": {"name": "train"}, "spec": {}}


def test_what_the_user_said_stays() -> None:
    jobset = make_jobset(network={"enableDNSHostnames": False}, successPolicy={"operator": "Any"})

    spec = defaulted(jobset)["spec"]

    assert spec["network"] == {"enableDNSHostnames": False, "publishNotReadyAddresses": True}
    assert spec["successPolicy"] == {"operator": "Any"}


BAD: list[Any] = [
    pytest.param(
        make_jobset("x", make_role("a", dependsOn=[{"name": "b", "status": "Ready"}])),
        "DependsOn can't be set for the first ReplicatedJob",
        id="the first role cannot depend on another",
    ),
    pytest.param(
        make_jobset(
            "x",
            make_role("a"),
            make_role("b", dependsOn=[{"name": "c", "status": "Ready"}]),
            make_role("c"),
        ),
        "replicatedJob: b cannot depend on replicatedJob: c",
        id="a role cannot depend on a later one",
    ),
    pytest.param(
        make_jobset("x", network={"subdomain": "Bad"}),
        'spec.network.subdomain: Invalid value: "Bad"',
        id="the subdomain is a DNS name",
    ),
    pytest.param(
        make_jobset("x" * 60),
        "pod names generated for this JobSet will exceed 63 characters",
        id="names of pods fit into a label",
    ),
    pytest.param(
        make_jobset("x", make_role("a", groupName="No!")),
        'spec.replicatedJobs[0].groupName: Invalid value: "No!"',
        id="the group name is a DNS label",
    ),
    pytest.param(
        make_jobset("x", make_role("a", replicas=2**30, pods=4)),
        "must not exceed 2147483647 for replicatedJob 'a'",
        id="the number of pods is bounded",
    ),
    pytest.param(
        make_jobset("x", successPolicy={"operator": "All", "targetReplicatedJobs": ["z"]}),
        "invalid replicatedJob name 'z' does not appear in .spec.ReplicatedJobs",
        id="the success policy names roles that exist",
    ),
    pytest.param(
        make_jobset("x", failurePolicy={"rules": [{"name": "1", "action": "FailJobSet"}]}),
        "invalid failure policy rule name '1'",
        id="rule names begin with a letter",
    ),
    pytest.param(
        make_jobset("x", failurePolicy={"rules": [{"name": "r"}, {"name": "r"}]}),
        "rules with indices [0 1] all have the same name 'r'",
        id="rule names are unique",
    ),
    pytest.param(
        make_jobset(
            "x", failurePolicy={"rules": [{"name": "r", "onJobFailureReasons": ["Bored"]}]}
        ),
        "invalid job failure reason 'Bored'",
        id="failure reasons are known",
    ),
    pytest.param(
        make_jobset("x", failurePolicy={"restartStrategy": "InPlaceRestart"}),
        "feature gate is disabled",
        id="in-place restart is switched off upstream",
    ),
    pytest.param(
        make_jobset("x", coordinator={"replicatedJob": "z"}),
        "coordinator replicatedJob z does not exist",
        id="the coordinator's role exists",
    ),
    pytest.param(
        make_jobset("x", coordinator={"replicatedJob": "a", "jobIndex": 1}),
        "coordinator job index 1 is invalid",
        id="the coordinator's Job exists",
    ),
    pytest.param(
        make_jobset("x", coordinator={"replicatedJob": "a", "podIndex": 1}),
        "coordinator pod index 1 is invalid",
        id="the coordinator's pod exists",
    ),
]


@pytest.mark.parametrize(("jobset", "want"), BAD)
async def test_a_bad_jobset_is_refused(jobset: Obj, want: str) -> None:
    with pytest.raises(StatusError) as refusal:
        await JobSetAdmission().validate(request("CREATE", jobset))

    assert (refusal.value.code, refusal.value.reason) == (403, "Forbidden")
    assert want in refusal.value.message
    assert refusal.value.message.startswith(
        'admission webhook "vjobset.kb.io" denied the request: '
    )


async def test_a_good_jobset_passes() -> None:
    coordinator = {"replicatedJob": "a", "jobIndex": 0, "podIndex": 0}

    await JobSetAdmission().validate(request("CREATE", make_jobset(coordinator=coordinator)))


async def test_roles_cannot_be_changed() -> None:
    old, new = make_jobset("x", make_role("a")), make_jobset("x", make_role("a", replicas=2))

    with pytest.raises(StatusError, match="field is immutable"):
        await JobSetAdmission().validate(request("UPDATE", new, old))


@pytest.mark.parametrize(
    ("suspended", "refused"),
    [
        pytest.param(True, False, id="node selectors may change while suspended"),
        pytest.param(False, True, id="they may not while it runs"),
    ],
)
async def test_templates_may_change_while_suspended(suspended: bool, refused: bool) -> None:
    old, new = make_jobset(suspend=suspended), make_jobset(suspend=suspended)
    template = new["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["spec"]["nodeSelector"] = {"pool": "fast"}
    asked = request("UPDATE", new, old)

    if refused:
        with pytest.raises(StatusError, match="field is immutable"):
            await JobSetAdmission().validate(asked)
    else:
        await JobSetAdmission().validate(asked)
