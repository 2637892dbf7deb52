"""NetworkPolicies that exclude API servers from Muster's pods, and how the doctor copes."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.doctor.examination import Examination, Options
from cli.doctor.findings import About, Finding, Severity
from cli.doctor.health import Process, Ready, check_processes, processes
from cli.doctor.network_policies import (
    check_unreadable,
    check_webhook_port,
    reached,
    unreadable,
)
from cli.support.support_bundle import collect
from kube.base.errors import Forbidden, KubeError, Unreachable
from kube.client.client import Client
from tests.structure.graph import ROOT
from tests.support.api_server import Answer, Drop, Reply, ScriptedServer, Seen, failure

Json = dict[str, Any]
INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
NAMESPACE = "muster-system"
PARTS = ("webhook", "controller", "scheduler")


def load(path: str) -> list[Json]:
    return list(yaml.safe_load_all((ROOT / "manifests" / path).read_text()))


PROTECTION = load("protection/network-policy.yaml")


def pod(part: str, number: int = 1, *, ready: bool = True) -> Json:
    """Return a running pod of a Deployment in manifests/base."""
    (deployment,) = (it for it in load(f"base/{part}.yaml") if it["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    condition = {"type": "Ready", "status": str(ready), "message": "" if ready else "unready: x"}
    return {
        "metadata": {
            **template["metadata"],
            "name": f"muster-{part}-{number}",
            "namespace": NAMESPACE,
        },
        "spec": template["spec"],
        "status": {"phase": "Running", "conditions": [condition]},
    }


PODS = [pod(part, number) for part in PARTS for number in (1, 2)]


def policy(*rules: Json, **spec: Any) -> Json:
    return {"metadata": {"name": "p"}, "spec": {"podSelector": {}, "ingress": [*rules], **spec}}


def test_the_protection_admits_everybody_to_the_webhook() -> None:
    """No block of addresses includes API servers in every network, and none but them."""
    assert list(check_webhook_port(PROTECTION, PODS)) == []
    assert "ipBlock" not in str(PROTECTION)


def test_the_protection_excludes_the_proxy_which_is_one_finding() -> None:
    closed = unreadable(PROTECTION, PODS)
    policies, *pods = check_unreadable(PROTECTION, closed, NAMESPACE)

    assert closed == PODS
    assert reached(processes(PODS, ["http://127.0.0.1:1"]), closed) == processes(
        [], ["http://127.0.0.1:1"]
    )
    assert (policies.severity, policies.about.kind) == (INFO, "NetworkPolicy")
    assert "health port of 6 pods" in policies.problem
    assert "port-forward" in policies.action
    assert [(it.severity, it.problem) for it in pods] == [(INFO, "it is ready")] * 6


def test_the_condition_of_a_pod_counts() -> None:
    closed = [pod("webhook", ready=False), pod("scheduler") | {"status": {"phase": "Running"}}]
    _, *found = check_unreadable(PROTECTION, closed, NAMESPACE)

    assert [it.severity for it in found] == [ERROR, ERROR]
    assert [it.problem for it in found] == [
        "it is not ready: unready: x",
        "it is not ready: no condition Ready",
    ]


FROM_PODS: Json = {"from": [{"podSelector": {}}]}
FROM_A_BLOCK: Json = {"from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]}


@pytest.mark.parametrize(
    ("policies", "closed"),
    [
        pytest.param([], False, id="no policy"),
        pytest.param([policy(policyTypes=["Egress"])], False, id="for egress"),
        pytest.param([policy(podSelector={"matchLabels": {"a": "b"}})], False, id="of others"),
        pytest.param([policy()], True, id="it denies all"),
        pytest.param([policy({})], False, id="it admits all"),
        pytest.param([policy(FROM_PODS)], True, id="pods"),
        pytest.param([policy(FROM_PODS), policy(FROM_A_BLOCK)], False, id="two, and a block"),
        pytest.param([policy({"ports": [{"port": 8080}]})], False, id="the port"),
        pytest.param([policy({"ports": [{"port": "health"}]})], False, id="the port's name"),
        pytest.param([policy({"ports": [{"port": 8000, "endPort": 9000}]})], False, id="a range"),
        pytest.param([policy({"ports": [{"port": 9443}, {"port": "no"}]})], True, id="others"),
    ],
)
def test_what_reaches_the_health_port(policies: list[Json], closed: bool) -> None:
    assert bool(unreadable(policies, [pod("webhook")])) is closed


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ({"operator": "In", "values": ["webhook", "x"]}, True),
        ({"operator": "NotIn", "values": ["webhook"]}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "DoesNotExist"}, False),
    ],
)
def test_expressions_select_pods(expression: Json, selected: bool) -> None:
    key = {"key": "app.kubernetes.io/component"}
    selector = {"matchExpressions": [key | expression]}

    assert bool(unreadable([policy(podSelector=selector)], [pod("webhook")])) is selected


@pytest.mark.parametrize(
    ("policies", "want", "text"),
    [
        pytest.param([], None, "", id="no policy"),
        pytest.param([policy({"ports": [{"port": 9443}]})], None, "", id="everybody"),
        pytest.param([policy(FROM_A_BLOCK)], INFO, "overlay network", id="a block"),
        pytest.param(
            [policy({"ports": [{"port": 8080}]})], ERROR, "admits no client", id="no client"
        ),
    ],
)
def test_what_reaches_the_webhook(policies: list[Json], want: Severity | None, text: str) -> None:
    found = list(check_webhook_port(policies, PODS))

    assert [one.severity for one in found] == ([want] if want is not None else [])
    assert all(text in one.problem for one in found)


def test_errors_of_one_kind_are_one_finding() -> None:
    """Policies of a network's own kinds are not read: then all pods time out in the same way."""
    said: list[Ready | KubeError] = [Unreachable("GET", f"/{it}", "timeout") for it in "abc"]
    said += [Forbidden(403, "Forbidden", "no"), Ready("ok\n")]

    found = list(check_processes([Process(About("Pod", "p"))] * 5, said))

    warnings = [one for one in found if one.severity == WARNING]
    assert [one.problem.partition("; ")[2] for one in warnings] == ["the same for 2 more", ""]
    assert len(found) == 3


async def examined(tmp_path: Path, policies: list[Json]) -> tuple[list[Finding], list[str], Json]:
    """Return the findings and the archive where the proxy responds to nothing."""

    async def answer(seen: Seen) -> Answer:
        match seen.path.rpartition("/")[2]:
            case "version":
                return Reply({"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
            case "pods" if seen.path.endswith(f"{NAMESPACE}/pods"):
                return Reply({"metadata": {}, "items": PODS})
            case "networkpolicies":
                return Reply({"metadata": {}, "items": policies})
        return Drop() if "/proxy/" in seen.path else failure(404, "NotFound", "no")

    async with ScriptedServer() as server:
        server.handler = answer
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            found = await Examination(client, Options(renewals=0)).run()
            asked = [seen.path for seen in server.seen if "/proxy/" in seen.path]
            bundle = await collect(client, Options(renewals=0))
    return [one for one in found if one.check == "health"], asked, bundle


async def test_pods_behind_a_policy_are_not_asked(tmp_path: Path) -> None:
    started = time.monotonic()
    found, asked, bundle = await examined(tmp_path, PROTECTION)

    assert asked == []
    assert [one for one in found if one.severity > INFO] == []
    assert [one.about.kind for one in found if one.action] == ["NetworkPolicy"]
    assert b"readyz/muster-webhook-1.txt" in bundle["missing.json"]
    assert time.monotonic() - started < 20


async def test_pods_that_do_not_respond_are_asked_once_and_one_finding(tmp_path: Path) -> None:
    found, asked, _ = await examined(tmp_path, [])

    assert {path.rpartition("/")[2] for path in asked} == {"readyz"}
    (finding,) = [one for one in found if one.severity > INFO]
    assert "the same for 5 more" in finding.problem
