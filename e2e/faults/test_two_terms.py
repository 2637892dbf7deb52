"""A process leads, another one takes over, and it leads again: its first writes are obsolete."""

import pytest

from e2e.harness.environment import Environment
from e2e.harness.muster import SCHEDULER
from e2e.harness.objects import POD_GROUPS, pod, pod_group
from kube.client.resources import LEASES, PODS

pytestmark = [pytest.mark.timeout(300), pytest.mark.unsettled("a second scheduler was killed")]


@pytest.mark.long
async def test_the_reasons_of_pods_are_right_after_two_changes_of_leaders(
    env: Environment,
) -> None:
    """The first process is stopped, as on a suspended machine, and resumes later."""
    muster = env.muster

    async def leads(process: str) -> None:
        async def probe() -> bool:
            lease = await env.client.get(LEASES, "muster-scheduler", "muster-system")
            return f"_{muster.pid(process)}_" in str(lease["spec"].get("holderIdentity"))

        await env.until(f"{process} to lead", probe, 30)

    async def says(name: str, wanted: str) -> None:
        async def probe() -> bool:
            found = await env.client.get(PODS, name, env.name)
            conditions = found["status"].get("conditions", [])
            return [it["reason"] for it in conditions if it["type"] == "PodScheduled"] == [wanted]

        await env.until(f"{name} to say {wanted}", probe, 60)

    muster.add("second", SCHEDULER, muster.kubeconfig(SCHEDULER))
    await muster.start("second")
    await leads(SCHEDULER)
    await env.add_node(cpu=1)
    await env.create(POD_GROUPS, pod_group("g", 2))
    for name in ("p0", "p1"):
        await env.create(PODS, pod(name, env.name, group="g"))
    await says("p0", "Unschedulable")
    with muster.paused(SCHEDULER):
        await leads("second")
        await env.client.delete(PODS, "p1", env.name, grace_seconds=0)
        await says("p0", "CoschedulingNotMeetMinMember")
        muster.kill("second")
    await leads(SCHEDULER)
    await env.create(PODS, pod("p1", env.name, group="g"))

    for name in ("p0", "p1"):
        await says(name, "Unschedulable")
