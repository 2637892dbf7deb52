"""The device kinds: behavior that depends on the clock, on roles and on namespaces.

e2e/kubernetes/apiserver/devices covers the other accepted and rejected objects, and runs against a
real server too.
"""

from typing import Any

import pytest

from localcluster.base import resources
from localcluster.base.errors import StatusError
from localcluster.base.hooks import User
from localcluster.registry.api import Api
from localcluster.schemas.cel import Checker
from localcluster.tests.api_server import ApiServer
from localcluster.tests.core import make_api, now_of

Object = dict[str, Any]

ANN = User("ann", ("system:authenticated",))
GROUP = "resource.k8s.io"
CLAIM = {
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
}
DEVICE = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
ALLOCATED = {"allocation": {"devices": {"results": [{**DEVICE, "request": "gpu"}]}}}


@pytest.fixture
async def api() -> Api:
    return await make_api()


async def grant(api: Api, resource: str, *verbs: str) -> None:
    """Grant ann a permission in all namespaces."""
    name = resource.replace("/", "-")
    rule = {"apiGroups": [GROUP], "resources": [resource], "verbs": list(verbs)}
    await api.create(resources.CLUSTER_ROLES, {"metadata": {"name": name}, "rules": [rule]})
    body = {
        "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": "ann"}],
    }
    await api.create(resources.CLUSTER_ROLE_BINDINGS, body)


async def patch_status(api: Api, status: Object, user: User = ANN) -> Object:
    stored = await api.patch(
        resources.RESOURCE_CLAIMS,
        "c",
        {"status": status},
        "default",
        subresource="status",
        user=user,
    )
    return stored.obj


async def refusal(api: Api, status: Object) -> list[tuple[str, str]]:
    with pytest.raises(StatusError) as refused:
        await patch_status(api, status)
    assert refused.value.code == 422
    causes = (refused.value.details or {})["causes"]
    return [(cause["field"], cause["message"]) for cause in causes]


async def test_no_consumer_joins_a_claim_that_is_being_deleted(api: Api) -> None:
    held = {**CLAIM, "metadata": {"name": "c", "finalizers": ["example.com/hold"]}}
    await api.create(resources.RESOURCE_CLAIMS, held, "default")
    await grant(api, "resourceclaims/binding", "patch")
    first = {"resource": "pods", "name": "a", "uid": "1"}
    await patch_status(api, {**ALLOCATED, "reservedFor": [first]})
    await api.delete(resources.RESOURCE_CLAIMS, "c", "default")

    second = {"resource": "pods", "name": "b", "uid": "2"}
    (cause,) = await refusal(api, {"reservedFor": [first, second]})
    assert cause[0] == "status.reservedFor"

    assert "reservedFor" not in (await patch_status(api, {"reservedFor": []}))["status"]


async def test_the_status_leaves_metadata_alone(api: Api) -> None:
    await api.create(resources.RESOURCE_CLAIMS, CLAIM, "default")

    written = await api.patch(
        resources.RESOURCE_CLAIMS,
        "c",
        {"metadata": {"labels": {"a": "b"}, "finalizers": ["a.b/c"]}, "status": ALLOCATED},
        "default",
        subresource="status",
    )

    assert written.obj["status"] == ALLOCATED
    assert {"labels", "finalizers"} & written.obj["metadata"].keys() == set()


async def test_a_taint_says_since_when_it_is_there(api: Api) -> None:
    body = {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "taints": [{"key": "a", "effect": "NoSchedule"}]}],
        },
    }

    made = (await api.create(resources.RESOURCE_SLICES, body)).obj

    assert made["spec"]["devices"][0]["taints"][0]["timeAdded"] == now_of(api)


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        pytest.param("spec.nodeName=n1", ["one"], id="a node"),
        pytest.param("spec.nodeName=", ["every"], id="no node"),
        pytest.param("spec.driver=b.example.com", ["every"], id="a driver"),
        pytest.param("spec.driver!=b.example.com,metadata.name=one", ["one"], id="several"),
    ],
)
async def test_slices_are_selected_by_node_and_driver(
    api: Api, selector: str, wanted: list[str]
) -> None:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    for name, spec in (
        ("one", {"driver": "a.example.com", "nodeName": "n1"}),
        ("every", {"driver": "b.example.com", "allNodes": True}),
    ):
        body = {"metadata": {"name": name}, "spec": {**spec, "pool": pool}}
        await api.create(resources.RESOURCE_SLICES, body)

    listed = api.list(resources.RESOURCE_SLICES, field_selector=selector)

    assert [item.obj["metadata"]["name"] for item in listed.items] == wanted


def test_a_function_that_cannot_be_read_is_refused() -> None:
    checker = Checker({"x": "int"}, "shout text")

    with pytest.raises(ValueError, match="no function: 'shout text'"):
        checker.compile("x == 1")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        pytest.param("a.grow(2)", "tests.Tree", id="a method"),
        pytest.param("tree.of('x').grow(1) == a", "BOOL", id="a function with a dot"),
        pytest.param("m['k'].size()", "INT", id="a map of lists"),
    ],
)
def test_types_of_ones_own_are_checked(text: str, result: str) -> None:
    functions = "Tree.grow(int) Tree\ntree.of(string) Tree"
    checker = Checker({"a": "Tree", "m": "{[any]}"}, functions)

    assert checker.compile(text).result.replace("kubernetes", "tests") == result


@pytest.mark.parametrize("amount", ["1.2.3", ".", "1e999999999"])
async def test_amounts_that_cannot_be_read_are_refused(apiserver: ApiServer, amount: str) -> None:
    policy = {"default": amount, "validRange": {"min": "0", "step": "1"}}

    with pytest.raises(StatusError, match="quantities must match") as refused:
        await apiserver.add(resources.RESOURCE_SLICES, _slice_with(policy))

    assert refused.value.code == 400


async def test_amounts_beyond_all_measure_cost_nothing(apiserver: ApiServer) -> None:
    policy = {"default": "1e9999", "validRange": {"min": "1e9999", "step": "1e99999"}}

    with pytest.raises(StatusError) as refused:
        await apiserver.add(resources.RESOURCE_SLICES, _slice_with(policy))

    assert refused.value.code == 422
    assert len(refused.value.message) < 2000


def _slice_with(policy: Object) -> Object:
    capacity = {"mem": {"value": "8Gi", "requestPolicy": policy}}
    device = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "a.example.com", "nodeName": "n1", "pool": pool, "devices": [device]}
    return {"metadata": {"name": "s"}, "spec": spec}
