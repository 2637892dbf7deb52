"""Which of equal gangs is evicted: reported costs, checkpoints, earlier preemptions."""

from datetime import UTC, datetime, timedelta

import pytest

from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_EVICTION_COST,
    ANNOTATION_LAST_CHECKPOINT,
)
from api.eviction import preemptions_of
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, leaf_group, members
from e2e.harness.objects import POD_GROUPS, jobset, of_jobset, replicated_job
from kube.base.clock import rfc3339
from kube.base.errors import Invalid
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import JOBSETS, PODS


async def runs_on_a_node(env: Environment, name: str, *, cost: str = "") -> None:
    """Add a node, and let a JobSet of one gang run that fills it."""
    await env.add_node(cpu=2)
    made = jobset(name, replicated_job("w", env.name, replicas=1, pods=2))
    # Its Job creates evicted pods again.
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 9
    annotations = made["metadata"]["annotations"]
    annotations[ANNOTATION_DISRUPTION_MODE] = "All"
    if cost:
        annotations[ANNOTATION_EVICTION_COST] = cost
    await env.create(JOBSETS, made)
    await env.runs(of_jobset(name), 2)


async def preempts(env: Environment, name: str, important: str) -> None:
    """Let a gang run for which one of the JobSets must be evicted."""
    await leaf(env, name, 2, priority_class=important, of_pod={"priorityClassName": important})
    await env.runs(members(name), 2)


async def times_preempted(env: Environment, name: str) -> int:
    return preemptions_of((await env.group(f"pg-{name}")).get("status") or {})[0]


async def counts(env: Environment, name: str, number: int) -> None:
    async def probe() -> bool:
        return await times_preempted(env, name) == number

    await env.until(f"PodGroup pg-{name} to count {number} preemptions", probe)


async def test_the_gang_with_the_lowest_cost_goes(env: Environment, important: str) -> None:
    for name, cost in (("cheap", "-1"), ("costly", "5"), ("usual", "")):
        await runs_on_a_node(env, name, cost=cost)
    kept = {name: await env.uids(of_jobset(name)) for name in ("costly", "usual")}

    await preempts(env, "high", important)

    assert {name: await env.uids(of_jobset(name)) for name in kept} == kept
    await counts(env, "cheap", 1)
    assert await times_preempted(env, "costly") == 0


@pytest.mark.parametrize("where", ["group", "pod"])
async def test_the_gang_with_the_last_checkpoint_goes(
    env: Environment, important: str, where: str
) -> None:
    for name in ("saved", "younger"):
        await runs_on_a_node(env, name)
    kept = await env.uids(of_jobset("younger"))
    # Later than any start, and no later than a clock may be ahead.
    saved = rfc3339(datetime.now(UTC) + timedelta(seconds=10))
    patch = PatchBuilder().add(
        pointer("metadata", "annotations", ANNOTATION_LAST_CHECKPOINT), saved
    )
    first = (await env.pods(of_jobset("saved")))[0]["metadata"]["name"]

    kind, named = (POD_GROUPS, "pg-saved") if where == "group" else (PODS, first)
    await env.client.patch(kind, named, patch, env.name)
    await preempts(env, "high", important)

    assert await env.uids(of_jobset("younger")) == kept


async def test_a_gang_that_was_preempted_is_not_the_next_victim(
    env: Environment, important: str
) -> None:
    """It restarts, and is the youngest again."""
    names = ("one", "other")
    for name in names:
        await runs_on_a_node(env, name)
    before = {name: await env.uids(of_jobset(name)) for name in names}

    await preempts(env, "first", important)
    (kept,) = [name for name in names if await env.uids(of_jobset(name)) == before[name]]
    (victim,) = set(names) - {kept}
    await counts(env, victim, 1)
    await env.delete_pods(members("first"))
    await env.runs(of_jobset(victim), 2)
    restarted = await env.uids(of_jobset(victim))
    await preempts(env, "second", important)

    assert await env.uids(of_jobset(victim)) == restarted
    await counts(env, kept, 1)
    assert await times_preempted(env, victim) == 1


async def test_admission_rejects_what_is_no_cost_and_no_time(env: Environment) -> None:
    for key, written in ((ANNOTATION_EVICTION_COST, "1.5"), (ANNOTATION_LAST_CHECKPOINT, "now")):
        group = leaf_group("bad", 1, annotations={key: written})
        with pytest.raises(Invalid) as refused:
            await env.create(POD_GROUPS, group)
        assert key in str(refused.value)
