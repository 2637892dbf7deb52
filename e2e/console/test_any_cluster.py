"""The page on the cluster of the run, including the real one: every view, and preemptions."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from playwright.async_api import async_playwright

from cli.config.config import File
from cli.servers.console_service import settings_of
from console.following import history
from console.serving.serving import local
from e2e.console.chromium import FLAGS
from e2e.console.page import Shown, address, shown
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members, remove_finalizers
from e2e.harness.objects import POD_GROUPS, jobset, of_jobset, replicated_job
from kube.client.client import Client
from kube.client.resources import JOBSETS

RACK: Final = "test.muster.dev/rack"
HOLD: Final = "test.muster.dev/hold"

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
async def view(
    env: Environment, command: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Shown]:
    """The page of a console with the running scheduler; the browser uses this test's own loop."""
    monkeypatch.setattr(history, "STEP", 1.0)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            await Client.connect(env.cluster.kubeconfig, user_agent="muster-console")
        )
        console = await stack.enter_async_context(local(client, settings_of(File(), (RACK,))))
        await console.cluster.wait()
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=command, args=FLAGS)
        stack.push_async_callback(browser.close)
        origin = console.address.rstrip("/")
        found = await stack.enter_async_context(shown(browser, origin))
        await found.open(console.url.removeprefix(origin))
        await found.see("Live", ".link-state")
        yield found


@pytest.mark.long
async def test_who_preempts_whom_is_seen_as_it_happens(
    env: Environment, important: str, view: Shown
) -> None:
    for _ in range(2):
        await env.add_node(cpu=2, labels={RACK: f"{env.name}-r"})
    low, high = (f"{env.name}/PodGroup/{name}" for name in ("low", "high"))
    by_whom = f"by PodGroup {env.name}/high of priority 1000"
    await leaf(env, "low", 4, key=RACK, mode="all", finalizers=(HOLD,))
    await env.runs(members("low"), 4)
    await view.open(address(low))
    await view.see("4 running, 4 bound of 4 pods")

    of_pod = {"priorityClassName": important}
    await leaf(env, "high", 4, key=RACK, mode="all", priority_class=important, of_pod=of_pod)

    # The page shows the victim's change without a reload.
    await view.see("Preempted", ".timeline")
    await view.see("4 pods preempted by a workload of higher priority", ".timeline")
    await view.see(by_whom, ".timeline")
    await view.see("Evicted", ".tree")

    await view.open(f"/queue?namespace={env.name}")
    await view.see("Eviction in progress", "tbody")
    await view.see("high", "tbody")
    await view.open(address(high))
    await view.see("Nominated", ".timeline")

    await remove_finalizers(env, members("low"))
    await view.see("4 running, 4 bound of 4 pods")
    await view.see("All started", ".timeline")
    await view.open(f"/map?workload={high}")
    await view.see("4 pods on 2 nodes")
    await view.open(address(low))
    await view.see(by_whom, ".timeline")


@pytest.mark.long
async def test_every_view_answers(env: Environment, view: Shown) -> None:
    nodes = [await env.add_node(cpu=2, labels={RACK: f"{env.name}-r"}) for _ in range(2)]
    await env.create(JOBSETS, jobset("train", replicated_job("w", env.name, replicas=1)))
    await env.runs(of_jobset("train"), 4)
    await env.create(JOBSETS, jobset("late", replicated_job("w", env.name, replicas=1)))
    await env.waits("pg-late", needed=4)

    await view.open(f"/map?workload={env.name}/JobSet/train&shape=cpu%3D1")
    await view.see("4 pods on 2 nodes")
    await view.see(f"{env.name}-r", "section[aria-label=Domains]")
    await view.see("one rack", "section[aria-label='Largest gang that fits now']")
    await view.open(f"/map?node={nodes[0]}")
    await view.see("2 of 2 cpu used", "section[aria-label=Node]")

    await view.open(f"/queue?namespace={env.name}&reason=Unschedulable")
    await view.see("1 workload waits")
    await view.see("needs capacity for 4 more pods; 0 fit", "tbody")

    await view.open(address(f"{env.name}/JobSet/train"))
    await view.see("4 running, 4 bound of 4 pods")
    await view.see("kind: JobSet")
    await view.see("All started", ".timeline")
    await view.open(address(f"{env.name}/JobSet/late") + f"?node={nodes[1]}")
    await view.see("Insufficient cpu: 1 requested, 0 free", ".reasons")

    for changes, answer in (
        (
            [{"addNodes": {"like": nodes[0], "count": 2}}],
            "4 pods of 1 workload would be scheduled.",
        ),
        ([{"evict": f"{env.name}/JobSet/train"}], "4 pods of 1 workload would be scheduled."),
        ([{"removeDomain": {"key": RACK, "value": f"{env.name}-r"}}], "would still wait"),
    ):
        await view.open(f"/what-if?changes={quote(json.dumps(changes))}")
        await view.page.get_by_role("button", name="Try it").click()
        await view.see(answer)

    await view.open("/history")
    await view.see("The same in numbers")


@pytest.mark.long
async def test_a_workload_is_listed_from_its_start_to_after_its_end(
    env: Environment, view: Shown
) -> None:
    await env.add_node(cpu=2, labels={RACK: f"{env.name}-r"})
    await view.open(f"/workloads?namespace={env.name}")
    await view.see("No workload matches these filters.")
    await leaf(env, "done", 2)
    await env.runs(members("done"), 2)
    await leaf(env, "waits", 2)

    # The page shows each change without a reload.
    await view.see("1 running, 1 waiting, 0 finished.")
    await view.page.get_by_role("button", name="Groups and pods of PodGroup done").click()
    await view.page.locator(".opened .pods tbody tr").nth(1).wait_for()

    await env.delete_pods(members("done"))
    await env.delete(POD_GROUPS, "done")
    await view.see("1 running, 0 waiting, 1 finished.")
    await view.see("Ended", "tbody")
    await view.open(f"/workloads?namespace={env.name}&status=finished&search=DONE")
    await view.see("ago", "tbody")


@pytest.mark.long
async def test_an_outage_of_the_api_server_is_said_and_over(
    env: Environment, view: Shown, server_kind: str
) -> None:
    if server_kind == "local":
        pytest.skip("the embedded server can only fall silent, which takes minutes to be noticed")
    node = await env.add_node(cpu=2, labels={RACK: f"{env.name}-r"})
    await view.open(f"/map?node={node}")
    await view.see("0 of 2 cpu used", "section[aria-label=Node]")

    await env.cluster.stop_apiserver()
    try:
        await view.see("API server does not respond", ".lost-note")
        await view.see("0 of 2 cpu used", "section[aria-label=Node]")
    finally:
        await env.cluster.start_apiserver()

    await view.see("Live", ".link-state")
    await leaf(env, "later", 2)
    await view.see("2 of 2 cpu used", "section[aria-label=Node]")
