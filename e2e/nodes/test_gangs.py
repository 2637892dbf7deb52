"""Gangs whose pods are containers."""

from api.constants import LABEL_POD_GROUP, SCHEDULER_NAME
from e2e.harness.objects import pod_group
from e2e.nodes.cluster.places import BUSYBOX
from e2e.nodes.tenant import HOSTNAME, Json, Tenant, job


async def test_a_gang_starts_whole_and_one_that_does_not_fit_not_at_all(tenant: Tenant) -> None:
    await tenant.apply(job("large", 4, cpu="900m"))
    await tenant.apply(job("small", 4))

    started = await tenant.running("small", 4)

    assert {pod["spec"]["nodeName"] for pod in started} <= set(tenant.nodes.workers)
    waiting = await tenant.pods("large")
    assert [pod["spec"].get("nodeName") for pod in waiting] == [None] * 4
    await tenant.kubectl("delete", "job", "large")


async def test_a_node_is_filled_to_the_last_millicore(tenant: Tenant) -> None:
    node, count = tenant.nodes.workers[0], 8
    free = await tenant.free_cpu(node)
    each, rest = divmod(free, count)
    requests = [each + (1 if index < rest else 0) for index in range(count)]

    await tenant.apply(pod_group("exact", count), *_members("exact", node, requests))
    found = await tenant.until(
        "all pods to run",
        lambda pods: [it["status"].get("phase") for it in pods] == ["Running"] * count,
    )

    # A kubelet that counts otherwise rejects a pod: OutOfcpu.
    assert {pod["spec"]["nodeName"] for pod in found} == {node}
    assert await tenant.free_cpu(node) == 0


async def test_a_container_that_fails_or_runs_out_of_memory_ends_its_job(tenant: Tenant) -> None:
    fails = ("sh", "-c", '[ "$JOB_COMPLETION_INDEX" != 0 ] || exit 3; sleep 86400')
    failing = job("fails", 3, command=fails)
    failing["spec"]["completionMode"] = "Indexed"
    greedy = job("greedy", 2, memory="64Mi", command=("tail", "/dev/zero"))
    await tenant.apply(failing, greedy)

    await tenant.ended("fails", "Failed")
    await tenant.ended("greedy", "Failed")

    reasons = {_reason(pod) for pod in await tenant.pods("greedy")}
    assert "OOMKilled" in reasons
    # Their resources are free again, whole.
    await tenant.kubectl("delete", "job", "fails", "greedy")
    await tenant.apply(job("next", 4))
    await tenant.running("next", 4)


def _members(group: str, node: str, millicores: list[int]) -> list[Json]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{group}-{index}", "labels": {LABEL_POD_GROUP: group}},
            "spec": {
                "schedulerName": SCHEDULER_NAME,
                "nodeSelector": {HOSTNAME: node},
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "main",
                        "image": BUSYBOX,
                        "command": ["sleep", "86400"],
                        "resources": {"requests": {"cpu": f"{cpu}m"}},
                    }
                ],
            },
        }
        for index, cpu in enumerate(millicores)
    ]


def _reason(pod: Json) -> str | None:
    statuses = pod["status"].get("containerStatuses", [])
    ends = (it["state"].get("terminated", {}) for it in statuses)
    return next((str(it["reason"]) for it in ends if it), None)
