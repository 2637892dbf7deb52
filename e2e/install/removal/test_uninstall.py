"""`muster uninstall` with running and pending gangs, which continue without any leftovers."""

import asyncio
import os
import secrets
import sys
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_WAITING_FOR,
    DEFAULT_SCHEDULER_NAME,
    GROUP,
    LABEL_POD_GROUP,
    SCHEDULER_NAME,
)
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.controlplane.places import BIN, ROOT
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.objects import (
    POD_GROUPS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod,
    pod_group,
    replicated_job,
)
from e2e.harness.support import manifests
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.install.docs.page import blocks
from e2e.install.docs.reader import DOCS
from e2e.install.removal import inventory, neighbours
from e2e.install.removal.inventory import Inventory
from kube.client.client import Client
from kube.client.resources import JOBS, JOBSETS, MUTATING_WEBHOOKS, NAMESPACES, PODS

pytestmark = pytest.mark.timeout(600)

Object = dict[str, Any]


@pytest.fixture
async def env(cluster: Cluster, muster: Muster, client: Client) -> Environment:
    """The environment, which the flow closes: its kinds are deleted at the end."""
    env = Environment(cluster, muster, client, f"team-{secrets.token_hex(3)}")
    await env.open()
    return env


async def uninstall(env: Environment, *options: str, code: int = 0) -> list[str]:
    """Return the lines of one run, which must end with this code."""
    process = await start(env, *options)
    out, error = await process.communicate()
    assert process.returncode == code, (out.decode(), error.decode())
    return out.decode().splitlines()


async def start(env: Environment, *options: str) -> asyncio.subprocess.Process:
    access = f"--kubeconfig={env.cluster.kubeconfig}"
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-m", "cli", "uninstall", access, *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def submit(env: Environment) -> dict[str, Json]:
    """Create a running gang, and a pending one of every kind; return the running pods by name."""
    room = env.name
    await env.add_node(cpu=3)
    await env.create(JOBS, job("runs", room, pods=2))
    await env.runs(of_job("runs"), 2)
    await env.create(JOBS, job("waits", room, pods=4))
    await env.create(JOBSETS, jobset("set", replicated_job("a", room, replicas=2, pods=2)))
    own = job("own", room, pods=4, mode=None)
    own["spec"]["template"]["metadata"] = {"labels": {LABEL_POD_GROUP: "own"}}
    await env.create(POD_GROUPS, pod_group("own", 4))
    await env.create(JOBS, own)
    await env.create(POD_GROUPS, pod_group("bare", 9))
    await env.create(PODS, pod("bare", room, group="bare"))
    await env.has_pods(of_job("waits"), 4)
    await env.has_pods(of_jobset("set"), 4)
    await env.has_pods(of_job("own"), 4)

    async def told() -> bool:
        waits = await env.client.get(JOBS, "waits", env.name)
        return ANNOTATION_WAITING_FOR in waits["metadata"]["annotations"]

    await env.until("the Job to say what it waits for", told)
    return {it["metadata"]["name"]: it for it in await env.pods(of_job("runs"))}


async def add_what_admins_may_add(rest: Rest, *, whole: bool) -> None:
    objects = neighbours.certificates()
    if whole:
        policies = [it for it in manifests.load() if it["kind"].startswith("ValidatingAdmission")]
        objects += policies
        for folder in ("protection", "console"):
            objects += manifests.load(manifests.MANIFESTS / folder)
    await manifests.create(rest, objects)


async def scheduled_by_default(env: Environment, selector: str, count: int) -> None:
    async def probe() -> bool:
        pods = await env.pods(selector)
        names = [it["spec"]["schedulerName"] for it in pods]
        return names == [DEFAULT_SCHEDULER_NAME] * count

    await env.until(f"{count} pods of {selector} under the default scheduler", probe)


async def given_back(env: Environment, running: dict[str, Json], jobs: dict[str, str]) -> None:
    """Check that running pods continue, pending ones are released, and no Job lost a pod."""
    for name, was in running.items():
        now = await env.client.get(PODS, name, env.name)
        assert (now["metadata"]["uid"], now["status"]["phase"]) == (
            was["metadata"]["uid"],
            "Running",
        )
    for selector in (of_job("waits"), of_jobset("set"), of_job("own")):
        await scheduled_by_default(env, selector, 4)
    now = {it["metadata"]["name"]: it for it in (await env.client.list(JOBS, env.name))["items"]}
    assert now.keys() == jobs.keys()
    assert {name for name in jobs if jobs[name] == now[name]["metadata"]["uid"]} == {"runs", "own"}
    assert not [name for name, it in now.items() if it["status"].get("failed")]
    assert not [name for name, it in now.items() if _marks(it) and name != "runs"]
    assert ANNOTATION_WAITING_FOR not in str(now)


def _marks(job: Json) -> list[str]:
    found = {**(job["metadata"].get("annotations") or {})}
    return [key for key in found if key.startswith(GROUP) and not key.endswith(("-mode", "-scope"))]


@pytest.mark.long
async def test_gangs_are_handed_over_and_nothing_is_left(
    env: Environment, rest: Rest, before: Inventory, server_kind: str
) -> None:
    whole = server_kind == "real"
    running = await submit(env)
    await add_what_admins_may_add(rest, whole=whole)
    jobs = {
        it["metadata"]["name"]: it["metadata"]["uid"]
        for it in (await env.client.list(JOBS, env.name))["items"]
    }
    theirs = {key: obj for key, obj in (await inventory.take(rest)).items() if key[2] == "theirs"}
    assert len(theirs) == len(neighbours.KINDS)

    refused = await uninstall(env, code=1)
    uses = "5 groups, 2 running pods, 13 waiting pods, 4 unfinished Jobs"
    assert f"  {env.name}: {uses}" in refused[1]
    assert await env.client.get(MUTATING_WEBHOOKS, "muster")
    said = await uninstall(env, "--release", "--dry-run")
    assert f"Job {env.name}/waits: recreated for the default scheduler" in "\n".join(said)
    assert await env.client.get(MUTATING_WEBHOOKS, "muster")

    # Killed in the middle of the handoff, and run again.
    process = await start(env, "--release")
    assert process.stdout is not None
    async for line in process.stdout:
        if b"recreated for" in line:
            process.kill()
    await process.wait()
    said = await uninstall(env, "--release")

    await given_back(env, running, jobs)
    now = await inventory.take(rest)
    for key, obj in theirs.items():
        assert now[key] == obj, f"{key} was touched"
    await follow_the_advice(env, said, whole=whole)
    await closed(env)
    await nothing_is_left(rest, before)


@pytest.fixture
def all_kinds_and_kubectl(server_kind: str) -> None:
    """The check for prerequisites, made before `env`: a skipped flow installs nothing."""
    if server_kind == "local" or not (BIN / "kubectl").is_file():
        pytest.skip("kubectl delete -k needs a server of all kinds, and kubectl")


async def test_the_guide_says_the_same_by_kubectl_alone(
    all_kinds_and_kubectl: None, env: Environment, rest: Rest, before: Inventory
) -> None:
    """The flow runs the block of docs/install.md as written, with groups no longer in use."""
    await add_what_admins_may_add(rest, whole=True)
    await env.create(POD_GROUPS, pod_group("lonely", 4))
    assert (await env.group("lonely"))["metadata"]["finalizers"]
    theirs = {key: obj for key, obj in (await inventory.take(rest)).items() if key[2] == "theirs"}
    (block,) = (it for it in blocks(DOCS / "install.md") if it.heading == "By kubectl alone")

    assert await shell(env, block.commands[0].script) == 0

    now = await inventory.take(rest)
    for key, obj in theirs.items():
        assert now[key] == obj, f"{key} was touched"
    await closed(env)
    await nothing_is_left(rest, before)


@pytest.mark.parametrize("suspend", [False, True], ids=["waits", "never started"])
async def test_nobody_can_change_the_scheduler_of_a_job(rest: Rest, suspend: bool) -> None:
    """This is why uninstall recreates a Job: if it becomes possible, there is a better way."""
    path = "/apis/batch/v1/namespaces/default/jobs"
    wanted = job("fixed", "nowhere", mode=None)
    wanted["spec"]["suspend"] = suspend
    wanted["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER_NAME
    (await rest.post(path, wanted)).expect(201)
    pods = 0 if suspend else wanted["spec"]["parallelism"]
    await eventually(lambda: has_pods(rest, "fixed", pods), f"{pods} pods")
    try:
        change = {"spec": {"template": {"spec": {"schedulerName": DEFAULT_SCHEDULER_NAME}}}}
        answer = await rest.patch(f"{path}/fixed", change)

        assert answer.status == 422, answer.text
        assert "field is immutable" in answer.body["message"]
    finally:
        await rest.delete(f"{path}/fixed", {"propagationPolicy": "Background"})
        # Terminating pods would be in the next flow's initial inventory.
        await eventually(lambda: has_pods(rest, "fixed", 0), "no pods")


async def has_pods(rest: Rest, job: str, count: int) -> bool:
    selector = {"labelSelector": of_job(job)}
    found = (await rest.get("/api/v1/namespaces/default/pods", params=selector)).ok()["items"]
    return len(found) == count


async def follow_the_advice(env: Environment, said: list[str], *, whole: bool) -> None:
    """Run the commands printed for the two that could not be released, as written."""
    at = next(number for number, line in enumerate(said) if "could not be handed off" in line)
    advice = dict(zip(said[at + 1 : at + 5 : 2], said[at + 2 : at + 5 : 2], strict=True))
    assert [line.split(":")[0].strip() for line in advice] == [
        f"Job {env.name}/runs",
        f"Pod {env.name}/bare",
    ]
    if not (BIN / "kubectl").is_file():
        return
    for command in advice.values():
        assert await shell(env, f"set -o pipefail; {command}") == 0, command
    await scheduled_by_default(env, of_job("runs"), 2)
    bare = await env.client.get(PODS, "bare", env.name)
    assert bare["spec"]["schedulerName"] == DEFAULT_SCHEDULER_NAME
    if whole:
        await env.add_node(cpu=20)
        await env.runs("", 15)


async def shell(env: Environment, script: str) -> int:
    """Run a script with the built kubectl, from the root of the checkout."""
    path = f"{BIN}:{os.environ['PATH']}"
    settings = os.environ | {"PATH": path, "KUBECONFIG": str(env.cluster.kubeconfig)}
    process = await asyncio.create_subprocess_shell(
        script, env=settings, executable="/bin/bash", cwd=ROOT
    )
    return await process.wait()


async def closed(env: Environment) -> None:
    """Close the environment including its namespace, which is new as well."""
    await env.clear()
    await env.client.delete(NAMESPACES, env.name)


async def nothing_is_left(rest: Rest, before: Inventory) -> None:
    """Wait until exactly the initial kinds and objects exist; roles are unchanged."""
    now: Inventory = {}

    async def same() -> bool:
        nonlocal now
        now = await inventory.take(rest)
        return now.keys() == before.keys() and inventory.roles(now) == inventory.roles(before)

    try:
        await eventually(same, "the cluster to be as before", 60)
    except TimeoutError:
        assert sorted(now.keys() - before.keys()) == []
        assert sorted(before.keys() - now.keys()) == []
        assert inventory.roles(now) == inventory.roles(before)
