"""Our controllers do what the real ones were seen to do (e2e/traces)."""

from typing import Any

import pytest

from tests.localcluster.life.replay import (
    NODE,
    TRACES,
    Conditions,
    Replay,
    differences,
    expected,
    load,
)
from tests.localcluster.life.world import living_cluster

Obj = dict[str, Any]

FLOWS = sorted(path.stem for path in TRACES.glob("*.yaml"))


@pytest.mark.parametrize("flow", FLOWS)
async def test_a_flow_goes_as_it_was_recorded(flow: str) -> None:
    trace = load(flow)
    async with living_cluster() as cluster:
        namespace = {"apiVersion": "v1", "kind": "Namespace"}
        await cluster.create({**namespace, "metadata": {"name": trace["namespace"]}}, "")
        await cluster.life.nodes.add(NODE)
        await cluster.settle()
        replay = Replay(cluster, trace["namespace"])
        conditions = Conditions()
        for number, step in enumerate(trace["steps"]):
            found, want = await replay.step(step), expected(step, conditions)
            where = f"step {number + 1}, {step['action']}: "
            assert list(differences(comparable(found), comparable(want), where)) == []


def comparable(outcome: Obj) -> Obj:
    """The outcome without the order of what happens side by side."""
    return {
        **outcome,
        "created": {f"{one['kind']}/{one['metadata']['name']}": one for one in outcome["created"]},
        "deleted": sorted(outcome["deleted"]),
        "events": sorted(
            f"{one['object']} {one['reason']} {one['message']}" for one in outcome["events"]
        ),
    }
