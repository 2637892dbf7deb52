"""Properties of every view: safe with hostile names, accessible, fast with 5,000 nodes."""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import pytest
from playwright.async_api import Browser, ViewportSize

from e2e.console.clusters import Contents
from e2e.console.examples import GANG, LONG, OVERRIDE, SCRIPT, TAG, TURNED, hostile, large, small
from e2e.console.fake import served
from e2e.console.page import DESK, PHONE, WALL, Shown, address, shown
from tools.testing.effort import selected

pytestmark = pytest.mark.asyncio(loop_scope="session")

AXE: Final = Path(__file__).parent / "axe" / "axe.min.js"
VIEWS: Final = ("/map", "/queue", "/workloads", address(GANG), "/what-if", "/history")


@pytest.mark.parametrize("dark", selected({"light": False, "dark": True}, ("light",)))
async def test_no_view_breaks_a_rule_of_accessibility(browser: Browser, dark: bool) -> None:
    async with served(small()) as fake, shown(browser, fake.url, dark=dark) as view:
        for path in VIEWS:
            await view.open(path)
            await view.settled()
            await _open_tree(view)
            await view.page.wait_for_timeout(100)
            assert await _violations(view.run) == [], path


@pytest.mark.long
async def test_the_login_breaks_no_rule_of_accessibility(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        fake.logged_in = False
        await view.open("/map")
        assert await _violations(view.run) == []


@pytest.mark.parametrize("size", selected({"phone": PHONE, "desk": DESK, "wall": WALL}, ("phone",)))
@pytest.mark.parametrize("contents", selected({"small": small, "hostile": hostile}, ("hostile",)))
async def test_no_view_is_wider_than_the_screen(
    browser: Browser, contents: Callable[[], Contents], size: ViewportSize
) -> None:
    made = contents()
    workload = address(GANG if made.user != SCRIPT else next(iter(made.workloads)))
    async with served(made) as fake, shown(browser, fake.url, size=size) as view:
        for path in (workload if it == address(GANG) else it for it in VIEWS):
            await view.open(path)
            await view.settled()
            assert await view.run("document.documentElement.scrollWidth") <= size["width"], path


async def test_hostile_names_are_text(browser: Browser) -> None:
    contents = hostile()
    workload = address(next(iter(contents.workloads)))
    async with served(contents) as fake, shown(browser, fake.url) as view:
        for path in (
            "/map?node=" + contents.nodes()[1],
            "/queue",
            "/workloads",
            workload,
            "/history",
        ):
            await view.open(path)
            await view.settled()
            await view.page.wait_for_timeout(200)
            assert await view.run("document.title") != "taken"
            assert (
                await view.run("document.querySelectorAll('img[src=x], main script').length") == 0
            )
            text = await view.run("document.body.textContent")
            assert TAG in text
            assert TURNED in text
            assert LONG in text
            assert not set(OVERRIDE[0] + OVERRIDE[-1]) & set(text)


@pytest.mark.long
async def test_five_thousand_nodes_are_kept_up_to_date_quickly(browser: Browser) -> None:
    """An update of 500 nodes costs less than drawing the map; `-s` shows both in milliseconds."""
    async with served(large()) as fake, shown(browser, fake.url) as view:
        await view.page.add_init_script(_MEASURE)
        await view.open("/map")
        await view.see("5,000 nodes")
        await view.see("Live", ".link-state")
        for turn in range(20):
            names = fake.contents.nodes()[turn::10]
            for name in names:
                fake.contents.full[name] = (turn % 5) / 4
            fake.send("map", _change(fake.contents, names))
            await view.until("count => spent.length >= count", turn + 1)
        await view.page.wait_for_timeout(1500)
        update = median(await view.run("spent"))
        whole = median(await view.run(_REDRAW))

        print(f"an update of 500 nodes: {update:.1f} ms; all drawn again: {whole:.1f} ms")
        assert update < whole
        assert fake.asked.count("/api/map") == 1
        used = sum(one["used"] for one in fake.contents.map()["domains"]) // 1000
        await view.see(f"{used:,} of 320,000 used")


def _change(contents: Contents, names: list[str]) -> dict[str, object]:
    nodes = [contents.node(name) for name in names]
    return {"revision": 2, "nodes": nodes, "domains": contents.totals(names)}


_MEASURE: Final = """
window.spent = [];
const listen = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (name, act) {
  listen.call(this, name, (event) => {
    const start = performance.now();
    act(event);
    if (name === "map") spent.push(performance.now() - start);
  });
};
"""

_REDRAW: Final = """
() => Array.from({ length: 5 }, () => {
  const start = performance.now();
  dispatchEvent(new Event("resize"));
  return performance.now() - start;
})
"""


async def _open_tree(view: Shown) -> None:
    """Open the first workload of the list, if the page shows it."""
    turn = view.page.locator(".workloads button.turn")
    if await turn.count():
        await turn.first.click()
        await view.page.locator(".opened .tree").wait_for()


async def _violations(run: object) -> list[str]:
    """Return axe's violations, each with its rule and the elements that violate it."""
    assert callable(run)
    await run(AXE.read_text())
    found = await run("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
