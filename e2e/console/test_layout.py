"""The layout of nodes on the map: each once, within its domain, for clusters of any shape."""

import itertools
import random
from typing import Any

import pytest
from playwright.async_api import Browser

from e2e.console.clusters import Contents, Json, blocks
from e2e.console.examples import GANG, small
from e2e.console.fake import served
from e2e.console.page import shown
from tools.testing.effort import seeds

pytestmark = pytest.mark.asyncio(loop_scope="session")

LAYOUT = """async ([roots, width, height, zoom]) => {
  const { layout, slotAt } = await import("/static/js/map/layout.js");
  const plan = layout(roots, width, height, zoom);
  const { w, h } = plan.cell;
  const found = plan.slots.map(({ x, y }) => slotAt(plan, x + w / 2, y + h / 2)?.node.name);
  return { ...plan, found };
}"""

LIT = """() => {
  const canvas = document.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const lit = getComputedStyle(document.documentElement).getPropertyValue("--lit").trim();
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(lit.slice(at, at + 2), 16));
  let count = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) count += 1;
  }
  return count / (data.length / 4);
}"""


def _domain(draw: random.Random, depth: int, path: str) -> Json:
    """Draw a domain of random shape; some have nodes next to their parts, some are empty."""
    parts = draw.randrange(1, 7) if depth else 0
    count = draw.choice((0, 1, 2, 9, 40)) if not depth or draw.random() < 0.3 else 0
    return {
        "id": path,
        "key": str(depth),
        "value": path,
        "free": 0,
        "children": [_domain(draw, depth - 1, f"{path}/{part}") for part in range(parts)],
        "nodes": [{"name": f"{path}#{number}"} for number in range(count)],
    }


def _names(domain: Json) -> list[str]:
    inner = itertools.chain.from_iterable(_names(child) for child in domain["children"])
    return [*(node["name"] for node in domain["nodes"]), *inner]


def _within(inner: Json, outer: Json) -> bool:
    return bool(
        inner["x"] >= outer["x"]
        and inner["y"] >= outer["y"]
        and inner["x"] + inner["w"] <= outer["x"] + outer["w"]
        and inner["y"] + inner["h"] <= outer["y"] + outer["h"]
    )


def _check(plan: Json, roots: list[Json]) -> None:
    slots = [{**slot, **{side: plan["cell"][side] for side in "wh"}} for slot in plan["slots"]]
    names = [slot["node"]["name"] for slot in slots]
    assert sorted(names) == sorted(itertools.chain.from_iterable(map(_names, roots)))
    assert plan["found"] == names
    leaves = [box for box in plan["boxes"] if not box["domain"].get("children")]
    for leaf in leaves:
        inside = slots[leaf["first"] : leaf["last"]]
        assert all(_within(slot, leaf) for slot in inside)
        assert len({(slot["x"], slot["y"]) for slot in inside}) == len(inside)
    for one, other in itertools.combinations(leaves, 2):
        assert (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
    whole = {"x": 0, "y": 0, "w": plan["width"], "h": plan["height"]}
    assert all(_within(box, whole) for box in plan["boxes"])


@pytest.mark.parametrize("seed", seeds(1, 4))
async def test_every_node_has_a_place_of_its_own_in_its_domain(browser: Browser, seed: int) -> None:
    draw = random.Random(seed)
    async with served(Contents({})) as fake, shown(browser, fake.url) as view:
        await view.open("/queue")
        for _ in range(10):
            roots = [_domain(draw, draw.randrange(3), f"r{n}") for n in range(draw.randrange(1, 5))]
            room: list[Any] = [draw.choice((320, 900, 2400)), draw.choice((320, 1300)), 1]
            _check(await view.run(LAYOUT, [roots, *room]), roots)


@pytest.mark.long
async def test_a_cluster_that_has_room_is_no_higher_than_the_screen(browser: Browser) -> None:
    async with served(Contents({})) as fake, shown(browser, fake.url) as view:
        await view.open("/queue")
        for shape in ((1, 1, 1), (2, 3, 8), (4, 4, 16), (8, 8, 16)):
            roots = Contents(blocks(*shape)).map()["domains"]
            plan = await view.run(LAYOUT, [roots, 1000, 700, 1])
            assert plan["height"] <= 700
            assert plan["width"] == 1000


@pytest.mark.long
async def test_highlighted_nodes_have_the_colour_of_the_legend(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        await view.open("/map")
        await view.settled()
        assert await view.run(LIT) == 0
        await view.open(f"/map?workload={GANG}")
        await view.see("16 pods on 8 nodes")
        await view.until(f"() => ({LIT})() > 0.05")
