"""The list of workloads: filters, pages, trees that open, and live changes."""

import pytest
from playwright.async_api import Browser

from e2e.console.clusters import listed
from e2e.console.examples import GANG, small
from e2e.console.fake import served
from e2e.console.page import shown

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_what_runs_waits_and_has_finished_is_listed(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/")
        await view.page.get_by_role("link", name="Workloads").click()
        await view.see("2 running, 1 waiting, 1 finished.")

        rows = await view.page.locator(".workloads tbody tr").all_inner_texts()
        assert [row.split()[0] for row in rows] == [
            "llama-pretrain", "train-1", "nightly", "notebook",
        ]  # fmt: skip
        assert "12/16 min 16" in rows[0]
        assert "deleted" in rows[2]
        assert rows[2].endswith("ago")
        assert await view.page.get_by_role("link", name="nightly").count() == 0
        await view.page.get_by_role("link", name="llama-pretrain").click()
        await view.see("12 running, 16 bound of 16 pods")


async def test_a_tree_opens_by_the_keyboard_and_is_labelled(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/workloads")
        turn = view.page.get_by_role("button", name="Groups and pods of Job llama-pretrain")
        await turn.focus()
        await view.page.keyboard.press("Enter")
        await view.see("llama-pretrain-workers-1", ".opened .tree")

        assert await turn.get_attribute("aria-expanded") == "true"
        assert await view.page.locator(".opened .pods").count() > 0
        await view.page.keyboard.press("Space")
        await view.page.locator(".opened").wait_for(state="detached")
        assert await turn.get_attribute("aria-expanded") == "false"


@pytest.mark.long
async def test_filters_are_the_server_s_and_in_the_address(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/workloads?status=finished")
        await view.see("nightly", "tbody")
        assert await view.page.locator(".workloads tbody tr").count() == 1
        await view.page.get_by_label("Status").select_option("any")
        await view.page.get_by_label("Search").fill("train")
        await view.see("1 running, 1 waiting, 0 finished.")
        await view.page.get_by_label("Owner kind").fill("CronJob")
        await view.see("No workload matches these filters.")

        assert "search=train" in view.page.url
        assert "kind=CronJob" in view.page.url


@pytest.mark.long
async def test_a_change_is_shown_and_all_rows_stay(browser: Browser) -> None:
    contents = small()
    contents.listed = [listed(f"a/Job/j-{n:03}", "running", "Running") for n in range(450)]
    async with served(contents) as fake, shown(browser, fake.url) as view:
        await view.open("/workloads")
        await view.see("200 rows of 450")
        for count in (400, 450):
            await view.page.get_by_role("button", name="Show more").click()
            await view.until(
                "count => document.querySelectorAll('tbody tr').length === count", count
            )
        await view.see("Live", ".link-state")

        contents.listed[440] = listed("a/Job/j-440", "finished", "Failed")
        fake.send("workloads", {"at": "2026-11-30T12:00:00Z"})

        await view.see("449 running, 0 waiting, 1 finished.")
        assert await view.page.locator("tbody tr").count() == 450


@pytest.mark.long
async def test_a_workload_that_is_deleted_while_its_tree_is_open_closes(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/workloads")
        await view.see("Live", ".link-state")
        await view.page.locator(".workloads button.turn").first.click()
        await view.page.locator(".opened .tree").wait_for()

        fake.contents.listed[0] = listed(GANG, "finished", "Ended")
        fake.send("workloads", {"at": "2026-11-30T12:00:00Z"})

        await view.page.locator(".opened").wait_for(state="detached")
        await view.see("deleted", "tbody tr")
