"""The annotation that tells a provisioner the node of a claim's new volume."""

import pytest

from kube.client.resources import PVCS
from tests.scheduler.core.framework.cluster import bound, unbound, using
from tests.scheduler.harness import Harness


@pytest.mark.parametrize("comes", [True, False], ids=["the volume is made", "no volume comes"])
async def test_the_claim_gets_its_selected_node_and_is_bound_before_the_pod(comes: bool) -> None:
    harness = Harness(timeout=20)
    builder = harness.builder
    builder.node("a")
    unbound(builder)
    info = builder.pod(requirements=using("data"))

    async with harness.leading():
        await harness.settle(5)
        before = dict(harness.api.bound)
        if comes:
            bound(builder, "data")
        await harness.settle(16)

    kind, name, ops = harness.api.patches[0]
    assert (kind, name, before) == ("PersistentVolumeClaim", "data", {})
    assert ops[-1] == {
        "op": "add",
        "path": "/metadata/annotations/volume.kubernetes.io~1selected-node",
        "value": "a",
    }
    assert harness.api.bound == ({info.name: "a"} if comes else {})
    assert harness.activity.busy == (not comes)


async def test_a_node_that_a_provisioner_rejects_is_not_waited_for() -> None:
    harness = Harness(timeout=100)
    builder = harness.builder
    builder.node("a")
    unbound(builder)
    info = builder.pod(requirements=using("data"))

    async with harness.leading():
        await harness.settle(2)
        unbound(builder, "a")
        await harness.settle(2)
        waits = harness.activity.busy
        unbound(builder)
        builder.node("a", unschedulable=True)
        builder.node("b")
        await harness.settle(4)

    assert waits
    chosen = [ops[-1]["value"] for kind, _, ops in harness.api.patches if kind == PVCS.kind]
    assert chosen == ["a", "b"]
    assert harness.api.bound == {}
    assert info.name not in harness.api.attempts
