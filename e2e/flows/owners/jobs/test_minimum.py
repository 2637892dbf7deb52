"""The minCount of groups through their Jobs' life cycle: no gang waits for impossible pods.

And an owner that grows starts no part of the added pods. `lost` pods failed without being counted
by their Job, as after the loss of a node: the Job replaces them at once.
"""

import pytest

from api.constants import ANNOTATION_GROUP_TEMPLATE, SCHEDULER_NAME
from e2e.flows.owners.jobs.queries import change, items, min_count_is, names, wait_for_objects
from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    WORKLOADS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod,
    replicated_job,
)
from kube.client.patch import PatchBuilder
from kube.client.resources import CONFIG_MAPS, JOBS, JOBSETS, PODS

LOST = "test.muster.dev/lost"
_INDEX = "batch.kubernetes.io/job-completion-index"
_ROLE = "jobset.sigs.k8s.io/replicatedjob-name"


def indexed(made: Json) -> Json:
    """Return the Job, or the template of one, with indexes and with pods that may be lost."""
    patterns = [{"type": LOST, "status": "True"}]
    made["spec"] |= {
        "completionMode": "Indexed",
        "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": patterns}]},
    }
    return made


def role(env: Environment, name: str, *, replicas: int = 1, pods: int = 1) -> Json:
    made = replicated_job(name, env.name, replicas=replicas, pods=pods)
    indexed(made["template"])
    return made


def of_role(name: str, job_index: int = 0) -> str:
    return f"{of_jobset('a')},{_ROLE}={name},jobset.sigs.k8s.io/job-index={job_index}"


def at(selector: str, index: int) -> str:
    return f"{selector},{_INDEX}={index}"


async def lose(env: Environment, selector: str) -> None:
    """Lose the one running pod, and wait for its replacement."""
    (found,) = [it for it in await env.pods(selector) if it["status"].get("phase") == "Running"]
    conditions = [*found["status"].get("conditions", []), {"type": LOST, "status": "True"}]
    ops = PatchBuilder().add("/status/conditions", conditions)
    name = found["metadata"]["name"]
    await env.client.patch(PODS, name, ops, env.name, subresource="status")
    assert await env.cluster.finish_pods(env.name, selector, "Failed") == 1

    async def replaced() -> bool:
        uids = {it["metadata"]["uid"]: it["status"].get("phase") for it in await env.pods(selector)}
        return uids.pop(found["metadata"]["uid"], "Failed") == "Failed" and bool(uids)

    await env.until(f"another pod than {name}", replaced)


async def succeed(env: Environment, selector: str, count: int, *, cleaned: bool) -> None:
    """Let that many running pods succeed; `cleaned` deletes them, as a cleaner does."""
    assert await env.cluster.finish_pods(env.name, selector) == count

    async def ended() -> bool:
        found = [it["status"].get("phase") for it in await env.pods(selector)]
        return found.count("Succeeded") == count

    await env.until(f"{count} pods of {selector} to succeed", ended)
    if not cleaned:
        return
    for found in await env.pods(selector):
        if found["status"].get("phase") == "Succeeded":
            await env.delete(PODS, found["metadata"]["name"])
    await env.has_pods(selector, 0)


async def is_done(env: Environment, name: str) -> None:
    async def probe() -> bool:
        status = (await env.client.get(JOBS, name, env.name)).get("status", {})
        ended = {it["type"] for it in status.get("conditions") or [] if it["status"] == "True"}
        return bool(ended & {"Complete", "Failed"})

    await env.until(f"Job {name} to end", probe)


# Pods that cannot be created any more.


@pytest.mark.long
async def test_an_index_that_is_given_up(env: Environment) -> None:
    await env.add_node(cpu=3)
    made = indexed(job("t", env.name, pods=3))
    del made["spec"]["backoffLimit"]
    made["spec"]["backoffLimitPerIndex"] = 0
    await env.create(JOBS, made)
    await env.runs(of_job("t"), 3)
    await env.cluster.finish_pods(env.name, at(of_job("t"), 0), "Failed")
    await env.runs(of_job("t"), 2)

    await lose(env, at(of_job("t"), 1))

    await min_count_is(env, "pg-job-t", 2)
    await env.runs(of_job("t"), 2)
    await env.cluster.finish_pods(env.name, of_job("t"))
    await is_done(env, "t")


@pytest.mark.long
async def test_succeeded_pods_that_are_deleted(env: Environment) -> None:
    await env.add_node(cpu=3)
    await env.create(JOBS, indexed(job("t", env.name, pods=3)))
    await env.runs(of_job("t"), 3)
    await succeed(env, at(of_job("t"), 0), 1, cleaned=True)

    await lose(env, at(of_job("t"), 1))

    await env.runs(of_job("t"), 2)
    await min_count_is(env, "pg-job-t", 2)
    await env.cluster.finish_pods(env.name, of_job("t"))
    await is_done(env, "t")


@pytest.mark.long
async def test_succeeded_pods_that_stay_count(env: Environment) -> None:
    await env.add_node(cpu=3)
    await env.create(JOBS, indexed(job("t", env.name, pods=3)))
    await env.runs(of_job("t"), 3)
    await succeed(env, at(of_job("t"), 0), 1, cleaned=False)

    await lose(env, at(of_job("t"), 1))

    await env.runs(of_job("t"), 2)
    await min_count_is(env, "pg-job-t", 3)
    await env.cluster.finish_pods(env.name, of_job("t"))
    await is_done(env, "t")


@pytest.mark.long
async def test_a_user_s_template_asks_for_what_was_cleaned_up(env: Environment) -> None:
    await env.add_node(cpu=3)
    template = {"name": "mine", "schedulingPolicy": {"gang": {"minCount": 3}}}
    spec = {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "t"},
        "podGroupTemplates": [template],
    }
    theirs = {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "metadata": {"name": "w"}}
    await env.create(WORKLOADS, theirs | {"spec": spec})
    await env.create(JOBS, indexed(job("t", env.name, pods=3)))
    await env.runs(of_job("t"), 3)
    await succeed(env, at(of_job("t"), 0), 1, cleaned=True)

    await lose(env, at(of_job("t"), 1))

    await env.runs(of_job("t"), 2)
    await env.delete(WORKLOADS, "w")


@pytest.mark.parametrize("mode", ["Gang", pytest.param("Composite", marks=pytest.mark.long)])
async def test_a_replicated_job_that_is_done_and_cleaned_up(env: Environment, mode: str) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBSETS, jobset("a", role(env, "v"), role(env, "w", pods=2), mode=mode))
    await env.runs(of_jobset("a"), 3)
    await succeed(env, of_role("v"), 1, cleaned=True)

    await lose(env, at(of_role("w"), 1))

    await env.runs(of_role("w"), 2)
    if mode == "Composite":
        await wait_for_objects(env, COMPOSITE_POD_GROUPS, "cpg-a", "cpg-a-w-28a83eb478")
        await wait_for_objects(env, POD_GROUPS, "pg-a-w-0")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["Gang", "Composite"])
async def test_all_come_again_after_a_restart(env: Environment, mode: str) -> None:
    """One of three pods finished and was cleaned up: the second attempt needs space for three."""
    await env.add_node(cpu=2)
    spare = await env.add_node(cpu=1)
    made = jobset("a", role(env, "v"), role(env, "w", pods=2), mode=mode)
    made["spec"]["failurePolicy"] = {"maxRestarts": 1}
    await env.create(JOBSETS, made)
    await env.runs(of_jobset("a"), 3)
    await succeed(env, of_role("v"), 1, cleaned=True)
    await lose(env, at(of_role("w"), 1))
    await env.runs(of_role("w"), 2)
    where = {it["spec"]["nodeName"] for it in await env.pods(of_role("w"))}

    async with env.followed() as pods:
        if spare not in where:
            await env.remove_node(spare)
        await env.cluster.finish_pods(env.name, at(of_role("w"), 0), "Failed")
        again = f"{of_jobset('a')},jobset.sigs.k8s.io/restart-attempt=1"
        if spare not in where:
            await env.has_pods(again, 3)
            await env.waits("pg-a" if mode == "Gang" else "pg-a-v-0")
            seen = [it.raw for it in pods.values()]
            second = [it for it in seen if it["metadata"]["labels"].get(
                "jobset.sigs.k8s.io/restart-attempt") == "1"]  # fmt: skip
            assert not [it for it in second if it["spec"].get("nodeName")]
            await env.add_node(cpu=1)
        await env.runs(again, 3)


@pytest.mark.long
@pytest.mark.parametrize("size", ["replicas", "parallelism"])
@pytest.mark.parametrize("mode", ["Gang", "Composite", "own Gang", "own ReplicatedGang"])
async def test_a_replicated_job_without_pods(env: Environment, mode: str, size: str) -> None:
    await env.add_node(cpu=2)
    own = mode.removeprefix("own ") if mode.startswith("own ") else None
    empty = replicated_job("v", env.name, replicas=1, pods=1, mode=own)
    if size == "replicas":
        empty["replicas"] = 0
    else:
        empty["template"]["spec"]["parallelism"] = 0
    some = replicated_job("w", env.name, replicas=1, pods=2, mode=own)
    await env.create(JOBSETS, jobset("a", empty, some, mode=None if own else mode))

    await env.runs(of_jobset("a"), 2)

    groups = {"Gang": "pg-a", "own Gang": "pg-a-w-0a7be96f2b"}.get(mode, "pg-a-w-0")
    assert await names(env, POD_GROUPS) == [groups]


@pytest.mark.long
async def test_a_job_of_parallelism_zero(env: Environment) -> None:
    await env.add_node(cpu=2)
    made = job("t", env.name, pods=2)
    del made["spec"]["completions"]
    await env.create(JOBS, made)
    await env.runs(of_job("t"), 2)
    await change(env, JOBS, "t", parallelism=0)
    await wait_for_objects(env, POD_GROUPS)

    await change(env, JOBS, "t", parallelism=2)
    await env.runs(of_job("t"), 2)


@pytest.mark.long
async def test_a_work_queue_that_makes_no_more(env: Environment) -> None:
    """One of four succeeded and was deleted, one was lost, and the Job does not replace it."""
    await env.add_node(cpu=4)
    made = job("t", env.name, pods=4)
    del made["spec"]["completions"]
    await env.create(JOBS, made)
    await env.runs(of_job("t"), 4)
    first = (await env.pods(of_job("t")))[0]["metadata"]["name"]
    ops = PatchBuilder().add("/metadata/labels/first", "yes")
    await env.client.patch(PODS, first, ops, env.name)
    await succeed(env, "first=yes", 1, cleaned=True)

    await min_count_is(env, "pg-job-t", 3)
    await env.cluster.finish_pods(env.name, of_job("t"))
    await is_done(env, "t")


@pytest.mark.long
async def test_a_delegated_job_follows_its_template(env: Environment) -> None:
    await env.add_node(cpu=3)
    owner = await env.create(CONFIG_MAPS, {"metadata": {"name": "run"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}
    spec: Json = {"controllerRef": {"kind": "ConfigMap", "name": "run"}}
    spec["podGroupTemplates"] = [template]
    theirs = {"apiVersion": WORKLOADS.api_version, "kind": "Workload", "metadata": {"name": "w"}}
    await env.create(WORKLOADS, theirs | {"spec": spec})
    made = job("t", env.name, pods=3, mode=None)
    made["metadata"] |= {
        "annotations": {ANNOTATION_GROUP_TEMPLATE: "workers"},
        "ownerReferences": [reference],
    }
    made["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER_NAME
    await env.create(JOBS, made)
    await env.runs(of_job("t"), 3)

    for count in (3, 2):
        path = "/spec/podGroupTemplates/0/schedulingPolicy/gang/minCount"
        ops = PatchBuilder().replace(path, count)
        await env.client.patch(WORKLOADS, "w", ops, env.name)
        await min_count_is(env, "pg-job-t", count)

    await env.delete(CONFIG_MAPS, "run")
    await env.delete(WORKLOADS, "w")
    await env.empty()


# Growing.


def growing(name: str, env: Environment, pods: int) -> Json:
    made = job(name, env.name, pods=pods)
    del made["spec"]["completions"]
    return made


async def grow(env: Environment, name: str, pods: int) -> None:
    await change(env, JOBS, name, parallelism=pods)


@pytest.mark.parametrize(
    ("before", "after", "room"),
    [
        (2, 6, 5),
        pytest.param(4, 8, 7, marks=pytest.mark.long),
        pytest.param(1, 4, 3, marks=pytest.mark.long),
    ],
)
async def test_a_job_that_grows_starts_no_part_of_it(
    env: Environment, before: int, after: int, room: int
) -> None:
    await env.add_node(cpu=room)
    await env.create(JOBS, growing("t", env, before))
    await env.runs(of_job("t"), before)

    async with env.followed() as pods:
        most = 0

        def count(_old: object, _new: object) -> None:
            nonlocal most
            bound = sum(bool(it.raw["spec"].get("nodeName")) for it in pods.values())
            most = max(most, bound)

        pods.subscribe(count)
        await grow(env, "t", after)
        await env.has_pods(of_job("t"), after)
        await min_count_is(env, "pg-job-t", after)
        await env.waits("pg-job-t", needed=after - before, free=room - before)
        assert most == before
    await env.add_node(cpu=after - room)
    await env.runs(of_job("t"), after)


@pytest.mark.long
async def test_two_jobs_that_grow_at_once(env: Environment) -> None:
    """Each fits alone with its added pods, but not both: one grows, the other one keeps two."""
    await env.add_node(cpu=8)
    for name in ("s", "t"):
        await env.create(JOBS, growing(name, env, 2))
        await env.runs(of_job(name), 2)

    for name in ("s", "t"):
        await grow(env, name, 6)
    for name in ("s", "t"):
        await env.has_pods(of_job(name), 6)
        await min_count_is(env, f"pg-job-{name}", 6)

    async def one_grew() -> bool:
        return sorted([await env.bound(of_job("s")), await env.bound(of_job("t"))]) == [2, 6]

    await env.until("one of them to grow", one_grew)
    await env.add_node(cpu=4)
    await env.runs("", 12)


@pytest.mark.long
async def test_a_job_that_grows_while_its_first_pods_wait(env: Environment) -> None:
    await env.add_node(cpu=1)
    await env.create(JOBS, growing("t", env, 2))
    await env.waits("pg-job-t")
    await grow(env, "t", 4)
    await min_count_is(env, "pg-job-t", 4)

    await env.add_node(cpu=2)
    await env.waits("pg-job-t", needed=4, free=3)
    assert await env.bound(of_job("t")) == 0
    await env.add_node(cpu=1)
    await env.runs(of_job("t"), 4)


@pytest.mark.long
async def test_a_job_that_shrinks_while_what_it_added_waits(env: Environment) -> None:
    await env.add_node(cpu=5)
    await env.create(JOBS, growing("t", env, 2))
    await env.runs(of_job("t"), 2)
    await grow(env, "t", 6)
    await env.waits("pg-job-t", needed=4, free=3)

    await grow(env, "t", 4)

    await env.runs(of_job("t"), 4)
    await min_count_is(env, "pg-job-t", 4)


@pytest.mark.long
async def test_pods_of_a_job_that_grew_wait_while_the_controller_is_down(env: Environment) -> None:
    await env.add_node(cpu=6)
    made = indexed(job("t", env.name, pods=2))
    await env.create(JOBS, made)
    await env.runs(of_job("t"), 2)
    env.muster.kill(CONTROLLER)

    await change(env, JOBS, "t", parallelism=6, completions=6)
    await env.has_pods(of_job("t"), 6)

    async def told() -> bool:
        said = [
            condition["message"]
            for it in await env.pods(of_job("t"))
            for condition in it["status"].get("conditions") or []
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]
        return len([it for it in said if "grows with its owner" in it]) == 4

    await env.until("the new pods to say that they wait", told)
    assert await env.bound(of_job("t")) == 2
    # They use neither capacity nor the slot of a lost pod, whose replacement waits with them.
    await env.create(PODS, pod("other", env.name))
    await env.runs("", 3)
    await lose(env, at(of_job("t"), 0))
    await env.runs("", 2)
    assert await env.bound(of_job("t")) <= 2, "the lost one and the one that runs"

    await env.delete(PODS, "other")
    await env.muster.start(CONTROLLER)
    await env.runs(of_job("t"), 6)


@pytest.mark.long
async def test_a_user_s_extra_pods_are_no_growth(env: Environment) -> None:
    await env.add_node(cpu=4)
    await env.create(JOBS, growing("t", env, 2))
    await env.runs(of_job("t"), 2)
    for number in range(2):
        await env.create(PODS, pod(f"extra-{number}", env.name, group="pg-job-t"))

    await env.runs("", 4)
    assert len(await items(env, POD_GROUPS)) == 1
