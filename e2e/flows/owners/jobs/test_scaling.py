"""A JobSet changes its size at both levels: its groups follow, and running pods are unaffected.

JobSet v0.11.0, on the real control plane, rejects any change of replicatedJobs while a JobSet runs.
The embedded one allows it on request, as planned by JobSet's KEP-463, so these flows have a
separate cluster.
"""

from collections.abc import Iterator, Mapping

import pytest

from e2e.flows.owners.jobs.queries import items, uids
from e2e.harness.clusters.local import Local
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Json,
    jobset,
    of_jobset,
    replicated_job,
)
from e2e.harness.running import installed, started
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBSETS

Minimums = Mapping[str, int]

MODES = ("Gang", "Composite", "own Gang", "own ReplicatedGang")
SIZES = ((3, 2), (3, 3), (1, 3), (1, 1), (2, 2))
FIRST = (2, 2)


# Only the embedded cluster lets a JobSet scale; JobSet itself rejects it.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(server_kind: str) -> Iterator[Local]:
    if server_kind != "local":
        pytest.skip("JobSet v0.11.0 refuses to change replicatedJobs: only the embedded one scales")
    made = Local("--jobset-scaling")
    with started(made):
        yield made


@pytest.fixture(scope="module")
def running_muster(cluster: Local) -> Iterator[Muster]:
    with installed(cluster) as muster:
        yield muster


def sample(env: Environment, mode: str) -> Json:
    replicas, pods = FIRST
    own = mode.removeprefix("own ") if mode.startswith("own ") else None
    worker = replicated_job("w", env.name, replicas=replicas, pods=pods, mode=own)
    # A pod deleted as its Job shrinks counts as failed if the Job grows again before its removal.
    worker["template"]["spec"]["backoffLimit"] = 100
    return jobset("a", worker, mode=None if own else mode)


def expected(mode: str, replicas: int, pods: int) -> tuple[Minimums, Minimums]:
    """Return the minimums of the Workload's templates, and of the groups, as in KEP-1068."""
    each = {f"pg-a-w-{index}": pods for index in range(replicas)}
    if mode == "Composite":
        above = {"cpg-a": 1, "cpg-a-w-28a83eb478": replicas}
        return {"cpg-a": 1, "cpg-w": replicas, "pg-w": pods}, above | each
    if mode == "own ReplicatedGang":
        return {"pg-w": pods}, each
    whole = replicas * pods
    return (
        ({"pg-a": whole},) * 2
        if mode == "Gang"
        else ({"pg-w": whole}, {"pg-a-w-0a7be96f2b": whole})
    )


async def scale(env: Environment, replicas: int, pods: int) -> None:
    role = "/spec/replicatedJobs/0"
    ops = PatchBuilder().replace(f"{role}/replicas", replicas)
    for field in ("parallelism", "completions"):
        ops.replace(f"{role}/template/spec/{field}", pods)
    await env.client.patch(JOBSETS, "a", ops, env.name)


def minimum(said: Json) -> int:
    ((_, count),) = said["schedulingPolicy"]["gang"].items()
    return int(count)


def template_minimums(spec: Json) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind in ("podGroupTemplates", "compositePodGroupTemplates"):
        for template in spec.get(kind, []):
            found |= {template["name"]: minimum(template)} | template_minimums(template)
    return found


async def minimums(env: Environment) -> tuple[Minimums, Minimums]:
    groups = [*await items(env, POD_GROUPS), *await items(env, COMPOSITE_POD_GROUPS)]
    (workload,) = await items(env, WORKLOADS)
    named = {it["metadata"]["name"]: minimum(it["spec"]) for it in groups}
    return template_minimums(workload["spec"]), named


async def is_as_specified(env: Environment, mode: str, replicas: int, pods: int) -> None:
    async def probe() -> bool:
        return await minimums(env) == expected(mode, replicas, pods)

    await env.runs(of_jobset("a"), replicas * pods)
    await env.until(f"the groups of {replicas} Jobs with {pods} pods", probe)
    # Terminating pods must be deleted too, so that none is counted twice.
    await env.has_pods("", replicas * pods)


async def placed(env: Environment) -> dict[str, str]:
    """Return the node of each pod, by its UID."""
    return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in await env.pods()}


@pytest.mark.parametrize("mode", MODES)
async def test_groups_follow_the_size(env: Environment, mode: str) -> None:
    await env.add_node(cpu=9)
    await env.create(JOBSETS, sample(env, mode))
    await is_as_specified(env, mode, *FIRST)
    for size in SIZES:
        pods_before, groups_before = await placed(env), await uids(env)

        await scale(env, *size)
        await is_as_specified(env, mode, *size)

        pods, groups = await placed(env), await uids(env)
        fewer, more = sorted((pods_before, pods), key=len)
        assert fewer.items() <= more.items(), "a pod that could stay was moved or made again"
        kept = groups.keys() & groups_before.keys()
        assert {it: groups[it] for it in kept} == {it: groups_before[it] for it in kept}

    await env.delete(JOBSETS, "a")
    await env.empty()


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_added_waits_and_what_runs_goes_on(env: Environment, mode: str) -> None:
    """One of the two new pods fits: a Job with its own group does not start partially.

    If all Jobs are one group that runs already, one more may join before its minimum increases.
    """
    await env.add_node(cpu=5)
    await env.create(JOBSETS, sample(env, mode))
    await is_as_specified(env, mode, *FIRST)
    before = await placed(env)

    await scale(env, 3, 2)
    shared = {"Gang": "pg-a", "own Gang": "pg-a-w-0a7be96f2b"}.get(mode)
    await env.has_pods(of_jobset("a"), 6)
    await env.waits(shared or "pg-a-w-2")

    now = await placed(env)
    assert before.items() <= now.items()
    assert list(now.values()).count("") in ({1, 2} if shared else {2})

    await env.add_node(cpu=1)
    await is_as_specified(env, mode, 3, 2)
    assert before.items() <= (await placed(env)).items()


@pytest.mark.parametrize("mode", MODES)
async def test_the_last_of_many_sizes_counts(env: Environment, mode: str) -> None:
    """Names are reused while their last objects are still being deleted."""
    await env.add_node(cpu=9)
    await env.create(JOBSETS, sample(env, mode))
    await is_as_specified(env, mode, *FIRST)

    for size in (*SIZES, (1, 1), (3, 3)):
        await scale(env, *size)

    await is_as_specified(env, mode, 3, 3)
