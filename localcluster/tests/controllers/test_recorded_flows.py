"""Our controllers compared to recordings of the real ones (e2e/kubernetes/controllers)."""

import re
from typing import Any

import pytest

from localcluster.tests.controllers.cluster import simulated_cluster
from localcluster.tests.controllers.replay import (
    NODE,
    TRACES,
    Conditions,
    Replay,
    differences,
    expected,
    load,
)

Obj = dict[str, Any]

# Recorded before the real garbage collector discovered the JobSet CRD, which takes it half a
# minute: it collects nothing in this trace. Our own test of that is in test_jobs_and_jobsets.py.
UNUSABLE = {"jobset-deleted"}
FLOWS = sorted({path.stem for path in TRACES.glob("*.yaml")} - UNUSABLE)


@pytest.mark.parametrize("flow", FLOWS)
async def test_a_flow_goes_as_it_was_recorded(flow: str) -> None:
    trace = load(flow)
    async with simulated_cluster() as cluster:
        namespace = {"apiVersion": "v1", "kind": "Namespace"}
        await cluster.create({**namespace, "metadata": {"name": trace["namespace"]}}, "")
        await cluster.manager.nodes.add(NODE)
        await cluster.settle()
        replay = Replay(cluster, trace["namespace"])
        conditions = Conditions()
        for number, step in enumerate(trace["steps"]):
            found, want = await replay.step(step), expected(step, conditions)
            where = f"step {number + 1}, {step['action']}: "
            assert list(differences(comparable(found), comparable(want), where)) == []


def comparable(outcome: Obj) -> Obj:
    """Return the outcome without the order of concurrent events."""
    refused = outcome.get("refused", {})
    return {
        **outcome,
        # The order of the fields in a quoted value is arbitrary.
        "refused": re.sub(r"Invalid value: \[.*\]", "Invalid value", refused.get("message", "")),
        "created": {f"{one['kind']}/{one['metadata']['name']}": one for one in outcome["created"]},
        "deleted": sorted(outcome["deleted"]),
        "events": sorted(
            f"{one['object']} {one['reason']} {one['message']}" for one in outcome["events"]
        ),
    }
