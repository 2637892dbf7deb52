"""Extended resources that only a DeviceClass provides, while Kubernetes' gate for that is off.

It is off by default on 1.34 and 1.35, and can be turned off later. The suite has its own control
plane: elsewhere the gate has its default.
"""

from collections.abc import Iterator

import pytest

from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.places import before
from e2e.harness.devices import CLASSES, SINCE, Devices
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.objects import Json, job, of_job
from e2e.harness.running import installed, started
from kube.client.resources import JOBS

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.since(*SINCE),
    pytest.mark.until("1.37", "the gate cannot be switched off since 1.37"),
]

OFF = "feature gate DRAExtendedResource is off"


@pytest.fixture(scope="module")
def cluster(server_kind: str) -> Iterator[ControlPlane]:
    if server_kind != "real":
        pytest.skip("the gate needs a real control plane: run with --cluster=real")
    made = ControlPlane(Options(feature_gates={"DRAExtendedResource": False}))
    with started(made):
        yield made


@pytest.fixture(scope="module")
def running_muster(cluster: ControlPlane) -> Iterator[Muster]:
    with installed(cluster) as muster:
        yield muster


def requesting(env: Environment, resource: str) -> Json:
    """Return a gang of two whose pods request one each."""
    made = job("train", env.name, pods=2)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    amounts = container.setdefault("resources", {})
    for kind in ("requests", "limits"):
        amounts[kind] = {**amounts.get(kind, {}), resource: "1"}
    return made


async def ended(env: Environment, devices: Devices) -> None:
    """Check that no pod was bound, and that the Job's deletion deletes all claims for its pods."""
    assert await env.bound(of_job("train")) == 0
    await env.delete(JOBS, "train")
    await env.empty()

    async def none() -> bool:
        return not await devices.claims()

    await env.until("all claims to be gone", none)


@pytest.mark.long
async def test_a_resource_that_a_class_may_not_stand_for_is_one_that_no_node_offers(
    env: Environment, devices: Devices
) -> None:
    resource = f"{env.name}.example.com/gpu"
    name = await devices.add_class(resource=resource)
    assert "extendedResourceName" not in (await env.client.get(CLASSES, name))["spec"]
    await devices.publish(await env.add_node(cpu=8), 2)

    await env.create(JOBS, requesting(env, resource))

    blocker = await env.waits("pg-job-train", kind="constraint", needed=2)
    assert f"No node offers {resource}" in blocker["summary"]
    assert await devices.claims() == []
    await env.add_node(cpu=8, resources={resource: "2"})
    await env.runs(of_job("train"), 2)
    assert await devices.claims() == []


@pytest.mark.long
async def test_the_name_of_a_class_gets_no_pod_bound_and_the_gate_is_named_if_it_is_known(
    env: Environment, devices: Devices
) -> None:
    """The gate is on by default from 1.36; the pods' statuses show that it is off."""
    resource = f"deviceclass.resource.kubernetes.io/{await devices.add_class()}"
    await devices.publish(await env.add_node(cpu=8), 2)
    wanted = resource if before("1.36") else OFF

    await env.create(JOBS, requesting(env, resource))

    async def said() -> bool:
        return wanted in (await env.blocker("pg-job-train")).get("summary", "")

    await env.until(f"the group to say {wanted}", said)
    await ended(env, devices)
