"""The described kinds: kept fields, pruned fields, and the parser of the notation."""

import copy
from typing import Any

import pytest

from localcluster.base import resources
from localcluster.base.errors import StatusError
from localcluster.base.resources import ResourceInfo
from localcluster.definitions.jobset import jobset_crd
from localcluster.definitions.notation import components, inline, read
from localcluster.tests.api_server import ApiServer

NOTATION = """
Job: Runs pods.
  count int32 default=1 min=0: How many.
  mode! string enum=Gang|Off: Which way: one or the other.
  parts [Part] key=name: The parts.
  labels {string}: Some labels.
Part: A part.
  name! string: Its name.
  size quantity: Its size.
"""


def test_a_type_reads_as_a_structural_schema() -> None:
    schema = inline(read(NOTATION), "Job")

    assert schema["required"] == ["mode"]
    assert schema["properties"]["count"] == {
        "type": "integer",
        "format": "int32",
        "description": "How many.",
        "default": 1,
        "minimum": 0,
    }
    assert schema["properties"]["mode"]["enum"] == ["Gang", "Off"]
    assert schema["properties"]["mode"]["description"] == "Which way: one or the other."
    parts = schema["properties"]["parts"]
    assert parts["x-kubernetes-list-map-keys"] == ["name"]
    assert parts["items"]["properties"]["size"]["x-kubernetes-int-or-string"] is True
    assert schema["properties"]["labels"]["additionalProperties"] == {"type": "string"}


def test_types_read_as_components_that_refer_to_each_other() -> None:
    found = components(read(NOTATION), "p.")

    items = found["p.Job"]["properties"]["parts"]["items"]
    assert items == {"allOf": [{"$ref": "#/components/schemas/p.Part"}]}


def test_a_line_that_is_neither_type_nor_field_is_refused() -> None:
    with pytest.raises(ValueError, match="no type and no field"):
        read("Job: Runs pods.\n  what is this\n")


def make_jobset(**spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}
    job = {"spec": {"template": {"spec": pod}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js"},
        "spec": {"replicatedJobs": [{"name": "w", "template": job}], **spec},
    }


@pytest.fixture
async def jobsets(apiserver: ApiServer) -> ResourceInfo:
    return await apiserver.define(jobset_crd())


async def test_a_jobset_is_defaulted(apiserver: ApiServer, jobsets: ResourceInfo) -> None:
    stored = await apiserver.add(jobsets, make_jobset(), "default")

    (group,) = stored["spec"]["replicatedJobs"]
    assert (group["replicas"], group["groupName"]) == (1, "default")
    container = group["template"]["spec"]["template"]["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


async def test_a_jobset_keeps_gang_configs_and_workload_references_only(
    apiserver: ApiServer, jobsets: ResourceInfo
) -> None:
    jobset = make_jobset(gangConfig={"gangMode": "Gang"})
    group = jobset["spec"]["replicatedJobs"][0]
    group["gangConfig"] = {"gangMode": "Off"}
    pod = group["template"]["spec"]["template"]["spec"]
    pod |= {"workloadRef": {"name": "w", "podGroup": "g"}, "schedulingGroup": {"podGroupName": "g"}}

    stored = await apiserver.add(jobsets, jobset, "default")

    kept = stored["spec"]["replicatedJobs"][0]
    assert stored["spec"]["gangConfig"] == {"gangMode": "Gang"}
    assert kept["gangConfig"] == {"gangMode": "Off"}
    spec = kept["template"]["spec"]["template"]["spec"]
    assert "schedulingGroup" not in spec
    assert spec["workloadRef"] == {"name": "w", "podGroup": "g"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"successPolicy": {"operator": "Some"}},
            'Unsupported value: "Some": supported values: "All", "Any"',
            id="an unknown operator",
        ),
        pytest.param(
            {"ttlSecondsAfterFinished": -1},
            "Invalid value: -1: spec.ttlSecondsAfterFinished in body should be greater than or"
            " equal to 0",
            id="a negative time",
        ),
    ],
)
async def test_a_wrong_jobset_is_refused(
    apiserver: ApiServer, jobsets: ResourceInfo, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(StatusError) as refused:
        await apiserver.add(jobsets, make_jobset(**change), "default")

    assert (refused.value.details or {})["causes"][0]["message"] == message


async def test_a_jobset_cannot_order_its_jobs_in_two_ways(
    apiserver: ApiServer, jobsets: ResourceInfo
) -> None:
    jobset = make_jobset(startupPolicy={"startupPolicyOrder": "InOrder"})
    second = {**jobset["spec"]["replicatedJobs"][0], "name": "v"}
    second["dependsOn"] = [{"name": "w", "status": "Ready"}]
    jobset["spec"]["replicatedJobs"].append(second)

    with pytest.raises(StatusError, match="StartupPolicy and DependsOn APIs are mutually"):
        await apiserver.add(jobsets, jobset, "default")


async def test_the_network_of_a_jobset_cannot_change(
    apiserver: ApiServer, jobsets: ResourceInfo
) -> None:
    stored = await apiserver.add(jobsets, make_jobset(network={"subdomain": "a"}), "default")
    changed = copy.deepcopy(stored)
    changed["spec"]["network"]["subdomain"] = "b"

    with pytest.raises(StatusError, match=r"spec\.network: Invalid value: Value is immutable"):
        await apiserver.api.update(jobsets, changed, "default")


async def test_unknown_fields_of_a_pod_are_dropped_and_group_references_kept(
    apiserver: ApiServer,
) -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "surprise": 1}],
            "schedulingGroup": {"podGroupName": "g"},
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        },
    }

    stored = await apiserver.add(resources.PODS, pod, "default")

    assert "surprise" not in stored["spec"]["containers"][0]
    assert stored["spec"]["schedulingGroup"] == {"podGroupName": "g"}
    assert "nodeAffinity" in stored["spec"]["affinity"]
