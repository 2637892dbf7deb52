"""Preemption of containers that take their time to end."""

from datetime import datetime

from e2e.nodes.tenant import HOSTNAME, Json, Tenant, job

_PRE_STOP = 4
_ENDED = ("Succeeded", "Failed")
_ENDS = ("sh", "-c", "trap exit TERM; sleep 86400 & wait")


async def test_victims_end_in_order_before_the_gang_starts(tenant: Tenant) -> None:
    node = tenant.nodes.workers[1]
    each = await tenant.free_cpu(node) // 2 - 10
    for name, value in (("low", 10), ("high", 1000)):
        await tenant.apply(_priority(f"{tenant.name}-{name}", value))
    place = {HOSTNAME: node}
    hook = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_PRE_STOP)]}}}}
    low = job("low", 2, cpu=f"{each}m", command=_ENDS, container=hook, nodeSelector=place)
    pod = low["spec"]["template"]["spec"]
    pod |= {"terminationGracePeriodSeconds": 30, "priorityClassName": f"{tenant.name}-low"}
    await tenant.apply(low)
    await tenant.running("low", 2)

    high = job(
        "high", 2, cpu=f"{each}m", priorityClassName=f"{tenant.name}-high", nodeSelector=place
    )
    await tenant.apply(high)
    preempting = await tenant.running("high", 2)

    started = min(_started(pod) for pod in preempting)
    created = min(_time(pod["metadata"]["creationTimestamp"]) for pod in preempting)
    assert (started - created).total_seconds() >= _PRE_STOP
    assert all(pod["status"]["phase"] in _ENDED for pod in await tenant.pods("low"))
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
