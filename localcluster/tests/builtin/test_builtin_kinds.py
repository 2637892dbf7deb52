from typing import Any

import pytest

from localcluster.base.errors import StatusError
from localcluster.base.quantity import canonical
from localcluster.base.resources import CONFIG_MAPS, JOBS, NODES, PODS, PRIORITY_CLASSES
from localcluster.registry.api import Api
from localcluster.tests.core import job, make_api, pod


@pytest.fixture
async def api() -> Api:
    return await make_api()


async def fields_refused(api: Api, info: Any, body: dict[str, Any]) -> list[str]:
    with pytest.raises(StatusError) as caught:
        await api.create(info, body, "default" if info.namespaced else "")
    causes = (caught.value.details or {}).get("causes", [])
    return [cause["field"] for cause in causes]


async def test_pods_are_defaulted_as_the_real_server_does(api: Api) -> None:
    stored = await api.create(PODS, pod(spec={"terminationGracePeriodSeconds": 5}), "default")

    spec = stored.obj["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert (spec["restartPolicy"], spec["dnsPolicy"]) == ("Always", "ClusterFirst")
    assert spec["terminationGracePeriodSeconds"] == 5
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert [t["tolerationSeconds"] for t in spec["tolerations"]] == [300, 300]
    assert stored.obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("requests", "limits", "want"),
    [
        pytest.param({"cpu": "1"}, {}, "Burstable", id="requests alone"),
        pytest.param({}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed", id="limits are requests too"),
        pytest.param({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}, "BestEffort", id="devices"),
    ],
)
async def test_quality_of_service(
    api: Api, requests: dict[str, str], limits: dict[str, str], want: str
) -> None:
    resources = {"requests": requests, "limits": limits}
    body = pod(spec={"containers": [{"name": "c", "image": "x", "resources": resources}]})

    assert (await api.create(PODS, body, "default")).obj["status"]["qosClass"] == want


@pytest.mark.parametrize(
    ("container", "field"),
    [
        pytest.param({"image": "x"}, "name", id="no name"),
        pytest.param({"name": "C", "image": "x"}, "name", id="a bad name"),
        pytest.param({"name": "c"}, "image", id="no image"),
        pytest.param(
            {"name": "c", "image": "x", "resources": {"requests": {"cpu": "-1"}}},
            "resources.requests[cpu]",
            id="a negative request",
        ),
        pytest.param(
            {"name": "c", "image": "x", "resources": {"requests": {"cpu": "two"}}},
            "resources.requests[cpu]",
            id="no quantity",
        ),
        pytest.param(
            {
                "name": "c",
                "image": "x",
                "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
            },
            "resources.requests",
            id="more than the limit",
        ),
        pytest.param(
            {"name": "c", "image": "x", "resources": {"requests": {"x.io/gpu": "1"}}},
            "resources.limits",
            id="a device without limit",
        ),
    ],
)
async def test_bad_containers_are_named(api: Api, container: dict[str, Any], field: str) -> None:
    fields = await fields_refused(api, PODS, pod(spec={"containers": [container]}))

    assert fields == [f"spec.containers[0].{field}"]


@pytest.mark.parametrize(
    ("patch", "allowed"),
    [
        pytest.param({"containers": [{"name": "c", "image": "x:2"}]}, True, id="another image"),
        pytest.param({"schedulingGates": []}, True, id="gates removed"),
        pytest.param({"schedulingGates": [{"name": "g"}, {"name": "h"}]}, False, id="gates added"),
        pytest.param({"nodeSelector": {"a": "b"}}, True, id="a selector while gated"),
        pytest.param({"nodeName": "n1"}, False, id="a node past the binding"),
        pytest.param({"priority": 7}, False, id="another priority"),
    ],
)
async def test_little_of_a_pod_can_change(api: Api, patch: dict[str, Any], allowed: bool) -> None:
    await api.create(PODS, pod(spec={"schedulingGates": [{"name": "g"}]}), "default")

    if allowed:
        kind = "strategic" if "containers" in patch else "merge"
        await api.patch(PODS, "p", {"spec": patch}, "default", kind=kind)  # type: ignore[arg-type]
    else:
        with pytest.raises(StatusError) as caught:
            await api.patch(PODS, "p", {"spec": patch}, "default")
        assert caught.value.code == 422


async def test_priority_comes_from_the_class(api: Api) -> None:
    await api.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
    late = {"metadata": {"name": "base"}, "value": 3, "globalDefault": True}
    await api.create(PRIORITY_CLASSES, {**late, "preemptionPolicy": "Never"})

    named = await api.create(PODS, pod("a", spec={"priorityClassName": "high"}), "default")
    default = await api.create(PODS, pod("b"), "default")

    assert (named.obj["spec"]["priority"], default.obj["spec"]["priority"]) == (100, 3)
    assert default.obj["spec"]["priorityClassName"] == "base"
    assert default.obj["spec"]["preemptionPolicy"] == "Never"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"priorityClassName": "none"}, id="an unknown class"),
        pytest.param({"priority": 5}, id="a number that the class does not give"),
        pytest.param({"preemptionPolicy": "Never"}, id="a policy that the class does not give"),
    ],
)
async def test_priority_cannot_be_had_past_the_class(api: Api, spec: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as caught:
        await api.create(PODS, pod(spec=spec), "default")

    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({"metadata": {"name": "a"}, "value": 1_000_000_001}, "value", id="too high"),
        pytest.param(
            {"metadata": {"name": "system-x"}, "value": 1}, "metadata.name", id="a reserved name"
        ),
        pytest.param(
            {"metadata": {"name": "a"}, "preemptionPolicy": "Always"},
            "preemptionPolicy",
            id="an unknown policy",
        ),
    ],
)
async def test_bad_priority_classes(api: Api, body: dict[str, Any], field: str) -> None:
    assert await fields_refused(api, PRIORITY_CLASSES, body) == [field]


async def test_the_value_of_a_priority_class_stays(api: Api) -> None:
    await api.create(PRIORITY_CLASSES, {"metadata": {"name": "a"}, "value": 1})

    with pytest.raises(StatusError, match="may not be changed in an update"):
        await api.patch(PRIORITY_CLASSES, "a", {"value": 2})


async def test_jobs_get_a_selector_made_from_their_uid(api: Api) -> None:
    body = job()
    body["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}

    made = (await api.create(JOBS, body, "default")).obj

    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    want = {
        "app": "x",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }
    assert made["spec"]["template"]["metadata"]["labels"] == want
    assert made["metadata"]["labels"] == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, (1, 1, 6), id="nothing said is one pod"),
        pytest.param({"parallelism": 3}, (None, 3, 6), id="a work queue"),
        pytest.param({"completions": 3}, (3, 1, 6), id="completions alone run one by one"),
        pytest.param(
            {"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1},
            (2, 1, 2**31 - 1),
            id="a limit per index lifts the common one",
        ),
    ],
)
async def test_counts_of_jobs_are_defaulted(
    api: Api, spec: dict[str, Any], want: tuple[int | None, int, int]
) -> None:
    made = (await api.create(JOBS, job(**spec), "default")).obj["spec"]

    assert (made.get("completions"), made["parallelism"], made["backoffLimit"]) == want


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"parallelism": -1}, "spec.parallelism", id="a negative count"),
        pytest.param({"completionMode": "Odd"}, "spec.completionMode", id="an unknown mode"),
        pytest.param(
            {"completionMode": "Indexed", "parallelism": 2}, "spec.completions", id="no indexes"
        ),
        pytest.param(
            {"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}},
            "spec.template.spec.restartPolicy",
            id="pods that restart for ever",
        ),
    ],
)
async def test_bad_jobs_are_named(api: Api, spec: dict[str, Any], field: str) -> None:
    assert await fields_refused(api, JOBS, job(**spec)) == [field]


@pytest.mark.parametrize(
    ("before", "patch", "field"),
    [
        pytest.param({}, {"completions": 2}, "spec.completions", id="completions"),
        pytest.param(
            {"completions": 2, "parallelism": 2, "completionMode": "Indexed"},
            {"completions": 3, "parallelism": 3},
            None,
            id="an elastic indexed job",
        ),
        pytest.param({}, {"parallelism": 5}, None, id="parallelism"),
        pytest.param({}, {"suspend": True}, None, id="suspend"),
        pytest.param({}, {"completionMode": "Indexed"}, "spec.completionMode", id="the mode"),
        pytest.param(
            {}, {"template": {"spec": {"hostname": "x"}}}, "spec.template", id="the template"
        ),
        pytest.param(
            {"suspend": True},
            {"template": {"spec": {"nodeSelector": {"a": "b"}}}},
            None,
            id="placement of a job that waits",
        ),
        pytest.param(
            {"suspend": True},
            {"template": {"spec": {"hostname": "x"}}},
            "spec.template",
            id="other things of a job that waits",
        ),
    ],
)
async def test_what_of_a_job_can_change(
    api: Api, before: dict[str, Any], patch: dict[str, Any], field: str | None
) -> None:
    await api.create(JOBS, job(**before), "default")

    if field is None:
        await api.patch(JOBS, "j", {"spec": patch}, "default")
        return
    with pytest.raises(StatusError) as caught:
        await api.patch(JOBS, "j", {"spec": patch}, "default")
    assert [c["field"] for c in (caught.value.details or {})["causes"]] == [field]


async def test_a_node_can_allocate_its_capacity_unless_it_says_otherwise(api: Api) -> None:
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4000m"}}}

    assert (await api.create(NODES, node)).obj["status"]["allocatable"] == {"cpu": "4"}


async def test_keys_of_a_config_map_are_file_names(api: Api) -> None:
    body = {"metadata": {"name": "a"}, "data": {"a/b": "c"}}

    assert await fields_refused(api, CONFIG_MAPS, body) == ["data[a/b]"]


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("1000m", "1"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("2000", "2k"),
        ("0", "0"), ("100Ki", "100Ki"), ("1e3", "1e3"), ("0.1n", "1n"), ("1500M", "1500M"),
    ],
)  # fmt: skip
def test_quantities_are_written_in_one_way(said: str, written: str) -> None:
    assert canonical(said) == written


@pytest.mark.parametrize("said", ["", "x", "1GiB", "1 Gi", "--1"])
def test_other_texts_are_no_quantities(said: str) -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        canonical(said)
