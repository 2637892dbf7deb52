from typing import Any

import pytest

from localcluster.base.errors import StatusError
from localcluster.base.hooks import DeleteOptions, WriteOptions
from localcluster.base.resources import DEPLOYMENTS, PDBS, PODS
from localcluster.registry.api import Api
from localcluster.registry.write_pipeline import Write
from localcluster.tests.core import binding, make_api, now_of, pod


@pytest.fixture
async def api() -> Api:
    return await make_api()


async def bind(api: Api, body: dict[str, Any], name: str = "p") -> dict[str, Any]:
    stored = await api.create(PODS, body, "default", name=name, subresource="binding")
    return stored.obj


async def evict(api: Api, **options: Any) -> dict[str, Any]:
    body = {"metadata": {"name": "p"}, "deleteOptions": options}
    stored = await api.create(PODS, body, "default", name="p", subresource="eviction")
    return stored.obj


async def test_binding_sets_node_and_condition_in_one_write(api: Api) -> None:
    made = await api.create(PODS, pod(), "default")

    answer = await bind(api, binding(uid=made.obj["metadata"]["uid"]))

    bound = api.get(PODS, "p", "default")
    assert (answer["status"], answer["code"]) == ("Success", 201)
    assert bound.obj["spec"]["nodeName"] == "n1"
    assert bound.obj["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now_of(api),
        }
    ]
    assert bound.revision == made.revision + 1


async def test_annotations_of_a_binding_reach_the_pod(api: Api) -> None:
    await api.create(PODS, pod(annotations={"a": "1"}), "default")
    body = binding()
    body["metadata"]["annotations"] = {"b": "2"}

    await bind(api, body)

    assert api.get(PODS, "p", "default").obj["metadata"]["annotations"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("spec", "body", "code", "part"),
    [
        pytest.param({}, binding(uid="other"), 409, "UID in precondition: other", id="another pod"),
        pytest.param(
            {"schedulingGates": [{"name": "g"}]}, binding(), 409, "schedulingGates", id="gated"
        ),
        pytest.param({}, {"target": {}}, 422, "target.name: Required", id="no node"),
        pytest.param(
            {}, {"target": {"kind": "Pod", "name": "x"}}, 422, "target.kind", id="no kind of node"
        ),
    ],
)
async def test_bindings_that_make_no_sense(
    api: Api, spec: dict[str, Any], body: dict[str, Any], code: int, part: str
) -> None:
    await api.create(PODS, pod(spec=spec), "default")

    with pytest.raises(StatusError) as caught:
        await bind(api, body)

    assert caught.value.code == code
    assert part in caught.value.message


async def test_a_pod_that_is_being_deleted_is_not_bound(api: Api) -> None:
    await api.create(PODS, pod(finalizers=["x.io/a"]), "default")
    await api.delete(PODS, "p", "default")

    with pytest.raises(StatusError, match="is being deleted"):
        await bind(api, binding())


async def test_a_dry_binding_binds_nothing(api: Api) -> None:
    await api.create(PODS, pod(), "default")

    dry = WriteOptions(dry_run=True)
    await api.create(PODS, binding(), "default", name="p", subresource="binding", options=dry)

    assert "nodeName" not in api.get(PODS, "p", "default").obj["spec"]


async def running_pod(api: Api, *, allowed: int | None) -> None:
    """Create a running pod, and a budget that allows that many disruptions (None: no budget)."""
    await api.create(PODS, pod(labels={"a": "b"}), "default")
    await bind(api, binding())
    await api.patch(PODS, "p", {"status": {"phase": "Running"}}, "default", subresource="status")
    if allowed is None:
        return
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    await api.create(PDBS, {"metadata": {"name": "budget"}, "spec": spec}, "default")
    status = {"observedGeneration": 1, "disruptionsAllowed": allowed, "desiredHealthy": 1}
    await api.patch(PDBS, "budget", {"status": status}, "default", subresource="status")


async def test_an_eviction_is_a_graceful_deletion(api: Api) -> None:
    await running_pod(api, allowed=None)

    await evict(api, gracePeriodSeconds=7)

    meta = api.get(PODS, "p", "default").obj["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 7


async def test_an_eviction_spends_the_budget(api: Api) -> None:
    await running_pod(api, allowed=1)

    await evict(api)

    status = api.get(PDBS, "budget", "default").obj["status"]
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"p": now_of(api)}


async def test_a_spent_budget_refuses_with_its_name(api: Api) -> None:
    await running_pod(api, allowed=0)

    with pytest.raises(StatusError) as caught:
        await evict(api)

    status = caught.value.to_json()
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = status["details"]["causes"][0]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"].startswith("The disruption budget budget needs 1 healthy pods")
    assert "deletionTimestamp" not in api.get(PODS, "p", "default").obj["metadata"]


async def test_a_budget_that_has_not_been_counted_asks_for_patience(api: Api) -> None:
    await running_pod(api, allowed=1)
    patch = {"status": {"observedGeneration": 0}}
    await api.patch(PDBS, "budget", patch, "default", subresource="status")

    with pytest.raises(StatusError) as caught:
        await evict(api)

    assert caught.value.headers == {"Retry-After": "10"}


async def test_a_dry_eviction_spends_nothing(api: Api) -> None:
    await running_pod(api, allowed=1)

    await evict(api, dryRun=["All"])

    assert api.get(PDBS, "budget", "default").obj["status"]["disruptionsAllowed"] == 1


async def test_an_eviction_of_another_pod_of_that_name_is_refused(api: Api) -> None:
    await running_pod(api, allowed=None)

    with pytest.raises(StatusError) as caught:
        await evict(api, preconditions={"uid": "other"})

    assert caught.value.code == 409


async def test_pods_that_are_done_need_no_budget(api: Api) -> None:
    await running_pod(api, allowed=0)
    await api.patch(PODS, "p", {"status": {"phase": "Failed"}}, "default", subresource="status")

    await evict(api)

    with pytest.raises(StatusError):
        api.get(PODS, "p", "default")


async def deployment(api: Api) -> Write:
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {}}
    await api.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec}, "default")
    return Write(DEPLOYMENTS, "default", "d", "scale")


async def test_scale_shows_and_sets_the_replicas(api: Api) -> None:
    scale = (await api.subresources.read(await deployment(api))).copy()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "a=b"})

    scale["spec"]["replicas"] = 5
    answer = await api.update(DEPLOYMENTS, scale, "default", name="d", subresource="scale")
    patch = {"spec": {"replicas": 6}}
    patched = await api.patch(DEPLOYMENTS, "d", patch, "default", subresource="scale")

    assert answer.obj["spec"] == {"replicas": 5}
    assert patched.obj["spec"] == {"replicas": 6}
    stored = api.get(DEPLOYMENTS, "d", "default").obj
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (6, 3)


async def test_a_stale_or_negative_scale_is_refused(api: Api) -> None:
    scale = (await api.subresources.read(await deployment(api))).copy()
    await api.patch(DEPLOYMENTS, "d", {"spec": {"replicas": 3}}, "default")

    with pytest.raises(StatusError) as caught:
        await api.update(DEPLOYMENTS, scale, "default", name="d", subresource="scale")
    assert caught.value.code == 409
    patch = {"spec": {"replicas": -1}}
    with pytest.raises(StatusError) as caught:
        await api.patch(DEPLOYMENTS, "d", patch, "default", subresource="scale")
    assert caught.value.code == 422


async def test_options_of_a_deletion_are_kept_apart_from_those_of_an_eviction(api: Api) -> None:
    await running_pod(api, allowed=0)

    await api.delete(PODS, "p", "default", options=DeleteOptions(3))

    assert api.get(PODS, "p", "default").obj["metadata"]["deletionGracePeriodSeconds"] == 3
