"""`muster explain`, `tree`, `simulate`, `snapshot` and `replay`, and the scheduler's own snapshot.

All of them say what the running scheduler says of the same cluster.
"""

import asyncio
import os
import sys
from pathlib import Path

import aiohttp
import yaml

from e2e.controlplane.places import ROOT
from e2e.muster import SCHEDULER
from e2e.suite.groups import leaf, let_go, members
from e2e.suite.objects import Json, job, jobset, of_jobset, replicated_job
from e2e.suite.stage import Stage
from kube.resources import JOBSETS
from scheduler import snapshot as snapshots
from scheduler.snapshot import Decision, Snapshot

HOLD = "test.muster.dev/hold"


async def muster(stage: Stage, *arguments: str, code: int = 0) -> str:
    """What the command writes; fails with that unless it ends with `code`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "cli",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "KUBECONFIG": str(stage.cluster.kubeconfig)},
    )
    output, _ = await process.communicate()
    text = output.decode()
    assert process.returncode == code, text
    return text


async def debug_snapshot(stage: Stage) -> bytes:
    """The scheduler's own."""
    url = stage.muster.page(SCHEDULER, "/debug/snapshot")
    async with aiohttp.ClientSession(trust_env=False) as session, session.get(url) as answer:
        assert answer.status == 200
        return await answer.read()


def again(data: bytes) -> bytes:
    """The snapshot of a state made from one, its decisions made anew."""
    snapshot = snapshots.decode(data, "live")
    state, queue = snapshots.restore(snapshot)
    return snapshots.encode(snapshots.take(state, queue, snapshot.limits, snapshot.priorities))


def decision_on(snapshot: Snapshot, stage: Stage, name: str) -> Decision:
    (found,) = (it for it in snapshot.decisions if it.root[1:] == (stage.name, name))
    return found


def manifest(folder: Path, *documents: Json) -> str:
    file = folder / "manifest.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return str(file)


async def test_all_ways_to_ask_say_what_the_scheduler_says(
    stage: Stage, important: str, tmp_path: Path
) -> None:
    node = await stage.add_node(cpu=6)
    await stage.create(JOBSETS, jobset("train", replicated_job("w", stage.name, replicas=1)))
    await stage.runs_whole(of_jobset("train"), 4)
    await stage.create(JOBSETS, jobset("late", replicated_job("w", stage.name, replicas=1)))
    blocker = await stage.waits("pg-late", needed=4, free=2)
    here = ("-n", stage.name)

    explained = await muster(stage, "explain", "jobset/late", *here)
    assert f"waits (capacity): {blocker['summary']}" in explained
    running = await muster(stage, "explain", "jobset/train", *here)
    assert "4 of 4 pods placed" in running
    assert "nothing of it waits" in running

    tree = await muster(stage, "tree", *here)
    assert "PodGroup pg-train: Scheduled, 4 of 4 pods placed" in tree
    assert blocker["summary"] in tree

    fits = await muster(stage, "simulate", "-f", manifest(tmp_path, job("a", stage.name, pods=2)),
                        *here)  # fmt: skip
    assert f"fits: {node} x2" in fits
    large = job("b", stage.name, pods=3)
    waits = await muster(stage, "simulate", "-f", manifest(tmp_path, large), *here, code=1)
    assert "needs room for 3 more pods, there is room for 2" in waits
    assert "would evict" not in waits
    large["spec"]["template"]["spec"]["priorityClassName"] = important
    evicts = await muster(stage, "simulate", "-f", manifest(tmp_path, large), *here, code=1)
    assert "would evict pods of lower priority, 1 in all" in evicts

    file = tmp_path / "snapshot.json"
    assert " roots wait" in await muster(stage, "snapshot", str(file))
    replayed = await muster(stage, "replay", str(file))
    assert f"PodGroup {stage.name}/pg-late: as recorded" in replayed
    asked = await muster(stage, "explain", "podgroup/pg-late", *here, "--snapshot", str(file))
    assert asked == explained

    # The scheduler's own knows the classes as well.
    file.write_bytes(await debug_snapshot(stage))
    evicts = await muster(stage, "simulate", "-f", manifest(tmp_path, large), *here,
                          "--snapshot", str(file), code=1)  # fmt: skip
    assert "would evict pods of lower priority, 1 in all" in evicts


async def test_a_snapshot_of_a_live_cluster_is_replayed_bit_for_bit(
    stage: Stage, tmp_path: Path
) -> None:
    await stage.add_node(cpu=3)
    await stage.add_node(cpu=3)
    await leaf(stage, "runs", 4)
    await stage.runs_whole(members("runs"), 4)
    await leaf(stage, "late", 3)
    blocker = await stage.waits("late", needed=3, free=2)
    file = tmp_path / "snapshot.json"

    own = await debug_snapshot(stage)
    await muster(stage, "snapshot", str(file))

    for data in (own, file.read_bytes()):
        taken = snapshots.decode(data, "live")
        decision = decision_on(taken, stage, "late")
        assert decision.blocker is not None
        assert decision.blocker.summary == blocker["summary"]
        assert again(data) == data


async def test_a_snapshot_in_the_middle_of_a_preemption_is_replayed_bit_for_bit(
    stage: Stage, important: str, tmp_path: Path
) -> None:
    await stage.add_node(cpu=2)
    await leaf(stage, "low", 2, mode="all", finalizers=(HOLD,),
               of_pod={"terminationGracePeriodSeconds": 30})  # fmt: skip
    await stage.runs_whole(members("low"), 2)
    await leaf(stage, "high", 2, priority_class=important,
               of_pod={"priorityClassName": important})  # fmt: skip

    async def victims_leave() -> bool:
        return all("deletionTimestamp" in pod["metadata"] for pod in await low_pods(stage))

    await stage.until("the victims to terminate", victims_leave)
    data = await debug_snapshot(stage)
    await let_go(stage, members("low"))
    await stage.runs_whole(members("high"), 2)

    taken = snapshots.decode(data, "live")
    decision = decision_on(taken, stage, "high")
    assert [places.root[2] for places in taken.nominations] == ["high"]
    assert decision.nominated is not None
    assert decision.evicts == []
    assert again(data) == data
    file = tmp_path / "snapshot.json"
    file.write_bytes(data)
    assert f"PodGroup {stage.name}/high: as recorded" in await muster(stage, "replay", str(file))


async def low_pods(stage: Stage) -> list[Json]:
    return await stage.pods(members("low"))
