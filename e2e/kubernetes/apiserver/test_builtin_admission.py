"""The server's built-in admission of pods, priorities and leases."""

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from e2e.harness.support.rest import Rest
from e2e.kubernetes.apiserver.objects import Namespace, pod, pod_spec

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
async def priority_class(rest: Rest) -> AsyncIterator[str]:
    name = f"class-{secrets.token_hex(3)}"
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1234,
        "preemptionPolicy": "Never",
    }
    (await rest.post(CLASSES, body)).expect(201)
    yield name
    await rest.delete(f"{CLASSES}/{name}")


async def test_a_pods_priority_is_that_of_its_class(
    rest: Rest, ns: Namespace, priority_class: str
) -> None:
    body = pod("a", spec=pod_spec(priorityClassName=priority_class))

    created = (await rest.post(ns.pods(), body)).expect(201)

    assert created["spec"]["priority"] == 1234
    assert created["spec"]["preemptionPolicy"] == "Never"


async def test_a_pod_without_a_class_has_priority_zero(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.pods(), pod("a"))).expect(201)

    assert created["spec"]["priority"] == 0
    assert created["spec"]["preemptionPolicy"] == "PreemptLowerPriority"


async def test_an_unknown_class_is_forbidden(rest: Rest, ns: Namespace) -> None:
    body = pod("a", spec=pod_spec(priorityClassName="no-such"))

    status = (await rest.post(ns.pods(), body)).expect(403)

    assert "no PriorityClass with name no-such was found" in status["message"]


async def test_a_number_unlike_the_class_is_forbidden(
    rest: Rest, ns: Namespace, priority_class: str
) -> None:
    body = pod("a", spec=pod_spec(priorityClassName=priority_class, priority=5))

    (await rest.post(ns.pods(), body)).expect(403)


async def test_the_systems_classes_are_there(rest: Rest) -> None:
    critical = (await rest.get(f"{CLASSES}/system-cluster-critical")).expect(200)

    assert critical["value"] == 2_000_000_000


async def test_a_priority_classs_value_is_fixed(rest: Rest, priority_class: str) -> None:
    status = (await rest.patch(f"{CLASSES}/{priority_class}", {"value": 1})).expect(422)

    assert status["details"]["causes"][0]["field"] == "value"


async def test_pods_are_defaulted(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.pods(), pod("a"))).expect(201)

    spec = created["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["dnsPolicy"] == "ClusterFirst"
    keys = {(t["key"], t["effect"], t["tolerationSeconds"]) for t in spec["tolerations"]}
    assert keys == {
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    }
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_a_pods_requests_follow_its_limits(rest: Rest, ns: Namespace) -> None:
    spec = pod_spec()
    spec["containers"][0]["resources"] = {"limits": {"cpu": "2", "memory": "1Gi"}}

    created = (await rest.post(ns.pods(), pod("a", spec=spec))).expect(201)

    resources = created["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert created["status"]["qosClass"] == "Guaranteed"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"containers": []}, "spec.containers", id="no container"),
        pytest.param({"restartPolicy": "Perhaps"}, "spec.restartPolicy", id="restart policy"),
        pytest.param({"hostname": "Not.A.Label"}, "spec.hostname", id="host name"),
        pytest.param({"containers": [{"name": "c"}]}, "spec.containers[0].image", id="no image"),
        pytest.param(
            {"nodeSelector": {"bad key": "x"}}, "spec.nodeSelector", id="node selector's key"
        ),
    ],
)
async def test_bad_pods_are_invalid(
    rest: Rest, ns: Namespace, change: dict[str, Any], field: str
) -> None:
    status = (await rest.post(ns.pods(), pod("a", spec=pod_spec(**change)))).expect(422)

    fields = {cause["field"] for cause in status["details"]["causes"]}
    assert any(found.startswith(field) for found in fields), fields


async def test_a_lease_is_guarded_by_its_version(rest: Rest, ns: Namespace) -> None:
    leases = ns.path("coordination.k8s.io/v1", "leases")
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader"},
        "spec": {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    first = (await rest.post(leases, body)).expect(201)
    assert first["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
    taken = {**first, "spec": {**first["spec"], "holderIdentity": "two"}}
    (await rest.put(f"{leases}/leader", taken)).expect(200)

    stale = {**first, "spec": {**first["spec"], "holderIdentity": "three"}}
    (await rest.put(f"{leases}/leader", stale)).expect(409)


async def test_events_can_be_written(rest: Rest, ns: Namespace) -> None:
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e-1"},
        "regarding": {"kind": "Pod", "namespace": ns.name, "name": "a", "apiVersion": "v1"},
        "reason": "Tried",
        "note": "it was tried",
        "type": "Normal",
        "action": "Trying",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/tester",
        "reportingInstance": "one",
    }
    (await rest.post(ns.path("events.k8s.io/v1", "events"), body)).expect(201)

    # The same event in the core group's format.
    read = (await rest.get(ns.core("events", "e-1"))).expect(200)
    assert (read["message"], read["involvedObject"]["name"]) == ("it was tried", "a")
