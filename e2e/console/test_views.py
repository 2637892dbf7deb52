"""The content of every view, each at a URL that can be shared."""

import pytest
from playwright.async_api import Browser

from e2e.console.clusters import BLOCK, ago
from e2e.console.examples import GANG, small
from e2e.console.fake import served
from e2e.console.page import address, shown

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_map_says_how_full_domains_are_and_what_fits(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/")
        await view.see("120 pods in block-1")

        text = await view.text()
        totals = fake.contents.map()["domains"]
        free = [f"{one['free'] // 1000:,}" for one in totals]
        assert "48 nodes, 1,600 of 3,072 used (52 %), 1,472 free." in text
        assert "62 pods in b1-rack-2" in text
        rows = await view.page.locator("section[aria-label=Domains] tbody tr").all_inner_texts()
        assert [row.split()[0] for row in rows] == ["block-1", "block-2"]
        assert [row.split()[-2] for row in rows] == free


@pytest.mark.long
async def test_a_domain_a_node_and_another_resource_are_in_the_address(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/map?resource=memory&domain=block-2/b2-rack-3&node=node-2-3-1")
        await view.see("256 GiB of 512 GiB memory used")

        assert "block block-2 › rack b2-rack-3" in await view.text("section[aria-label=Node]")
        nodes = await view.page.locator("section[aria-label=Nodes] tbody tr").count()
        assert nodes == 8
        await view.page.get_by_label("Resource").select_option("nvidia.com/gpu")
        await view.see("4 of 8 nvidia.com/gpu used")
        assert "resource=nvidia.com%2Fgpu" in view.page.url
        assert "node=node-2-3-1" in view.page.url


async def test_a_view_that_the_user_may_not_see_is_not_offered(browser: Browser) -> None:
    """A user without a right to nodes has no map: the queue comes first."""
    async with served(small()) as fake, shown(browser, fake.url) as view:
        fake.views = ["queue", "workloads", "history"]
        await view.open("/")
        await view.see("Live", ".link-state")

        links = await view.page.locator("nav a").all_inner_texts()
        assert links == ["Queue", "Workloads", "History"]
        assert await view.page.title() == "Queue – Muster"
        await view.page.goto(f"{fake.url}/map")
        await view.see("There is no page at this address.")


@pytest.mark.long
async def test_the_map_is_gone_over_with_the_keyboard(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/map")
        await view.page.get_by_role("application").focus()
        await view.page.keyboard.press("ArrowRight")
        await view.see("node-1-1-1", "section[aria-label=Node]")
        await view.page.keyboard.press("ArrowRight")
        await view.see("node-1-1-2", "section[aria-label=Node]")

        assert "64 of 64 used, 0 free, 8 pods" in await view.text("[aria-live=polite]")
        await view.page.keyboard.press("Escape")
        await view.page.locator("section[aria-label=Node]").wait_for(state="detached")


@pytest.mark.long
async def test_a_chosen_workload_is_highlighted_where_its_pods_run(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/map")
        await view.page.get_by_label("Highlight a workload").fill(GANG)
        await view.see("16 pods on 8 nodes")

        assert "workload=research%2FJob%2Fllama-pretrain" in view.page.url


@pytest.mark.long
async def test_a_shape_that_the_server_refuses_is_said(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/map")
        await view.page.get_by_label("One pod requests").fill("eight")
        await view.page.get_by_role("button", name="Show", exact=True).click()

        await view.see("A shape must have the form cpu=1,memory=2Gi, with each resource once.")


async def test_the_queue_is_in_the_scheduler_s_order_with_reasons(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/queue")
        await view.see("5 workloads wait")

        rows = await view.page.locator("tbody tr").all_inner_texts()
        assert [row.split()[1] for row in rows] == [f"train-{n}" for n in range(1, 6)]
        assert "31 Insufficient cpu" in rows[2]
        assert "1 h 25 min" in rows[2]
        assert "18 of 24" in rows[2]
        assert "Waits for 27 more pods" in rows[3]


@pytest.mark.long
async def test_the_queue_s_filters_are_in_its_address(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/queue?reason=Unschedulable")
        await view.see("2 workloads wait")
        await view.page.get_by_label("Namespace").fill("vision")
        await view.see("No waiting workload matches these filters.")

        assert "namespace=vision" in view.page.url
        await view.open("/queue?priorityMin=800")
        await view.see("2 workloads wait")


@pytest.mark.long
async def test_more_of_a_long_queue_is_shown_when_asked_for(browser: Browser) -> None:
    contents = small()
    contents.queue = [
        contents.queue[2] | {"id": f"a/PodGroup/g-{n}", "name": f"g-{n}", "position": n}
        for n in range(1, 451)
    ]
    async with served(contents) as fake, shown(browser, fake.url) as view:
        await view.open("/queue")
        await view.see("450 workloads wait")
        for shown_rows in (400, 450):
            await view.page.get_by_role("button", name="Show more").click()
            await view.until(
                "count => document.querySelectorAll('tbody tr').length === count", shown_rows
            )
        assert await view.page.get_by_role("button", name="Show more").count() == 0


async def test_one_workload_shows_its_tree_its_time_line_and_its_yaml(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open(address(GANG))
        await view.see("12 running, 16 bound of 16 pods, minimum 16")

        pods = await view.page.locator("table.pods tbody tr").all_inner_texts()
        events = await view.page.locator(".timeline strong").all_inner_texts()
        assert len(pods) == 16
        assert sum("Running" in pod for pod in pods) == 12
        assert events == [
            "Created", "Quorum", "Unschedulable", "Unschedulable", "Scheduled", "Started"
        ]  # fmt: skip
        assert "parallelism: 16" in await view.text("pre")
        await view.page.get_by_role("link", name="node-1-1-1").first.click()
        await view.see("node-1-1-1", "section[aria-label=Node]")


@pytest.mark.long
async def test_the_time_line_says_who_preempted_it(browser: Browser) -> None:
    contents = small()
    contents.workloads[GANG]["timeline"].append(
        {
            "at": ago(1),
            "event": "Preempted",
            "sentence": "4 pods preempted by a workload of higher priority",
            "by": "PodGroup research/urgent of priority 9",
        }
    )
    async with served(contents) as fake, shown(browser, fake.url) as view:
        await view.open(address(GANG))
        await view.see("4 pods preempted", ".timeline li.bad")

        said = await view.page.locator(".timeline li.bad").last.inner_text()
        assert said.split("\n")[-1] == "by PodGroup research/urgent of priority 9"


async def test_why_not_on_a_node(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open(address(GANG))
        await view.page.get_by_label("Node", exact=True).fill("node-1-1-3")
        await view.page.get_by_role("button", name="Ask").click()
        await view.see("Insufficient cpu: 8 requested, 2 free")

        await view.open(address(GANG) + "?node=node-1-2-2")
        await view.see("Fits")


async def test_what_if_sends_manifests_and_changes_and_shows_the_answer(browser: Browser) -> None:
    changes = [
        {"addNodes": {"like": "node-1-1-1", "count": 8}},
        {"removeDomain": {"key": BLOCK, "value": "block-2"}},
        {"removeNode": "node-1-1-2"},
        {"evict": GANG},
    ]
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/what-if")
        page = view.page
        await page.get_by_label("Manifests, YAML").fill("kind: Job")
        for kind, values in (
            ("Add nodes", {"How many": "8", "Like the node": "node-1-1-1"}),
            ("Remove a domain", {"Topology key": BLOCK, "Value": "block-2"}),
            ("Remove a node", {"Node": "node-1-1-2"}),
            ("Evict a workload", {"namespace/kind/name": GANG}),
        ):
            await page.get_by_role("combobox").select_option(label=kind)
            for label, value in values.items():
                await page.get_by_label(label, exact=True).fill(value)
            await page.get_by_role("button", name="Add", exact=True).click()
        await page.get_by_role("button", name="Try it").click()
        await view.see("24 pods of 1 workload would be scheduled.")

        assert fake.tried == [{"manifests": "kind: Job", "changes": changes}]
        text = await view.text()
        assert "Add 8 nodes like node-1-1-1" in text
        assert "48 Insufficient cpu" in text
        assert "for research/PodGroup/train-3" in text


async def test_manifests_alone_are_decided_on_the_live_cluster(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/what-if")
        await view.page.get_by_label("Manifests, YAML").fill("kind: Job")
        await view.page.get_by_role("button", name="Try it").click()
        await view.see("24 pods of 1 workload would be scheduled.")

        workloads = [{"manifests": "kind: Job", "objects": []}]
        asked = {"workloads": workloads, "together": False, "namespace": "default"}
        assert fake.tried == [asked]
        text = await view.text()
        assert "24 pods on 1 node" in text
        assert "for research/PodGroup/new" in text
        assert "It fits from 2026-11-30T12:00:00Z, if nothing else changes." in text
        assert "a note" in text


@pytest.mark.long
async def test_the_changes_of_a_what_if_are_in_its_address(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open('/what-if?changes=[{"removeNode":"node-1-1-2"},{"unknown":1},null]')
        await view.see("Remove node node-1-1-2")
        await view.page.get_by_role("button", name="Discard: Remove node node-1-1-2").click()
        await view.until("location.search === ''")
        await view.open("/what-if?changes=[{")
        assert await view.page.get_by_role("button", name="Try it").is_disabled()


@pytest.mark.long
async def test_manifests_are_dropped_as_files(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/what-if")
        await view.run(
            """() => {
              const files = new DataTransfer();
              files.items.add(new File(["kind: Job"], "job.yaml"));
              files.items.add(new File(["kind: Pod"], "pod.yaml"));
              const given = { dataTransfer: files, bubbles: true, cancelable: true };
              document.querySelector("textarea").dispatchEvent(new DragEvent("drop", given));
            }"""
        )
        await view.until(
            "document.querySelector('textarea').value === 'kind: Job\\n---\\nkind: Pod'"
        )


@pytest.mark.long
async def test_history_is_plotted_and_told_in_numbers(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/history")
        await view.page.locator(".plot canvas").nth(3).wait_for()
        await view.page.locator("summary", has_text="The same in numbers").click()

        labels = [
            await plot.get_attribute("aria-label")
            for plot in await view.page.locator(".plot").all()
        ]
        last = fake.contents.history["utilisation"]["block-1"][-1]
        assert (
            labels[0]
            == f"Waiting over time. Now waiting workloads: {fake.contents.history['waiting'][-1]}"
        )
        assert f"block-1: {last * 100:.0f} %" in str(labels[3])
        assert await view.page.locator("details tbody tr").count() == 60


@pytest.mark.long
async def test_an_address_without_a_view_says_so(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.page.goto(fake.url + "/nothing")
        await view.see("There is no page at this address.")
        await view.open(address("research/Job/nothing"))
        await view.see("The workload was not found, or you do not have access to it.")


@pytest.mark.long
async def test_back_leads_to_the_view_before(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/queue")
        await view.page.get_by_role("link", name="History").click()
        await view.page.locator("h1", has_text="History").wait_for()
        assert await view.page.title() == "History – Muster"
        await view.page.go_back()
        await view.page.locator("h1", has_text="Queue").wait_for()
