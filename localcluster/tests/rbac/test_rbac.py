"""Requests as attributes, rules, owners and the audit log, without a network."""

import json
from pathlib import Path
from typing import Any

import pytest

from localcluster.base import resources
from localcluster.base.errors import StatusError
from localcluster.base.hooks import User
from localcluster.http.audit import AuditLog
from localcluster.rbac.attributes import Attributes, attributes_of, refusal
from localcluster.rbac.authorizer import MASTERS, Decision
from localcluster.rbac.owners import OwnerPermissions
from localcluster.registry.api import Api
from localcluster.registry.bootstrap import bootstrap, complete_roles

ANN = User("ann", ("team", "system:authenticated"))


@pytest.fixture
async def api() -> Api:
    made = Api()
    await bootstrap(made)
    made.admission.append(OwnerPermissions(made.authorizer, made.registry))
    return made


async def grant(api: Api, *rules: dict[str, Any], name: str = "r", namespace: str = "") -> None:
    """Bind rules to ann, in one namespace or everywhere."""
    kind = "Role" if namespace else "ClusterRole"
    role = resources.ROLES if namespace else resources.CLUSTER_ROLES
    binding = resources.ROLE_BINDINGS if namespace else resources.CLUSTER_ROLE_BINDINGS
    await api.create(role, {"metadata": {"name": name}, "rules": list(rules)}, namespace)
    body = {
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": name},
        "subjects": [{"kind": "User", "name": "ann"}],
    }
    await api.create(binding, body, namespace)


def rule(resource: str, *verbs: str, group: str = "") -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


@pytest.mark.parametrize(
    ("method", "path", "params", "wanted"),
    [
        pytest.param("GET", "/api", {}, Attributes("get", path="/api"), id="a document"),
        pytest.param("GET", "/apis/batch/v1", {}, Attributes("get", path="/apis/batch/v1"), id="g"),
        pytest.param("HEAD", "/api/v1/pods", {}, Attributes("list", "", "v1", "pods"), id="HEAD"),
        pytest.param(
            "GET",
            "/api/v1/pods",
            {"fieldSelector": "spec.nodeName=x,metadata.name==a", "watch": "1"},
            Attributes("watch", "", "v1", "pods", name="a"),
            id="a watch of one name",
        ),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/n/finalize",
            {},
            Attributes("update", "", "v1", "namespaces", "finalize", "n", "n"),
            id="a part of a namespace",
        ),
        pytest.param(
            "DELETE",
            "/api/v1/namespaces/n/pods",
            {},
            Attributes("deletecollection", "", "v1", "pods", namespace="n"),
            id="a collection",
        ),
        pytest.param(
            "POST",
            "/apis/a.b/v1/namespaces/n/things/x/part",
            {},
            Attributes("create", "a.b", "v1", "things", "part", "n", "x"),
            id="a sub-resource",
        ),
        pytest.param(
            "POST", "/apis/a.b/v1/things", {}, Attributes("create", "a.b", "v1", "things"), id="new"
        ),
        pytest.param("GET", "/other/v1/x/y", {}, Attributes("get", path="/other/v1/x/y"), id="o"),
    ],
)
def test_a_url_says_what_is_asked(
    method: str, path: str, params: dict[str, str], wanted: Attributes
) -> None:
    assert attributes_of(method, path, params) == wanted


async def test_masters_may_do_everything(api: Api) -> None:
    asked = Attributes("delete", resource="nodes")

    assert api.authorizer.decide(User("root", (MASTERS,)), asked) == Decision(True)


@pytest.mark.parametrize(
    ("url", "path", "allowed"),
    [
        ("/metrics", "/metrics", True),
        ("/metrics", "/metrics/x", False),
        ("/logs/*", "/logs/a/b", True),
        ("*", "/anything", True),
    ],
)
async def test_paths_are_allowed_by_cluster_roles(
    api: Api, url: str, path: str, allowed: bool
) -> None:
    await grant(api, {"nonResourceURLs": [url], "verbs": ["get"]})

    assert api.authorizer.decide(ANN, Attributes("get", path=path)).allowed is allowed


async def test_the_reason_names_binding_role_and_subject(api: Api) -> None:
    await grant(api, rule("pods", "get"), namespace="default")

    found = api.authorizer.decide(ANN, Attributes("get", resource="pods", namespace="default"))

    words = 'RBAC: allowed by RoleBinding "r/default" of Role "r" to User "ann"'
    assert found == Decision(True, words)


async def test_all_missing_roles_are_named_once(api: Api) -> None:
    for name in ("one", "two"):
        await grant(api, name=name)
        await api.delete(resources.CLUSTER_ROLES, name)

    found = api.authorizer.decide(ANN, Attributes("get", resource="pods"))

    kind = "clusterrole.rbac.authorization.k8s.io"
    assert found.reason == f'RBAC: [{kind} "one" not found, {kind} "two" not found]'


def test_a_refusal_about_a_path_has_no_details() -> None:
    error = refusal("ann", Attributes("get", path="/x"), "")

    assert error.message == 'forbidden: User "ann" cannot get path "/x"'
    assert error.details == {}


async def test_an_owner_of_an_unknown_kind_cannot_be_blocked(api: Api) -> None:
    ref = {"apiVersion": "no.x/v1", "kind": "No", "name": "n", "uid": "u"}
    body = {
        "metadata": {"name": "a", "ownerReferences": [{**ref, "blockOwnerDeletion": True}]},
    }

    with pytest.raises(StatusError, match=r"RESTMapping for APIVersion no\.x/v1"):
        await api.create(resources.CONFIG_MAPS, body, "default", user=ANN)


async def test_an_owner_that_is_not_blocked_is_anybodys(api: Api) -> None:
    ref = {"apiVersion": "no.x/v1", "kind": "No", "name": "n", "uid": "u"}
    body = {"metadata": {"name": "a", "ownerReferences": [ref]}}

    await api.create(resources.CONFIG_MAPS, body, "default", user=ANN)


def test_the_audit_log_has_a_line_for_each_request(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit")
    asked = Attributes("watch", "batch", "v1", "jobs", namespace="n")
    log.write(ANN, asked, Decision(True, "because"), uri="/x?watch=1", code=200)
    log.write(ANN, Attributes("get", path="/metrics"), Decision(False), uri="/metrics", code=403)
    log.close()

    first, second = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    assert first["objectRef"] == {
        "resource": "jobs",
        "namespace": "n",
        "apiGroup": "batch",
        "apiVersion": "v1",
    }
    assert first["stage"] == "ResponseStarted"
    assert first["annotations"]["authorization.k8s.io/reason"] == "because"
    assert second["responseStatus"] == {"code": 403}
    assert second["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert "objectRef" not in second


async def test_a_saved_clusters_roles_get_the_rules_that_came_since(api: Api) -> None:
    name = "system:kube-controller-manager"
    whole = api.get(resources.CLUSTER_ROLES, name).obj["rules"]
    own = rule("pods", "get")
    patch = {"rules": [own, *whole[:1]]}
    await api.patch(resources.CLUSTER_ROLES, name, patch)
    await api.delete(resources.CLUSTER_ROLES, "system:discovery")
    await api.delete(resources.CLUSTER_ROLE_BINDINGS, "system:discovery")

    await complete_roles(api)
    revision = api.store.revision
    await complete_roles(api)

    assert api.store.revision == revision
    assert api.get(resources.CLUSTER_ROLES, name).obj["rules"] == [own, *whole]
    assert api.get(resources.CLUSTER_ROLES, "system:discovery").obj["rules"]
    assert api.get(resources.CLUSTER_ROLE_BINDINGS, "system:discovery").obj["subjects"]
