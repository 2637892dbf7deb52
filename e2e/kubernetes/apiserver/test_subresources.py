"""Status, binding, eviction and scale."""

import pytest

from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.objects import Namespace, binding, job, pod


async def _pod_phase(rest: Rest, ns: Namespace, name: str) -> str:
    phase: str = (await rest.get(ns.pods(name))).ok()["status"]["phase"]
    return phase


async def _run(rest: Rest, ns: Namespace, name: str, node: str, **labels: str) -> None:
    """Create a pod, bind it, and wait until it runs."""
    (await rest.post(ns.pods(), pod(name, labels=labels))).expect(201)
    (await rest.post(f"{ns.pods(name)}/binding", binding(name, node))).expect(201)

    async def runs() -> bool:
        return await _pod_phase(rest, ns, name) == "Running"

    await eventually(runs, f"pod {name} to run")


# Status


async def test_the_object_does_not_carry_its_status_along(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.jobs(), {**job("a"), "status": {"active": 3}})).expect(201)
    assert created["status"] == {}

    patched = (await rest.patch(ns.jobs("a"), {"status": {"active": 3}})).expect(200)
    assert "active" not in patched["status"]


async def test_the_status_does_not_carry_the_spec_along(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.pods(), pod("a"))).expect(201)
    condition = {"type": "Checked", "status": "True"}
    patch = {
        "metadata": {"labels": {"moved": "no"}},
        "spec": {"activeDeadlineSeconds": 9},
        "status": {"conditions": [condition]},
    }

    patched = (await rest.patch(f"{ns.pods('a')}/status", patch)).expect(200)

    assert "activeDeadlineSeconds" not in patched["spec"]
    assert patched["status"]["conditions"][0]["type"] == "Checked"
    assert patched["metadata"].get("generation") == created["metadata"].get("generation")


async def test_the_status_is_read_at_its_own_path(rest: Rest, ns: Namespace) -> None:
    (await rest.post(ns.pods(), pod("a"))).expect(201)

    read = (await rest.get(f"{ns.pods('a')}/status")).expect(200)

    assert (read["kind"], read["status"]["phase"]) == ("Pod", "Pending")


async def test_replacing_an_old_status_is_a_conflict(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.pods(), pod("a"))).expect(201)
    await rest.patch(ns.pods("a"), {"metadata": {"labels": {"x": "y"}}})

    (await rest.put(f"{ns.pods('a')}/status", created)).expect(409)


# Binding


async def test_a_pod_is_bound_to_a_node(rest: Rest, ns: Namespace, node: str) -> None:
    (await rest.post(ns.pods(), pod("a"))).expect(201)

    status = (await rest.post(f"{ns.pods('a')}/binding", binding("a", node))).expect(201)

    assert (status["kind"], status["status"]) == ("Status", "Success")
    bound = (await rest.get(ns.pods("a"))).ok()
    assert bound["spec"]["nodeName"] == node
    scheduled = next(c for c in bound["status"]["conditions"] if c["type"] == "PodScheduled")
    assert scheduled["status"] == "True"


async def test_a_bound_pod_runs(rest: Rest, ns: Namespace, node: str) -> None:
    await _run(rest, ns, "a", node)

    running = (await rest.get(ns.pods("a"))).ok()

    conditions = {c["type"]: c["status"] for c in running["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert running["status"]["containerStatuses"][0]["ready"] is True
    assert running["status"]["podIP"]


async def test_a_pod_is_bound_once(rest: Rest, ns: Namespace, node: str) -> None:
    (await rest.post(ns.pods(), pod("a"))).expect(201)
    await rest.post(f"{ns.pods('a')}/binding", binding("a", node))

    status = (await rest.post(f"{ns.pods('a')}/binding", binding("a", "other"))).expect(409)

    assert status["reason"] == "Conflict"
    assert f'pod a is already assigned to node "{node}"' in status["message"]


async def test_a_binding_with_another_uid_is_a_conflict(
    rest: Rest, ns: Namespace, node: str
) -> None:
    (await rest.post(ns.pods(), pod("a"))).expect(201)
    body = binding("a", node, uid="00000000-0000-0000-0000-000000000000")

    status = (await rest.post(f"{ns.pods('a')}/binding", body)).expect(409)

    assert status["reason"] == "Conflict"
    assert "nodeName" not in (await rest.get(ns.pods("a"))).ok()["spec"]


async def test_a_binding_for_a_missing_pod_is_not_found(rest: Rest, ns: Namespace) -> None:
    (await rest.post(f"{ns.pods('absent')}/binding", binding("absent", "n"))).expect(404)


async def test_a_binding_may_add_annotations(rest: Rest, ns: Namespace, node: str) -> None:
    (await rest.post(ns.pods(), pod("a"))).expect(201)
    body = binding("a", node, annotations={"example.com/by": "me"})

    (await rest.post(f"{ns.pods('a')}/binding", body)).expect(201)

    annotations = (await rest.get(ns.pods("a"))).ok()["metadata"]["annotations"]
    assert annotations["example.com/by"] == "me"


async def test_a_gated_pod_is_not_bound(rest: Rest, ns: Namespace, node: str) -> None:
    gated = pod("a")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    (await rest.post(ns.pods(), gated)).expect(201)

    status = (await rest.post(f"{ns.pods('a')}/binding", binding("a", node))).expect(409)
    assert "schedulingGates" in status["message"]

    (await rest.patch(ns.pods("a"), {"spec": {"schedulingGates": []}})).expect(200)
    (await rest.post(f"{ns.pods('a')}/binding", binding("a", node))).expect(201)


# Eviction


def _eviction(name: str) -> dict[str, object]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
    }


async def test_an_eviction_deletes_the_pod(rest: Rest, ns: Namespace, node: str) -> None:
    await _run(rest, ns, "a", node)

    (await rest.post(f"{ns.pods('a')}/eviction", _eviction("a"))).expect(201)

    async def gone() -> bool:
        return (await rest.get(ns.pods("a"))).status == 404

    await eventually(gone, "the pod to go")


async def test_a_dry_eviction_deletes_nothing(rest: Rest, ns: Namespace, node: str) -> None:
    await _run(rest, ns, "a", node)
    body = {**_eviction("a"), "deleteOptions": {"dryRun": ["All"]}}

    (await rest.post(f"{ns.pods('a')}/eviction", body)).expect(201)

    assert "deletionTimestamp" not in (await rest.get(ns.pods("a"))).ok()["metadata"]


async def test_an_eviction_against_a_disruption_budget_must_wait(
    rest: Rest, ns: Namespace, node: str
) -> None:
    await _run(rest, ns, "a", node, app="fenced")
    budgets = ns.path("policy/v1", "poddisruptionbudgets")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "fenced"}}},
    }
    (await rest.post(budgets, budget)).expect(201)

    async def counted() -> bool:
        status = (await rest.get(f"{budgets}/guard")).ok().get("status", {})
        return bool(status.get("currentHealthy") == 1)

    await eventually(counted, "the budget to count its pod")
    refused = (await rest.post(f"{ns.pods('a')}/eviction", _eviction("a"))).expect(429)
    assert refused["reason"] == "TooManyRequests"
    assert refused["details"]["causes"][0]["reason"] == "DisruptionBudget"

    (await rest.patch(f"{budgets}/guard", {"spec": {"minAvailable": 0}})).expect(200)

    async def allowed() -> bool:
        return (await rest.post(f"{ns.pods('a')}/eviction", _eviction("a"))).status == 201

    await eventually(allowed, "the eviction to be allowed")


async def test_an_eviction_of_a_missing_pod_is_not_found(rest: Rest, ns: Namespace) -> None:
    (await rest.post(f"{ns.pods('absent')}/eviction", _eviction("absent"))).expect(404)


# Scale


@pytest.fixture
def deployment() -> dict[str, object]:
    labels = {"app": "scaled"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "scaled"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


async def test_a_deployment_is_scaled_at_its_own_path(
    rest: Rest, ns: Namespace, deployment: dict[str, object]
) -> None:
    deployments = ns.path("apps/v1", "deployments")
    (await rest.post(deployments, deployment)).expect(201)
    path = f"{deployments}/scaled/scale"
    read = (await rest.get(path)).expect(200)
    assert (read["kind"], read["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert read["spec"] == {"replicas": 2}
    assert read["status"]["selector"] == "app=scaled"

    patched = (await rest.patch(path, {"spec": {"replicas": 5}})).expect(200)

    assert patched["spec"] == {"replicas": 5}
    assert (await rest.get(f"{deployments}/scaled")).ok()["spec"]["replicas"] == 5


async def test_a_sub_resource_the_kind_does_not_have_is_not_found(
    rest: Rest, ns: Namespace
) -> None:
    (await rest.post(ns.jobs(), job("a"))).expect(201)

    assert (await rest.get(f"{ns.jobs('a')}/scale")).status == 404
