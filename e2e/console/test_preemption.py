"""A gang is preempted before the viewer's eyes, on the cluster of the run: the real one, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.async_api import async_playwright

from console.serving import Settings, local
from e2e.console.chromium import FLAGS
from e2e.console.page import Shown, address, shown
from e2e.suite.environment import Environment
from e2e.suite.groups import leaf, members, remove_finalizers
from kube.client import Client

RACK = "test.muster.dev/rack"
HOLD = "test.muster.dev/hold"

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
async def view(env: Environment, command: Path) -> AsyncIterator[Shown]:
    """The page of a console beside the scheduler that runs; a browser of this test's own loop."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            await Client.connect(env.cluster.kubeconfig, user_agent="muster-console")
        )
        console = await stack.enter_async_context(local(client, Settings(topology_keys=(RACK,))))
        await console.cluster.wait()
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=command, args=FLAGS)
        stack.push_async_callback(browser.close)
        origin = console.address.rstrip("/")
        found = await stack.enter_async_context(shown(browser, origin))
        await found.open(console.url.removeprefix(origin))
        await found.see("Live", ".link-state")
        yield found


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

    # The page of the victim, without being asked for again.
    await view.see("Preempted", ".timeline")
    await view.see("4 pods evicted to make room for higher priority", ".timeline")
    await view.see(by_whom, ".timeline")
    await view.see("Evicted", ".tree")

    await view.open(f"/queue?namespace={env.name}")
    await view.see("Eviction under way", "tbody")
    await view.see("high", "tbody")
    await view.open(address(high))
    await view.see("Nominated", ".timeline")

    await remove_finalizers(env, members("low"))
    await view.see("4 running, 4 bound of 4 pods")
    await view.see("Whole", ".timeline")
    await view.open(f"/map?workload={high}")
    await view.see("4 pods on 2 nodes")
    await view.open(address(low))
    await view.see(by_whom, ".timeline")
