"""manifests/: the installed objects, with minimal and separate permissions."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import permissions
from e2e.harness.permissions import Right
from e2e.harness.support import manifests
from e2e.harness.support.binaries import binary

Object = dict[str, Any]

BASE = manifests.load()


def key(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def of_kind(objects: list[Object], *kinds: str) -> list[Object]:
    return [obj for obj in objects if obj["kind"] in kinds]


def kustomized(folder: str) -> list[Object]:
    command = [str(binary("kubectl")), "kustomize", str(manifests.MANIFESTS / folder)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(yaml.safe_load_all(text))


def test_the_base_is_what_kubectl_makes_of_it() -> None:
    ours = {key(obj): obj for obj in BASE}

    assert {key(obj): obj for obj in kustomized("base")} == ours
    assert len(ours) == len(BASE)


def test_every_definition_and_configuration_is_installed() -> None:
    files = [
        *(manifests.MANIFESTS / "crd").glob("*.yaml"),
        *(manifests.MANIFESTS / "webhook").glob("*.yaml"),
    ]
    there = {key(obj) for path in files for obj in yaml.safe_load_all(path.read_text())}

    assert there <= {key(obj) for obj in BASE}


def test_a_kustomization_that_does_more_is_refused() -> None:
    with pytest.raises(ValueError, match="only kubectl can carry out patches"):
        manifests.load(manifests.MANIFESTS / "overlays" / "single")


def test_no_rule_uses_a_wildcard() -> None:
    rules = [rule for role in of_kind(BASE, "Role", "ClusterRole") for rule in role["rules"]]

    assert rules
    assert not [rule for rule in rules for words in rule.values() if "*" in words]


def test_secrets_and_what_is_registered_are_given_by_name_only() -> None:
    named = {"secrets", "customresourcedefinitions"}
    named |= {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
    rules = [rule for role in of_kind(BASE, "Role", "ClusterRole") for rule in role["rules"]]

    assert all(rule.get("resourceNames") for rule in rules if named & set(rule["resources"]))


@pytest.mark.parametrize("folder", ["base", "overlays/cert-manager", "overlays/single"])
def test_every_pod_is_restricted_and_has_rights(folder: str) -> None:
    objects = BASE if folder == "base" else kustomized(folder)
    accounts = {obj["metadata"]["name"] for obj in of_kind(objects, "ServiceAccount")}
    bound = {
        subject["name"]
        for binding in of_kind(objects, "ClusterRoleBinding", "RoleBinding")
        for subject in binding["subjects"]
    }
    deployments = of_kind(objects, "Deployment")

    assert {one["spec"]["template"]["spec"]["serviceAccountName"] for one in deployments} == bound
    assert bound == accounts
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"startupProbe", "livenessProbe", "readinessProbe", "resources"} <= set(container)


def test_one_process_has_the_rights_of_all() -> None:
    single = {
        (r.verb, r.group, r.resource) for r in permissions.given(kustomized("overlays/single"))
    }

    assert single == {(r.verb, r.group, r.resource) for r in permissions.given(BASE)}


def test_with_cert_manager_the_webhook_writes_nothing() -> None:
    rights = permissions.given(kustomized("overlays/cert-manager"))
    webhook = {right.verb for right in rights if right.account == "muster-webhook"}

    assert webhook == {"get", "list", "watch"}


PROTECTION = manifests.load(manifests.MANIFESTS / "protection")


def test_every_account_has_its_share_of_the_api_server() -> None:
    accounts = {obj["metadata"]["name"] for obj in of_kind(BASE, "ServiceAccount")}

    for schema in of_kind(PROTECTION, "FlowSchema"):
        (rule,) = schema["spec"]["rules"]
        assert {subject["serviceAccount"]["name"] for subject in rule["subjects"]} == accounts


def test_every_port_of_every_pod_is_closed_but_for_who_needs_it() -> None:
    policies = of_kind(PROTECTION, "NetworkPolicy")

    for deployment in of_kind(BASE, "Deployment"):
        template = deployment["spec"]["template"]
        labels = template["metadata"]["labels"].items()
        ours = [
            policy["spec"]
            for policy in policies
            if policy["spec"]["podSelector"]["matchLabels"].items() <= labels
        ]
        opened = {
            port["port"] for spec in ours for rule in spec["ingress"] for port in rule["ports"]
        }
        (container,) = template["spec"]["containers"]
        assert opened == {port["containerPort"] for port in container["ports"]}
        # API servers come from any address: a block of addresses would cut some of them off.
        closed = {
            port["port"]
            for spec in ours
            for rule in spec["ingress"]
            if rule.get("from")
            for port in rule["ports"]
        }
        assert closed == {8080}
        assert "ipBlock" not in str(ours)


def test_an_audit_log_tells_what_was_used_and_what_was_refused(tmp_path: Path) -> None:
    def line(user: str, verb: str, decision: str, **about: str) -> str:
        event = {
            "user": {"username": user},
            "verb": verb,
            "requestURI": "/path",
            "objectRef": about,
            "annotations": {"authorization.k8s.io/decision": decision},
        }
        return json.dumps(event)

    ours = "system:serviceaccount:muster-system:muster-controller"
    log = tmp_path / "audit.log"
    log.write_text(
        "\n".join(
            [
                line(ours, "list", "allow", resource="jobs", apiGroup="batch"),
                line(ours, "list", "forbid", resource="jobs", apiGroup="batch"),
                line(ours, "patch", "forbid", resource="pods", subresource="status"),
                line(ours, "patch", "forbid", resource="pods", subresource="status"),
                line("system:serviceaccount:x:y", "patch", "forbid", resource="nodes"),
            ]
        )
    )

    jobs = Right("muster-controller", "list", "batch", "jobs")
    assert permissions.used(log) == {jobs}
    assert permissions.refused(log, {jobs}) == ["muster-controller: patch pods/status /path"]
