"""Preemption of containers that take their time to end."""

import json
from datetime import datetime
from typing import Any

import yaml

from e2e.harness.controlplane.places import ROOT
from e2e.nodes.tenant import HOSTNAME, Json, Tenant, job

_PRE_STOP = 4
_ENDED = ("Succeeded", "Failed")
_ENDS = ("sh", "-c", "trap exit TERM; sleep 86400 & wait")


async def test_victims_end_in_order_before_the_gang_starts(tenant: Tenant) -> None:
    hook = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_PRE_STOP)]}}}}
    low, high = await _half_a_node_each(tenant, container=hook)
    low["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30
    await tenant.apply(low)
    await tenant.running("low", 2)

    await tenant.apply(high)
    preempting = await tenant.running("high", 2)

    started = min(_started(pod) for pod in preempting)
    created = min(_time(pod["metadata"]["creationTimestamp"]) for pod in preempting)
    assert (started - created).total_seconds() >= _PRE_STOP
    assert all(pod["status"]["phase"] in _ENDED for pod in await tenant.pods("low"))
    await _no_classes(tenant)


async def test_a_job_that_ignores_disruptions_comes_back_at_once(tenant: Tenant) -> None:
    """With the policy of docs/jobs.md the evicted pods count neither as failed nor for a pause."""
    low, high = await _half_a_node_each(tenant)
    section = (ROOT / "docs" / "jobs.md").read_text().partition("## After an eviction")[2]
    low["spec"] |= yaml.safe_load(section.split("```")[1].removeprefix("yaml"))["spec"]
    low["spec"]["backoffLimit"] = 0
    await tenant.apply(low)
    first = {pod["metadata"]["name"] for pod in await tenant.running("low", 2)}
    await tenant.apply(high)
    await tenant.running("high", 2)

    await tenant.kubectl("delete", "job", "high")

    again = {pod["metadata"]["name"] for pod in await tenant.running("low", 2)}
    assert not first & again
    found = json.loads(await tenant.kubectl("get", "job", "low", "--output=json"))
    assert found["status"].get("failed", 0) == 0
    await _no_classes(tenant)


async def _half_a_node_each(tenant: Tenant, **low: Any) -> tuple[Json, Json]:
    """Return two Jobs that each fill a node, with a low and a high priority."""
    node = tenant.nodes.workers[1]
    each = await tenant.free_cpu(node) // 2 - 10
    made = []
    for name, value, more in (("low", 10, {"command": _ENDS, **low}), ("high", 1000, {})):
        await tenant.apply(_priority(f"{tenant.name}-{name}", value))
        obj = job(name, 2, cpu=f"{each}m", nodeSelector={HOSTNAME: node}, **more)
        obj["spec"]["template"]["spec"]["priorityClassName"] = f"{tenant.name}-{name}"
        made.append(obj)
    return made[0], made[1]


async def _no_classes(tenant: Tenant) -> None:
    for name in ("low", "high"):
        await tenant.kubectl("delete", "priorityclass", f"{tenant.name}-{name}")


def _priority(name: str, value: int) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def _started(pod: Json) -> datetime:
    (status,) = pod["status"]["containerStatuses"]
    return _time(status["state"]["running"]["startedAt"])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
