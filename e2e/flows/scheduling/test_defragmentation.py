"""A gang that agreed is moved so that another fits: asked for by `muster defrag --apply`."""

from api.constants import ANNOTATION_MOVABLE
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members
from e2e.harness.muster import STATUS, Muster
from e2e.harness.objects import jobset, of_jobset, replicated_job
from e2e.harness.support import command
from kube.client.resources import EVENTS, JOBSETS

RACK = "test.muster.dev/rack"


async def runs(env: Environment, name: str, pods: int, *, movable: bool = False) -> None:
    """Let a JobSet of one gang run, whose Job creates evicted pods again."""
    made = jobset(name, replicated_job("w", env.name, replicas=1, pods=pods))
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 9
    if movable:
        made["metadata"]["annotations"][ANNOTATION_MOVABLE] = "true"
    await env.create(JOBSETS, made)
    await env.runs(of_jobset(name), pods)


async def split(env: Environment, *, movable: bool) -> tuple[str, str]:
    """Let two nodes be half full, and a gang wait that needs a complete one; return the nodes."""
    first = await env.add_node(cpu=2, labels={RACK: "r0"})
    await runs(env, "stays", 1)
    await runs(env, "filler", 1)
    second = await env.add_node(cpu=2, labels={RACK: "r1"})
    await runs(env, "moves", 1, movable=movable)
    await env.delete(JOBSETS, "filler")
    await env.has_pods(of_jobset("filler"), 0)
    await leaf(env, "large", 2, key=RACK)
    await env.waits("large", needed=2, free=1)
    return first, second


async def nodes(env: Environment, selector: str) -> set[str]:
    return {pod["spec"].get("nodeName", "") for pod in await env.pods(selector)}


async def test_a_move_that_is_asked_for(env: Environment, muster: Muster) -> None:
    muster.configure(scheduler={"status": STATUS, "defragmentation": {"mode": "OnRequest"}})
    try:
        await muster.restart("scheduler")
        first, second = await split(env, movable=True)

        ended = await command.muster(
            env.cluster.kubeconfig, "defrag", "podgroup/large", "-n", env.name, "--apply"
        )
        assert ended.code == 0, ended
        assert f"gain: 2 pods on {second} x2" in ended.output
        assert f"move {env.name}/PodGroup/pg-moves: 1 pod to {first} x1" in ended.output
        await env.runs(members("large"), 2)
        await env.runs(of_jobset("moves"), 1)

        assert await nodes(env, members("large")) == {second}
        assert await nodes(env, of_jobset("moves")) == {first}
        events = (await env.client.list(EVENTS, env.name))["items"]
        assert any(each["reason"] == "Moved" for each in events)
    finally:
        muster.configure()
        await muster.restart("scheduler")


async def test_nothing_moves_that_did_not_agree(env: Environment) -> None:
    await split(env, movable=False)

    ended = await command.muster(env.cluster.kubeconfig, "defrag", "podgroup/large", "-n", env.name)

    assert ended.code == 1, ended
    assert "No gangs are moved: no gang may be moved for it." in ended.output
