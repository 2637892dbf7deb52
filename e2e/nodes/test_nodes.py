"""Nodes that are drained, or die and return."""

from datetime import UTC, datetime
from functools import partial

from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.waiting import eventually
from e2e.nodes import installation
from e2e.nodes.cordon import cordoned
from e2e.nodes.tenant import HOSTNAME, Json, Tenant, job, running

_UNREACHABLE = "node.kubernetes.io/unreachable"


async def test_a_drain_respects_budgets_and_leaves_muster_at_work(
    tenant: Tenant, kubectl: Kubectl
) -> None:
    drained, other = tenant.nodes.workers
    training = job("training", 2)
    training["spec"]["backoffLimit"] = 6
    async with cordoned(kubectl, other):
        await tenant.apply(training, _budget("training", 1))
        await tenant.running("training", 2)
    try:
        options = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=240s")
        await kubectl("drain", drained, *options)

        moved = await tenant.running("training", 2)
        assert {pod["spec"]["nodeName"] for pod in moved} == {other}
        await installation.rolled_out(kubectl)
        assert {pod["spec"]["nodeName"] for pod in await installation.pods(kubectl)} == {other}
    finally:
        await kubectl("uncordon", drained)
    await tenant.apply(job("after", 2, nodeSelector={HOSTNAME: drained}))
    await tenant.running("after", 2)


async def test_a_gang_moves_from_a_node_that_dies_and_uses_it_when_it_returns(
    tenant: Tenant, kubectl: Kubectl
) -> None:
    survives, dies = tenant.nodes.workers
    leave = {"key": _UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
    gang = job("gang", 4, tolerations=[leave | {"tolerationSeconds": 2}])
    gang["spec"]["backoffLimit"] = 6
    # Else no replica may be left: those on a node that dies run elsewhere after five minutes.
    await installation.restarted(kubectl)
    async with cordoned(kubectl, survives):
        await tenant.apply(gang)
        await tenant.running("gang", 4)

    tenant.nodes.kill(dies)
    await _is_not_ready(tenant, dies)
    await tenant.until(
        "4 pods to run on the other node",
        lambda pods: len(_running_on(pods, survives)) == 4,
        "gang",
        300,
    )
    await tenant.apply(job("new", 2))
    await tenant.running("new", 2)

    since = _now()
    await tenant.nodes.restart(dies)
    await installation.is_back(kubectl, dies, since)
    await tenant.running("gang", 4, 300)
    await tenant.apply(job("returned", 2, nodeSelector={HOSTNAME: dies}))
    await tenant.running("returned", 2)
    await installation.rolled_out(kubectl)


async def test_all_resumes_when_power_returns_after_it_was_lost_on_every_worker(
    tenant: Tenant, kubectl: Kubectl
) -> None:
    """Muster runs on these nodes, too."""
    gang = job("gang", 4)
    gang["spec"]["backoffLimit"] = 6
    await tenant.apply(gang)
    await tenant.running("gang", 4)

    for name in tenant.nodes.workers:
        tenant.nodes.kill(name)
    assert "failed calling webhook" in await tenant.kubectl(
        "create", "-f", "-", stdin=job("meanwhile", 2), fails=True
    )
    since = _now()
    for name in tenant.nodes.workers:
        await tenant.nodes.restart(name)

    for name in tenant.nodes.workers:
        await installation.is_back(kubectl, name, since)
    await tenant.until("4 pods of the gang to run", partial(_run, 4), "gang", 300)
    await installation.rolled_out(kubectl)
    await tenant.apply(job("afterwards", 2))
    await tenant.running("afterwards", 2)


def _now() -> datetime:
    """Return the time in whole seconds, as kubelets write it."""
    return datetime.now(UTC).replace(microsecond=0)


def _run(count: int, pods: list[Json]) -> bool:
    return len(running(pods)) == count


async def _is_not_ready(tenant: Tenant, node: str) -> None:
    async def probe() -> bool:
        found = (await tenant.rest.get(f"/api/v1/nodes/{node}")).ok()
        return any(it["key"] == _UNREACHABLE for it in found["spec"].get("taints", []))

    await eventually(probe, f"{node} to be unreachable", 180)


def _running_on(pods: list[Json], node: str) -> list[Json]:
    return [
        it
        for it in running(pods)
        if "deletionTimestamp" not in it["metadata"] and it["spec"]["nodeName"] == node
    ]


def _budget(name: str, available: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {
            "minAvailable": available,
            "selector": {"matchLabels": {"batch.kubernetes.io/job-name": name}},
        },
    }
