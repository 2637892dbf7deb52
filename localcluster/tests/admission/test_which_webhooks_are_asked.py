"""Selection of webhooks by rules, scopes, selectors and match conditions."""

import copy
from typing import Any

import pytest

from localcluster.base import resources
from localcluster.base.errors import StatusError
from localcluster.tests.admission.conftest import Register
from localcluster.tests.admission.hook_server import HookServer, allow
from localcluster.tests.api_server import ApiServer, make_crd, make_widget

POD = {
    "metadata": {"name": "p", "labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def rule(**changes: Any) -> dict[str, Any]:
    whole = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
    }
    return {"rules": [whole | changes]}


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        pytest.param(rule(), True, id="an exact rule"),
        pytest.param(rule(operations=["*"], apiGroups=["*"]), True, id="wildcards"),
        pytest.param(rule(resources=["*/*"]), True, id="everything"),
        pytest.param(rule(operations=["UPDATE"]), False, id="another operation"),
        pytest.param(rule(apiGroups=["batch"]), False, id="another group"),
        pytest.param(rule(apiVersions=["v2"]), False, id="another version"),
        pytest.param(rule(resources=["pods/status"]), False, id="a sub-resource only"),
        pytest.param(rule(scope="Namespaced"), True, id="namespaced objects"),
        pytest.param(rule(scope="Cluster"), False, id="cluster-wide objects only"),
        pytest.param(
            rule() | {"objectSelector": {"matchLabels": {"app": "x"}}}, True, id="its labels"
        ),
        pytest.param(
            rule() | {"objectSelector": {"matchLabels": {"app": "y"}}}, False, id="other labels"
        ),
        pytest.param(
            rule()
            | {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "off", "operator": "DoesNotExist"}]
                }
            },
            True,
            id="its namespace's labels",
        ),
        pytest.param(
            rule() | {"namespaceSelector": {"matchLabels": {"on": "1"}}},
            False,
            id="another namespace's labels",
        ),
        pytest.param(
            rule() | {"matchConditions": [{"name": "c", "expression": "object.kind == 'Pod'"}]},
            True,
            id="a condition that holds",
        ),
        pytest.param(
            rule()
            | {
                "matchConditions": [
                    {"name": "user", "expression": "request.userInfo.username != 'ann'"},
                    {"name": "old", "expression": "oldObject != null"},
                ]
            },
            False,
            id="a condition that does not hold",
        ),
        pytest.param(
            rule()
            | {
                "matchConditions": [
                    {"name": "broken", "expression": "object.spec.nope == 1"},
                    {"name": "no", "expression": "false"},
                ]
            },
            False,
            id="a condition that fails beside one that does not hold",
        ),
        pytest.param(
            rule()
            | {
                "failurePolicy": "Ignore",
                "matchConditions": [{"name": "broken", "expression": "object.spec.nope == 1"}],
            },
            False,
            id="a condition that fails open",
        ),
        pytest.param(
            rule()
            | {
                "matchConditions": [
                    {
                        "name": "optional",
                        "expression": "object.?spec.?schedulingGroup.hasValue()"
                        " || 'app' in object.metadata.?labels.orValue({})",
                    }
                ]
            },
            True,
            id="a condition over optional fields",
        ),
    ],
)
async def test_a_pod_is_shown_to(
    apiserver: ApiServer, hooks: HookServer, register: Register, fields: dict[str, Any], asked: bool
) -> None:
    hooks.answers["/v"] = allow
    await register("/v", "Validating", **fields)

    await apiserver.add(resources.PODS, copy.deepcopy(POD), "default")

    assert bool(hooks.seen) is asked


async def test_a_condition_that_fails_closed_refuses_the_request(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    broken = {"name": "broken", "expression": "object.spec.nope == 1"}
    await register("/v", "Validating", **rule(), matchConditions=[broken])

    with pytest.raises(StatusError) as refused:
        await apiserver.add(resources.PODS, copy.deepcopy(POD), "default")

    assert refused.value.code == 403
    assert refused.value.message == (
        "pods \"p\" is forbidden: expression 'object.spec.nope == 1' resulted in error:"
        " no such key: nope"
    )
    assert hooks.seen == []


async def test_an_update_shows_the_old_object_and_selects_by_its_labels_too(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    hooks.answers["/v"] = allow
    await register(
        "/v",
        "Validating",
        **rule(operations=["UPDATE"]),
        objectSelector={"matchLabels": {"app": "x"}},
    )
    await apiserver.add(resources.PODS, copy.deepcopy(POD), "default")

    patch = {"metadata": {"labels": {"app": "y"}}}
    await apiserver.api.patch(resources.PODS, "p", patch, "default")

    (seen,) = hooks.requests("/v")
    assert seen["oldObject"]["metadata"]["labels"] == {"app": "x"}
    assert seen["object"]["metadata"]["labels"] == {"app": "y"}


async def test_a_deletion_shows_only_the_old_object(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    hooks.answers["/v"] = allow
    await register("/v", "Validating", **rule(operations=["DELETE"]))
    await apiserver.add(resources.PODS, copy.deepcopy(POD), "default")

    await apiserver.api.delete(resources.PODS, "p", "default")

    (seen,) = hooks.requests("/v")
    assert seen["object"] is None
    assert seen["oldObject"]["metadata"]["name"] == "p"


async def test_a_status_update_is_a_request_of_its_own(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    hooks.answers["/v"] = allow
    await register("/v", "Validating", **rule(operations=["UPDATE"], resources=["pods/status"]))
    await apiserver.add(resources.PODS, copy.deepcopy(POD), "default")

    await apiserver.api.patch(
        resources.PODS, "p", {"status": {"reason": "r"}}, "default", subresource="status"
    )

    assert [seen["subResource"] for seen in hooks.requests("/v")] == ["status"]


async def test_an_equivalent_version_is_shown_in_the_version_asked_for(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    hooks.answers["/v"] = allow
    crd = make_crd()
    newer = copy.deepcopy(crd["spec"]["versions"][0]) | {"name": "v2", "storage": False}
    crd["spec"]["versions"].append(newer)
    info = await apiserver.define(crd)
    rules = rule(apiGroups=["t.muster.dev"], apiVersions=["v2"], resources=["widgets"])
    await register("/v", "Validating", **rules)
    await register("/exact", "Validating", **rules, matchPolicy="Exact")

    await apiserver.add(info, make_widget(), "default")

    (seen,) = hooks.requests("/v")
    assert seen["kind"]["version"] == seen["resource"]["version"] == "v2"
    assert seen["requestKind"]["version"] == seen["requestResource"]["version"] == "v1"
    assert seen["object"]["apiVersion"] == "t.muster.dev/v2"
    assert hooks.requests("/exact") == []


async def test_configurations_of_webhooks_are_shown_to_none(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}
    await register("/v", "Validating", rules=[{**everything, "resources": ["*/*"]}])

    await register("/w", "Validating")
    await apiserver.api.delete(resources.VALIDATING_WEBHOOKS, "w")

    assert hooks.seen == []


async def test_a_withdrawn_configuration_is_asked_no_more(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    await register("/v", "Validating", **rule())
    await apiserver.api.delete(resources.VALIDATING_WEBHOOKS, "v")

    await apiserver.add(resources.PODS, copy.deepcopy(POD), "default")

    assert hooks.seen == []
