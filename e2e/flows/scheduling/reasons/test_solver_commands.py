"""`muster explain`, `tree`, `simulate`, `snapshot`, `replay`, and the scheduler's own snapshot.

All of them agree with the running scheduler about the same cluster.
"""

from pathlib import Path

import aiohttp
import pytest
import yaml

from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members, remove_finalizers
from e2e.harness.muster import SCHEDULER
from e2e.harness.objects import Json, job, jobset, of_jobset, replicated_job
from e2e.harness.support import command
from kube.client.resources import JOBSETS, LIMIT_RANGES
from scheduler.snapshot import snapshot as snapshots
from scheduler.snapshot.snapshot import Decision, Snapshot

HOLD = "test.muster.dev/hold"
SERVICE: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}


async def muster(env: Environment, *arguments: str, code: int = 0) -> str:
    """Return the command's output; fail unless it ends with `code`."""
    ended = await command.muster(env.cluster.kubeconfig, *arguments)
    assert ended.code == code, ended
    return ended.output


async def debug_snapshot(env: Environment) -> bytes:
    """Return the scheduler's own snapshot."""
    url = env.muster.page(SCHEDULER, "/debug/snapshot")
    async with aiohttp.ClientSession(trust_env=False) as session, session.get(url) as answer:
        assert answer.status == 200
        return await answer.read()


def again(data: bytes) -> bytes:
    """Restore a state from a snapshot, and return its new snapshot."""
    snapshot = snapshots.decode(data, "live")
    state, queue = snapshots.restore(snapshot)
    return snapshots.encode(snapshots.take(state, queue, snapshot.limits, snapshot.priorities))


def decision_on(snapshot: Snapshot, env: Environment, name: str) -> Decision:
    (found,) = (it for it in snapshot.decisions if it.root[1:] == (env.name, name))
    return found


def manifest(folder: Path, *documents: Json) -> str:
    file = folder / "manifest.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return str(file)


def of_namespace(env: Environment, folder: Path) -> tuple[str, str]:
    """Return the option for a kubeconfig whose context has the namespace, as kubectl writes it."""
    document = yaml.safe_load(env.cluster.kubeconfig.read_text())
    document["contexts"][0]["context"]["namespace"] = env.name
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return "--kubeconfig", str(file)


async def test_all_commands_agree_with_the_scheduler(
    env: Environment, important: str, tmp_path: Path
) -> None:
    node = await env.add_node(cpu=6)
    await env.create(JOBSETS, jobset("train", replicated_job("w", env.name, replicas=1)))
    await env.runs(of_jobset("train"), 4)
    await env.create(JOBSETS, jobset("late", replicated_job("w", env.name, replicas=1)))
    blocker = await env.waits("pg-late", needed=4, free=2)
    here = ("-n", env.name)

    explained = await muster(env, "explain", "jobset/late", *here)
    assert f"Unschedulable (capacity): {blocker['summary']}" in explained
    context = of_namespace(env, tmp_path)
    assert await muster(env, "explain", "jobset/late", *context) == explained
    running = await muster(env, "explain", "jobset/train", *here)
    assert "4 of 4 pods scheduled" in running
    assert "no pod waits" in running

    tree = await muster(env, "tree", *here)
    assert "PodGroup pg-train: Scheduled, 4 of 4 pods scheduled" in tree
    assert blocker["summary"] in tree

    fits = await muster(env, "simulate", "-f", manifest(tmp_path, job("a", env.name, pods=2)),
                        *here)  # fmt: skip
    assert f"fits: {node} x2" in fits
    large = job("b", env.name, pods=3)
    waits = await muster(env, "simulate", "-f", manifest(tmp_path, large), *here, code=1)
    assert "needs capacity for 3 more pods; 2 fit" in waits
    assert "would preempt" not in waits
    large["spec"]["template"]["spec"]["priorityClassName"] = important
    evicts = await muster(env, "simulate", "-f", manifest(tmp_path, large), *here)
    assert f"fits after preemption: {node} x3" in evicts
    assert "would preempt 1 pod of lower priority:" in evicts

    evicts = await muster(env, "fit", "-f", manifest(tmp_path, large), *here)
    assert f"nodes: {node} x3" in evicts
    assert f"{env.name}/PodGroup/pg-train: 1 pod in 1 unit, priority 0" in evicts

    file = tmp_path / "snapshot.json"
    assert " pending group" in await muster(env, "snapshot", str(file))
    replayed = await muster(env, "replay", str(file))
    assert f"PodGroup {env.name}/pg-late: as recorded" in replayed
    asked = await muster(env, "explain", "podgroup/pg-late", *here, "--snapshot", str(file))
    assert asked == explained

    # The scheduler's own snapshot has the classes as well.
    file.write_bytes(await debug_snapshot(env))
    evicts = await muster(env, "simulate", "-f", manifest(tmp_path, large), *here,
                          "--snapshot", str(file))  # fmt: skip
    assert "would preempt 1 pod of lower priority:" in evicts


async def test_a_simulation_knows_the_limit_ranges_of_the_cluster(
    env: Environment, tmp_path: Path
) -> None:
    await env.add_node(cpu=3)
    asks = job("a", env.name, pods=2)
    for container in asks["spec"]["template"]["spec"]["containers"]:
        container.pop("resources", None)
    file, here = manifest(tmp_path, SERVICE, asks), ("-n", env.name)

    assert "  fits: " in await muster(env, "simulate", "-f", file, *here)

    limits = [{"type": "Container", "defaultRequest": {"cpu": "2"}}]
    limit_range = {"metadata": {"name": "r", "namespace": env.name}, "spec": {"limits": limits}}
    await env.create(LIMIT_RANGES, limit_range)
    lines = await muster(env, "simulate", "-f", file, *here, code=1)

    assert "needs capacity for 2 more pods; 1 fits" in lines
    assert "left out: Service s: " in lines


@pytest.mark.long
async def test_a_snapshot_of_a_live_cluster_is_replayed_bit_for_bit(
    env: Environment, tmp_path: Path
) -> None:
    await env.add_node(cpu=3)
    await env.add_node(cpu=3)
    await leaf(env, "runs", 4)
    await env.runs(members("runs"), 4)
    await leaf(env, "late", 3)
    blocker = await env.waits("late", needed=3, free=2)
    file = tmp_path / "snapshot.json"

    own = await debug_snapshot(env)
    await muster(env, "snapshot", str(file))

    for data in (own, file.read_bytes()):
        taken = snapshots.decode(data, "live")
        decision = decision_on(taken, env, "late")
        assert decision.blocker is not None
        assert decision.blocker.summary == blocker["summary"]
        assert again(data) == data


@pytest.mark.long
async def test_a_snapshot_in_the_middle_of_a_preemption_is_replayed_bit_for_bit(
    env: Environment, important: str, tmp_path: Path
) -> None:
    await env.add_node(cpu=2)
    await leaf(env, "low", 2, mode="all", finalizers=(HOLD,),
               of_pod={"terminationGracePeriodSeconds": 30})  # fmt: skip
    await env.runs(members("low"), 2)
    await leaf(env, "high", 2, priority_class=important,
               of_pod={"priorityClassName": important})  # fmt: skip

    async def victims_leave() -> bool:
        return all("deletionTimestamp" in pod["metadata"] for pod in await low_pods(env))

    await env.until("the victims to terminate", victims_leave)
    data = await debug_snapshot(env)
    await remove_finalizers(env, members("low"))
    await env.runs(members("high"), 2)

    taken = snapshots.decode(data, "live")
    decision = decision_on(taken, env, "high")
    assert [places.root[2] for places in taken.nominations] == ["high"]
    assert decision.nominated is not None
    assert decision.evicts == []
    assert again(data) == data
    file = tmp_path / "snapshot.json"
    file.write_bytes(data)
    assert f"PodGroup {env.name}/high: as recorded" in await muster(env, "replay", str(file))


async def low_pods(env: Environment) -> list[Json]:
    return await env.pods(members("low"))
