"""From this version to the last released one and back, by images, while users create gangs."""

import pytest

from e2e.harness.controlplane.places import ROOT
from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.waiting import eventually
from e2e.install.upgrade.versions import Version
from e2e.nodes.cluster.images import RELEASED_IMAGE
from e2e.nodes.cluster.places import IMAGE, RELEASED
from e2e.nodes.installation import pods, rolled_out
from e2e.nodes.tenant import Json, Tenant, job
from e2e.nodes.test_rolling import load


async def test_gangs_run_through_a_downgrade_and_an_upgrade(
    tenant: Tenant, kubectl: Kubectl
) -> None:
    if not RELEASED.is_dir():
        pytest.skip("this clone does not have the commit of the released version")
    await tenant.apply(job("before", 4))
    begun = _containers(await tenant.running("before", 4))

    async with load(tenant) as made:
        try:
            await _install(kubectl, Version("released", (), RELEASED), RELEASED_IMAGE)
            await _starts(tenant, "downgraded")
        finally:  # the flows after this one use this version
            await _install(kubectl, Version("this", (), ROOT), IMAGE)
        await _starts(tenant, "upgraded")

    assert made.created > 10
    assert _containers(await tenant.running("before", 4)) == begun


async def _install(kubectl: Kubectl, version: Version, image: str) -> None:
    """Apply a version, and wait until the last pod of the other one has terminated."""
    await kubectl("apply", "-k", str(version.base))
    await rolled_out(kubectl)

    async def is_alone() -> bool:
        found = await pods(kubectl)
        return {it["image"] for pod in found for it in pod["spec"]["containers"]} == {image}

    await eventually(is_alone, f"all of Muster's pods to have the image {image}", 120)


async def _starts(tenant: Tenant, name: str) -> None:
    await tenant.apply(job(name, 4))
    await tenant.running(name, 4)


def _containers(found: list[Json]) -> set[str]:
    return {it["status"]["containerStatuses"][0]["containerID"] for it in found}
