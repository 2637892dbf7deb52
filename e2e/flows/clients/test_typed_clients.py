"""Other controllers create groups by the clients in `clients/`, and wait for them."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio.client import ApiException

from e2e.harness.controlplane import go
from e2e.harness.controlplane.places import ROOT
from e2e.harness.environment import Environment
from e2e.harness.objects import pod
from kube.client.resources import PODS
from muster_client import ObjectMeta, PodGroup, Workload, aio
from muster_client.models import (
    REASON_INCOMPLETE,
    REASON_UNSCHEDULABLE,
    GangSchedulingPolicy,
    PodGroupSpec,
    PodGroupTemplate,
    SchedulingPolicy,
    WorkloadSpec,
)
from tests.clients.python.both import connected

GO = ROOT / "clients" / "go"


@pytest.fixture(params=["sync", "async"])
async def typed(request: pytest.FixtureRequest, env: Environment) -> AsyncIterator[aio.Client]:
    async with connected(request.param, str(env.cluster.kubeconfig)) as client:
        yield client


def gang(env: Environment, name: str, pods: int) -> PodGroup:
    policy = SchedulingPolicy(gang=GangSchedulingPolicy(minCount=pods))
    meta = ObjectMeta(name=name, namespace=env.name)
    return PodGroup(metadata=meta, spec=PodGroupSpec(schedulingPolicy=policy))


async def create_pods(env: Environment, group: str, count: int) -> None:
    for index in range(count):
        await env.create(PODS, pod(f"{group}-{index}", env.name, group=group))


async def test_a_controller_creates_a_group_and_waits_for_it(
    env: Environment, typed: aio.Client
) -> None:
    await env.add_node(cpu=2)
    made = await typed.create(gang(env, "workers", 3))
    assert made.spec.disruptionMode is not None  # the webhook's default

    # A group without its pods is neither placed nor refused.
    refusal = asyncio.create_task(
        typed.wait_until_placed(PodGroup, "workers", env.name, timeout=90)
    )
    await create_pods(env, "workers", 3)
    refused = await refusal
    assert (refused.placed, refused.reason) == (False, REASON_UNSCHEDULABLE)
    assert "Insufficient cpu" in refused.message
    assert refused.group.status.blocker is not None
    assert refused.group.status.blocker.needed == 3

    pending = (REASON_INCOMPLETE, REASON_UNSCHEDULABLE)
    placement = asyncio.create_task(
        typed.wait_until_placed(PodGroup, "workers", env.name, timeout=90, pending=pending)
    )
    lower = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    await typed.patch(PodGroup, "workers", env.name, lower)
    placed = await placement
    assert (placed.placed, placed.reason) == (True, "Scheduled")
    assert [each.metadata.name async for each in typed.list(PodGroup, env.name)] == ["workers"]


async def test_a_controller_sees_its_workload_come_and_go(
    env: Environment, typed: aio.Client
) -> None:
    policy = SchedulingPolicy(gang=GangSchedulingPolicy(minCount=3))
    leaf = PodGroupTemplate(name="workers", schedulingPolicy=policy)
    meta = ObjectMeta(name="training", namespace=env.name, labels={"team": "a"})
    made = await typed.create(Workload(metadata=meta, spec=WorkloadSpec(podGroupTemplates=[leaf])))
    assert made.spec.podGroupTemplates == [leaf]

    events = []
    async for event in typed.watch(Workload, env.name, label_selector="team=a"):
        events.append((event.type, event.object.metadata.uid))
        if event.type == "DELETED":
            break
        await typed.delete(Workload, "training", env.name, uid=made.metadata.uid)

    assert events == [("ADDED", made.metadata.uid), ("DELETED", made.metadata.uid)]
    with pytest.raises(ApiException) as raised:
        await typed.get(Workload, "training", env.name)
    assert raised.value.status == 404


async def test_the_example_of_the_client_s_page_runs(env: Environment) -> None:
    await env.add_node(cpu=4)
    page = (ROOT / "clients" / "python" / "README.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(example.splitlines()) <= 15
    example = example.replace('"default"', f'"{env.name}"')
    loop = asyncio.get_running_loop()

    def pods_of(group: str) -> None:
        asyncio.run_coroutine_threadsafe(create_pods(env, group, 4), loop).result()

    def run(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONFIG", str(env.cluster.kubeconfig))
        names: dict[str, Any] = {"create_pods": pods_of, "print": said.append}
        exec(example + "\nclient.close()\n", names)

    said: list[str] = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        await asyncio.to_thread(run, monkeypatch)

    assert said == ["placed"]


@pytest.mark.long
async def test_the_go_types_read_what_the_api_server_sends(
    env: Environment, tmp_path: Path
) -> None:
    found = go.on_path(go.wanted(GO)) or go.from_package()
    if found is None:
        pytest.skip("there is no Go: run make e2e-modules")
    program = tmp_path / "watch"
    for command in (["test", "./..."], ["build", "-o", str(program), "./examples/watch"]):
        await asyncio.to_thread(
            subprocess.run, [found.command, *command], cwd=GO, env=go.environment(), check=True
        )
    await env.add_node(cpu=2)
    async with connected("async", str(env.cluster.kubeconfig)) as typed:
        await typed.create(gang(env, "workers", 2))
    arguments = (f"-kubeconfig={env.cluster.kubeconfig}", f"-namespace={env.name}")
    watch = await asyncio.create_subprocess_exec(
        program, *arguments, stdout=asyncio.subprocess.PIPE, stderr=sys.stderr
    )
    assert watch.stdout is not None
    try:
        assert (await watch.stdout.readline()).startswith(b"LISTED workers minCount=2 ")
        await create_pods(env, "workers", 2)
        async for line in watch.stdout:
            if line == b"MODIFIED workers minCount=2 Scheduled\n":
                break
        else:
            pytest.fail("the watch ended")
    finally:
        watch.terminate()
        await watch.wait()
