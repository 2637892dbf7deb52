"""The pod of `helm test`: its account creates groups with dryRun, or the test fails."""

from pathlib import Path

import pytest

from e2e.harness import muster as processes
from e2e.harness.environment import Environment
from e2e.harness.objects import POD_GROUPS
from e2e.harness.support import accounts, kubeconfig
from e2e.harness.support.command import muster
from e2e.harness.support.manifests import create
from e2e.harness.support.rest import Rest
from e2e.install.chart.helm import render

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


async def test_it_passes_while_the_webhook_serves(
    env: Environment, rest: Rest, tmp_path: Path
) -> None:
    """With the rights of its role: a Forbidden would be a finding."""
    objects = render(tmp_path, namespace=env.name)
    ours = {it[0]: obj for it, obj in objects.items() if it[2] == "muster-test"}
    await create(rest, [obj for kind, obj in ours.items() if kind != "Pod"])
    token = await accounts.token(rest, env.name, "muster-test")
    access = tmp_path / "kubeconfig"
    kubeconfig.derive(env.cluster.kubeconfig, access, token)
    (container,) = ours["Pod"]["spec"]["containers"]

    passed = await muster(access, *container["args"])
    env.muster.kill(processes.WEBHOOK)
    try:
        failed = await muster(access, *container["args"])
    finally:
        await env.muster.start(processes.WEBHOOK)

    assert passed.code == 0, passed
    assert failed.code == 3, failed
    assert (await env.client.list(POD_GROUPS, env.name))["items"] == []
