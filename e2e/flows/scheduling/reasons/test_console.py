"""The console with the running scheduler: it shows the cluster's state, and writes nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from console.serving.serving import local
from e2e.harness.environment import Environment
from e2e.harness.objects import NODE_LABEL, jobset, of_jobset, replicated_job
from kube.client.client import Client
from kube.client.resources import JOBSETS
from tests.console.browser import Browser, Events

PATIENCE = 90


@pytest.fixture
async def page(env: Environment) -> AsyncIterator[Browser]:
    """A viewer's browser session."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            await Client.connect(env.cluster.kubeconfig, user_agent="muster-console")
        )
        console = await stack.enter_async_context(local(client))
        async with asyncio.timeout(PATIENCE):
            await console.cluster.wait()
        http = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))
        made = Browser(http, int(console.address.rstrip("/").rpartition(":")[2]))
        await made.get(f"/?key={console.url.partition('=')[2]}")
        yield made


async def test_a_gang_waits_and_starts_on_the_console(env: Environment, page: Browser) -> None:
    node = await env.add_node(cpu=6)
    await env.create(JOBSETS, jobset("train", replicated_job("w", env.name, replicas=1)))
    await env.runs(of_jobset("train"), 4)
    async with page.events("views=queue"), asyncio.timeout(PATIENCE):
        await env.create(JOBSETS, jobset("late", replicated_job("w", env.name, replicas=1)))
        blocker = await env.waits("pg-late", needed=4, free=2)
        row = await _row(page, env, blocker["summary"])

    assert (row["kind"], row["name"]) == ("PodGroup", "pg-late")
    assert row["owner"] == {"kind": "JobSet", "name": "late"}
    assert (row["reason"], row["pods"], row["minimum"]) == ("Unschedulable", 4, 4)
    assert row["waitsFor"] == "capacity for 2 more pods"

    train = await asked(page, f"/api/workloads/{env.name}/JobSet/train")
    assert (train["tree"]["state"], train["tree"]["counts"]["running"]) == ("Running", 4)
    assert "kind: JobSet" in train["yaml"]
    assert "managedFields" not in train["yaml"]
    lit = await asked(page, f"/api/map/pods?workload={env.name}/JobSet/train")
    assert lit == [{"node": node, "pods": 4}]
    why = await asked(page, f"/api/workloads/{env.name}/JobSet/late/why?node={node}")
    assert why["fits"]
    found = await asked(page, f"/api/workloads?search={env.name}")
    assert [one["id"] for one in found["items"]] == [
        f"{env.name}/JobSet/late", f"{env.name}/JobSet/train",
    ]  # fmt: skip

    # The row may come from the solver before the scheduler's own result is delivered.
    await _told(page, f"{env.name}/JobSet/late", "Unschedulable")
    async with page.events(f"views=workload:{env.name}/JobSet/late") as events:
        await env.add_node(cpu=2, labels={NODE_LABEL: env.name})
        whole = await _until_running(events)
    assert whole["tree"]["counts"] == {"pods": 4, "bound": 4, "running": 4, "minimum": 4}
    told = {event["event"] for event in whole["timeline"]}
    assert {"Created", "Unschedulable", "Scheduled", "Bound"} <= told


async def asked(page: Browser, path: str) -> Any:
    status, answer = await page.get(path)
    assert status == 200, answer
    return answer


async def _row(page: Browser, env: Environment, sentence: str) -> Any:
    """Return the row of this namespace, once it has the scheduler's message."""
    while True:
        queue = await asked(page, f"/api/queue?namespace={env.name}")
        for row in queue["items"]:
            if row["sentence"] == sentence:
                return row
        await asyncio.sleep(0.1)


async def _told(page: Browser, id_: str, event: str) -> None:
    """Wait until this event is on the workload's timeline."""
    async with asyncio.timeout(PATIENCE):
        while True:
            whole = await asked(page, f"/api/workloads/{id_}")
            if any(each["event"] == event for each in whole["timeline"]):
                return
            await asyncio.sleep(0.1)


async def _until_running(events: Events) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            whole = await events.until("workload")
            running = whole["tree"]["counts"]["running"] == whole["tree"]["counts"]["pods"] == 4
            if running and any(event["event"] == "Scheduled" for event in whole["timeline"]):
                return whole
