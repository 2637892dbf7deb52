"""Live updates of the page: changes, disconnection and reconnection, and the end of a session."""

import pytest
from playwright.async_api import Browser

from e2e.console.clusters import Contents, ago, waiting
from e2e.console.examples import GANG, gang, small
from e2e.console.fake import TOKEN, Fake, served
from e2e.console.page import Shown, address, shown

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _looking(fake: Fake, view: Shown, count: int = 1) -> None:
    await view.see("Live", ".link-state")
    while fake.viewers < count:
        await view.page.wait_for_timeout(20)


async def _asked(fake: Fake, view: Shown, path: str) -> None:
    """Wait until the page's request arrives: an earlier event shows only in the response."""
    while path not in fake.asked:
        await view.page.wait_for_timeout(20)


def _send_map(fake: Fake, names: list[str]) -> None:
    contents = fake.contents
    changed = {"revision": 2, "nodes": [contents.node(name) for name in names]}
    fake.send("map", changed | {"domains": contents.totals(names)})


@pytest.mark.long
async def test_a_gang_is_seen_to_start(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open(address(GANG))
        await _looking(fake, view)
        await _asked(fake, view, f"/api{address(GANG)}")
        for running in (13, 15):
            fake.send("workload", gang(GANG, running=running))
            await view.see(f"{running} running, 16 bound of 16 pods")
        fake.send("workload", gang(GANG, running=16))
        await view.see("16 pods started")

        assert await view.text(".facts .state") == "Running"
        assert fake.asked.count(f"/api{address(GANG)}") == 1


@pytest.mark.long
async def test_the_map_shows_what_changed_without_asking_again(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/map?node=node-2-3-4")
        await view.see("0 of 64 cpu used", "section[aria-label=Node]")
        await _looking(fake, view)
        before = await view.run("() => document.querySelector('canvas').toDataURL()")
        fake.contents.full["node-2-3-4"] = 1.0
        _send_map(fake, ["node-2-3-4"])
        await view.see("64 of 64 cpu used", "section[aria-label=Node]")

        assert await view.run("() => document.querySelector('canvas').toDataURL()") != before
        assert "1,664 of 3,072 used" in await view.text()
        assert fake.asked.count("/api/map") == 1


@pytest.mark.long
async def test_a_change_between_the_answer_and_the_stream_is_not_lost(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        fake.released.clear()
        await view.page.goto(fake.url + "/map?node=node-2-3-4")
        await _looking(fake, view)
        await _asked(fake, view, "/api/map")
        for full in (0.5, 1.0):
            fake.contents.full["node-2-3-4"] = full
            _send_map(fake, ["node-2-3-4"])
        await view.page.wait_for_timeout(200)
        fake.released.set()
        await view.see("64 of 64 cpu used", "section[aria-label=Node]")

        assert fake.asked.count("/api/map") == 1


@pytest.mark.long
async def test_without_a_stream_there_are_answers_at_least(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.page.route("**/api/events*", lambda route: route.abort())
        await view.open("/queue")
        await view.see("5 workloads wait")
        await view.see("The connection to the server is lost", "body")


@pytest.mark.long
async def test_a_node_that_the_page_does_not_know_makes_it_ask_anew(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/map")
        await _looking(fake, view)
        fake.contents.blocks = {**fake.contents.blocks, "block-9": {"b9-rack-1": ["node-9"]}}
        _send_map(fake, ["node-9"])
        await view.see("49 nodes")


@pytest.mark.long
async def test_the_queue_follows_what_comes_and_goes(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/queue?namespace=research")
        await view.see("3 workloads wait")
        await _looking(fake, view)
        first, third, fifth = (fake.contents.queue[at] for at in (0, 2, 4))
        moved = [
            third | {"position": 1},
            fifth | {"position": 2, "sentence": "The group has 3 of 4 pods."},
        ]
        elsewhere = waiting(4, "Unschedulable", "not asked for", namespace="vision")
        fake.send("queue", {"changed": [*moved, elsewhere], "gone": [first["id"]], "total": 5})
        await view.see("2 workloads wait")

        rows = await view.page.locator("tbody tr").all_inner_texts()
        assert [row.split()[1] for row in rows] == ["train-3", "train-5"]
        assert "The group has 3 of 4 pods." in rows[1]


@pytest.mark.long
async def test_a_new_step_of_history_is_added(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/history")
        await view.page.locator(".plot canvas").nth(3).wait_for()
        await _looking(fake, view)
        fake.send(
            "history",
            {"at": ago(0), "waiting": 77, "arrivals": 1, "preemptions": 0,
             "utilisation": {"block-1": 0.5, "block-3": 0.25}},
        )  # fmt: skip
        await view.page.locator("[aria-label*='workloads: 77']").wait_for()
        await view.page.locator("[aria-label*='block-3: 25 %']").wait_for()


@pytest.mark.long
async def test_too_slow_a_viewer_asks_anew(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/queue")
        await view.see("5 workloads wait")
        await _looking(fake, view)
        fake.contents.queue.pop()
        fake.send("resync")
        await view.see("4 workloads wait")


async def test_the_loss_and_the_return_of_the_server_are_said(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/queue")
        await view.see("5 workloads wait")
        await _looking(fake, view)
        await fake.stop()
        await view.see("The connection to the server is lost", "body")
        assert "train-1" in await view.text()
        fake.contents.queue.pop()
        await fake.start()
        await view.see("Live", ".link-state")
        await view.see("4 workloads wait")

        assert await view.text(".lost-note") == ""


@pytest.mark.long
async def test_an_api_server_that_does_not_answer_the_console_is_said(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/queue")
        await view.see("5 workloads wait")
        await _looking(fake, view)
        fake.send("cluster", {"current": False})
        await view.see("API server does not respond", ".lost-note")
        await view.see("Out of date", ".link-state")
        assert "train-1" in await view.text()
        fake.send("cluster", {"current": True})
        await view.see("Live", ".link-state")

        assert await view.text(".lost-note") == ""


@pytest.mark.long
async def test_a_session_that_ends_leads_to_the_login_and_back(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        fake.local = False
        await view.open("/queue?reason=Unschedulable")
        await _looking(fake, view)
        fake.logged_in = False
        fake.send("end")
        await view.see("Your session has ended", "body")
        await view.page.get_by_label("Token").fill("wrong")
        await view.page.get_by_role("button", name="Log in").click()
        await view.see("The cluster does not accept this token.", "body")
        await view.page.get_by_label("Token").fill(TOKEN)
        await view.page.get_by_role("button", name="Log in").click()
        await view.see("2 workloads wait")

        await view.page.get_by_role("button", name="Log out").click()
        await view.page.get_by_label("Token").wait_for()
        assert not fake.logged_in


@pytest.mark.long
async def test_an_empty_cluster_is_no_error(browser: Browser) -> None:
    async with served(Contents({})) as fake, shown(browser, fake.url) as view:
        fake.contents.history = {
            "step": 60, "first": ago(-40), "at": [], "waiting": [], "arrivals": [],
            "preemptions": [], "utilisation": {},
        }  # fmt: skip
        await view.open("/map")
        await view.see("There are no nodes that you can see.")
        await view.open("/queue")
        await view.see("No workload that you can see is waiting.")
        await view.open("/workloads")
        await view.see("There is no workload that you can see.")
        await view.open("/history")
        await view.see("The first point comes at")
