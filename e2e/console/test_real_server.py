"""Each view, from the console's own server with a scheduler on the embedded cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import pytest
from playwright.async_api import Browser

from cli.config.config import File
from cli.servers.console_service import settings_of
from console.state.state import Settings
from e2e.console.examples import LONG, SCRIPT, TAG, TURNED
from e2e.console.page import Shown, address, shown
from e2e.console.real import BLOCK, RACK, Stage, staged
from kube.client.resources import NODES
from tests.console.browser import site
from tests.console.cluster_builder import Builder

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]


@asynccontextmanager
async def looking(
    browser: Browser, settings: Settings | None = None
) -> AsyncIterator[tuple[Stage, Shown]]:
    """Open a stage of two blocks of two racks of two nodes of 4 cores, and the page, logged in."""
    async with staged(settings) as stage:
        await stage.nodes(2, 2, 2)
        origin = stage.console.address.rstrip("/")
        async with shown(browser, origin) as view:
            await view.open(stage.console.url.removeprefix(origin))
            await view.see("Live", ".link-state")
            yield stage, view


@pytest.mark.long
async def test_the_key_leaves_the_address_and_the_map_is_shown(browser: Browser) -> None:
    async with looking(browser) as (_stage, view):
        await view.see("8 nodes, 0 of 32 used (0 %), 32 free.")

        assert "key" not in view.page.url
        await view.see("16 pods in b1")
        await view.see("8 pods in b1-r1")
        rows = await view.page.locator("section[aria-label=Domains] tbody tr").all_inner_texts()
        assert [row.split()[0] for row in rows][:2] == ["b1", "b2"]


async def test_a_gang_is_seen_to_wait_and_to_start(browser: Browser) -> None:
    async with looking(browser) as (stage, view):
        await view.open("/queue")
        await view.see("No workload that you can see is waiting.")
        await stage.job_gang("train", 10)
        await view.see("1 workload waits")
        await view.see("8 fit in", "tbody")
        await view.see("8 of 10", "tbody")

        await view.open("/workloads/default/Job/train")
        await view.see("0 running, 0 bound of 10 pods, minimum 10")
        await view.see("kind: Job")
        await view.see("Unschedulable", ".timeline")
        await stage.node("n-1-1-3", "b1", "b1-r1")
        await view.see("10 running, 10 bound of 10 pods")
        assert await view.text(".facts .state") == "Running"
        for event in ("Created", "Unschedulable", "Scheduled", "All started"):
            await view.see(event, ".timeline")

        await view.open("/map?workload=default/Job/train")
        await view.see("10 pods on 3 nodes")
        await view.see("9 nodes, 10 of 36 used (28 %), 26 free.")


@pytest.mark.long
async def test_the_map_follows_nodes_that_are_cordoned_and_that_come(browser: Browser) -> None:
    async with looking(browser) as (stage, view):
        await view.open("/map?node=n-2-2-1")
        await view.see("0 of 4 cpu used", "section[aria-label=Node]")
        node = await stage.client.get(NODES, "n-2-2-1")
        await stage.client.replace(NODES, node | {"spec": {"unschedulable": True}})
        await view.see("Cordoned", "section[aria-label=Node]")
        await view.see("28 free.")

        await stage.node("n-2-2-3", "b2", "b2-r2")
        await view.see("9 nodes, 0 of 36 used (0 %), 32 free.")


@pytest.mark.long
async def test_why_not_on_a_node_is_answered(browser: Browser) -> None:
    async with looking(browser) as (stage, view):
        await stage.job_gang("train", 10)
        await stage.node("tiny", "b1", "b1-r1", "500m")
        await view.open("/workloads/default/PodGroup/train?node=tiny")
        await view.see("Insufficient cpu: 1 requested, 0.5 free", ".reasons")
        await view.see("example.com/rack=b1-r1 has capacity for 8 of the 10 pods", ".reasons")


@pytest.mark.long
async def test_every_view_is_served_and_offered(browser: Browser) -> None:
    async with looking(browser) as (_stage, view):
        links = await view.page.locator("nav a").all_inner_texts()

        assert links == ["Cluster map", "Queue", "Workloads", "What if", "History"]


@pytest.mark.long
async def test_a_gang_that_waits_would_start_with_another_node(browser: Browser) -> None:
    settings = settings_of(File(), (BLOCK, RACK))
    async with looking(browser, settings) as (stage, view):
        await stage.job_gang("train", 10)
        await view.open("/what-if")
        page = view.page
        await page.get_by_role("combobox").select_option(label="Add nodes")
        await page.get_by_label("How many", exact=True).fill("1")
        await page.get_by_label("Like the node", exact=True).fill("n-1-1-1")
        await page.get_by_role("button", name="Add", exact=True).click()
        await page.get_by_role("button", name="Try it").click()
        await view.see("10 pods of 1 workload would be scheduled.")
        await view.open("/map")
        await view.see("8 nodes, 0 of 32 used (0 %), 32 free.")


@pytest.mark.long
async def test_history_begins_when_the_console_does(browser: Browser) -> None:
    async with looking(browser) as (_stage, view):
        await view.open("/history")
        await view.see("The first point comes at")


async def test_without_the_key_there_is_only_the_login(browser: Browser) -> None:
    async with staged() as stage, shown(browser, stage.console.address.rstrip("/")) as view:
        await view.open("/map")
        await view.see("open the address that", "main")
        await view.page.get_by_label("Token").fill("x")
        await view.page.get_by_role("button", name="Log in").click()
        await view.see("Open the address that `muster console` printed.")


@pytest.mark.long
async def test_names_that_are_hostile_are_text(browser: Browser) -> None:
    cluster = Builder()
    cluster.node(LONG, labels={BLOCK: TAG, RACK: TURNED})
    cluster.use_keys(BLOCK, RACK)
    cluster.gang(TAG, 3, priority=0)
    for number in range(2):
        cluster.pod(TAG, name=f"{SCRIPT}{number}", node=LONG)
    async with site(cluster) as served, shown(browser, f"http://127.0.0.1:{served.port}") as view:
        await view.open(f"/?key={served.viewers.key}")
        await view.see(TAG, "section[aria-label=Domains]")
        for path in ("/queue", "/map?resource=memory", f"/map?node={quote(LONG)}"):
            await view.open(path)
            await view.settled()
        await view.open("/workloads?namespace=ns")
        await view.see(TAG, "tbody")
        await view.page.locator("button.turn").first.click()
        await view.see(f"{SCRIPT}1", ".opened")
        await view.open("/queue")
        await view.see("The group has 2 of 3 pods")
        await view.open(address(f"ns/PodGroup/{TAG}"))
        await view.see(f"{SCRIPT}1")

        assert await view.page.title() == f"{TAG} – Muster"
        assert await view.page.locator("main img").count() == 0


@pytest.mark.long
async def test_5000_nodes_are_shown_and_followed(browser: Browser) -> None:
    cluster = Builder()
    cluster.racks(blocks=20, racks=10, nodes=25)
    cluster.use_keys(BLOCK, RACK)
    async with site(cluster) as served, shown(browser, f"http://127.0.0.1:{served.port}") as view:
        await view.open(f"/?key={served.viewers.key}")
        await view.see("5,000 nodes, 0 of 20,000 used")
        await view.see("Live", ".link-state")
        for number in range(1, 26):
            cluster.pod(node=f"n-7-3-{number}", cpu=4)
        await view.see("5,000 nodes, 100 of 20,000 used")
        await view.open("/map?node=n-7-3-9")
        await view.see("4 of 4 cpu used", "section[aria-label=Node]")


@pytest.mark.long
async def test_a_session_that_ended_leads_to_the_login(browser: Browser) -> None:
    cluster = Builder()
    cluster.racks()
    async with site(cluster) as served, shown(browser, f"http://127.0.0.1:{served.port}") as view:
        await view.open(f"/?key={served.viewers.key}")
        await view.see("Live", ".link-state")
        (secret,) = await _secrets(view)
        served.viewers.log_out(secret)
        await view.open("/queue")
        await view.see("open the address that")


async def _secrets(view: Shown) -> list[str]:
    cookies = await view.page.context.cookies()
    return [cookie["value"] for cookie in cookies]
