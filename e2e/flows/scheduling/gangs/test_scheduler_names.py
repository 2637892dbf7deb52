"""Muster under two other scheduler names, one that packs and one that spreads.

The suite has its own Muster and cluster: all processes have to know the names.
"""

from collections.abc import Iterator

import pytest

from api.constants import LABEL_COSCHEDULING
from e2e.harness.clusters.local import Local
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members
from e2e.harness.muster import Muster
from e2e.harness.objects import POD_GROUPS, Json, job, of_job, pod, pod_group
from e2e.harness.running import Started, installed, started
from e2e.harness.settled import settled
from kube.base.errors import Invalid
from kube.client.resources import EVENTS, JOBS, PODS

pytestmark = pytest.mark.long

PACKS, SPREADS, USUAL = "team-pack", "team-spread", "muster-scheduler"
PROFILES = ({"schedulerName": PACKS}, {"schedulerName": SPREADS, "scoring": "spread"})


@pytest.fixture(scope="module")
def cluster(server_kind: str) -> Iterator[Cluster]:
    if server_kind == "existing":
        pytest.skip("another Muster runs there")
    made: Started = ControlPlane(Options()) if server_kind == "real" else Local()
    with started(made):
        yield made


@pytest.fixture(scope="module")
def running_muster(cluster: Cluster) -> Iterator[Muster]:
    with installed(cluster, profiles=PROFILES) as muster:
        yield muster


def of(scheduler: str) -> Json:
    return {"schedulerName": scheduler}


async def nodes_of(env: Environment, selector: str) -> list[str]:
    return sorted(each["spec"]["nodeName"] for each in await env.pods(selector))


async def test_a_job_that_names_no_scheduler_is_packed_and_one_that_names_the_other_is_spread(
    env: Environment,
) -> None:
    for _ in range(4):
        await env.add_node(cpu=8)
    spread = job("spread", env.name, pods=4)
    spread["spec"]["template"]["spec"] |= of(SPREADS)

    await env.create(JOBS, spread)
    await env.runs(of_job("spread"), 4)
    await env.create(JOBS, job("packed", env.name, pods=4))
    await env.runs(of_job("packed"), 4)

    assert len(set(await nodes_of(env, of_job("spread")))) == 4
    assert len(set(await nodes_of(env, of_job("packed")))) == 1
    given = {p["spec"]["schedulerName"] for p in await env.pods(of_job("packed"))}
    assert given == {PACKS}
    await env.scheduled("pg-job-packed")


async def test_pods_of_the_usual_name_are_another_schedulers(env: Environment) -> None:
    """They get no node, no status and no group, whichever way they name one."""
    await env.add_node(cpu=4)
    theirs = pod("theirs", env.name, scheduler=USUAL)
    theirs["metadata"]["labels"] = {LABEL_COSCHEDULING: "g"}
    await env.create(PODS, theirs)
    await env.create(PODS, pod("ours", env.name, scheduler=SPREADS))
    await env.runs("", 1)
    await settled(env)

    (found,) = [p for p in await env.pods() if p["metadata"]["name"] == "theirs"]
    assert "nodeName" not in found["spec"]
    assert not found.get("status", {}).get("conditions")
    assert await env.remaining() == {"pods": ["ours", "theirs"]}
    wrong = job("wrong", env.name)
    wrong["spec"]["template"]["spec"] |= of(USUAL)
    with pytest.raises(Invalid, match="need schedulerName team-pack or team-spread"):
        await env.create(JOBS, wrong)


async def test_a_gang_of_two_names_is_not_placed_and_says_so(env: Environment) -> None:
    await env.add_node(cpu=4)
    await leaf(env, "gang", 1, of_pod=of(PACKS))
    await env.runs(members("gang"), 1)
    await env.create(POD_GROUPS, pod_group("mixed", 2))
    for name in (PACKS, SPREADS):
        await env.create(PODS, pod(f"mixed-{name}", env.name, group="mixed", scheduler=name))

    blocker = await env.waits("mixed", kind="invalid")

    assert blocker["summary"] == (
        'The group has pods of schedulerName "team-pack" and "team-spread".'
        " Give all its pods the same schedulerName."
    )
    assert await env.bound(members("mixed")) == 0


async def test_who_waits_is_told_in_the_name_that_it_chose(env: Environment) -> None:
    await env.add_node(cpu=1)
    await leaf(env, "gang", 2, of_pod=of(SPREADS))
    await env.waits("gang", needed=2)

    async def told() -> bool:
        events = (await env.client.list(EVENTS, env.name))["items"]
        said = {(e["involvedObject"]["kind"], e["reportingComponent"]) for e in events}
        return {("Pod", SPREADS), ("PodGroup", SPREADS)} <= said

    await env.until("the gang and its pods to be told", told)
