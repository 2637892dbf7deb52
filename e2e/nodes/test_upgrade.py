"""From this version to the last released one and back, by images, while users create gangs."""

import pytest

from e2e.harness.controlplane.places import ROOT
from e2e.harness.support.kubectl import Kubectl
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
        for number, (version, image) in enumerate(
            (
                (Version("released", (), RELEASED), RELEASED_IMAGE),
                (Version("this", (), ROOT), IMAGE),
            )
        ):
            await kubectl("apply", "-k", str(version.base))
            await rolled_out(kubectl)
            images = {
                it["image"] for pod in await pods(kubectl) for it in pod["spec"]["containers"]
            }
            assert images == {image}
            await tenant.apply(job(f"after-{number}", 4))
            await tenant.running(f"after-{number}", 4)

    assert made.created > 10
    assert _containers(await tenant.running("before", 4)) == begun


def _containers(found: list[Json]) -> set[str]:
    return {it["status"]["containerStatuses"][0]["containerID"] for it in found}
