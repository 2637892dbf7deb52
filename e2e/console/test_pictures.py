"""The pictures of docs/console.md, as Chromium shows them; `--record` renews them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser

from e2e.console.clusters import BLOCK, NOW, Contents
from e2e.console.examples import GANG, large, small
from e2e.console.fake import STATIC, served
from e2e.console.page import DESK, Shown, address, shown

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURES: Final = STATIC.parents[1] / "docs" / "pictures" / "console"
PAGE: Final = PICTURES.parents[1] / "console.md"

Steps = Callable[[Shown], Awaitable[None]]


async def _looked_at(view: Shown) -> None:
    await view.settled()


async def _tried(view: Shown) -> None:
    await view.page.get_by_label("Manifests, YAML").fill(MANIFEST)
    await view.page.get_by_role("button", name="Try it").click()
    await view.see("In short")


async def _plotted(view: Shown) -> None:
    await view.page.locator(".plot canvas").nth(3).wait_for()


MANIFEST: Final = """apiVersion: batch/v1
kind: Job
metadata:
  name: train-3
  namespace: research
spec:
  parallelism: 24
  completions: 24
  completionMode: Indexed
"""
CHANGES: Final = (
    '[{"addNodes":{"like":"node-2-3-1","count":8}},'
    f'{{"removeDomain":{{"key":"{BLOCK}","value":"block-1"}}}}]'
)
SHOTS: Final[dict[str, tuple[Callable[[], Contents], str, bool, Steps]]] = {
    "map": (small, f"/map?workload={GANG}", False, _looked_at),
    "map-dark": (small, "/map?domain=block-2/b2-rack-3&node=node-2-3-1", True, _looked_at),
    "map-5000": (large, "/map", False, _looked_at),
    "queue": (small, "/queue", False, _looked_at),
    "workload": (small, address(GANG), False, _looked_at),
    "what-if": (small, f"/what-if?changes={CHANGES}", False, _tried),
    "history": (small, "/history?hours=3", False, _plotted),
}


@pytest.mark.parametrize("name", SHOTS)
async def test_each_view_has_a_picture(
    browser: Browser, name: str, record: bool, tmp_path: Path
) -> None:
    contents, path, dark, steps = SHOTS[name]
    async with served(contents()) as fake, shown(browser, fake.url, dark=dark) as view:
        await view.page.clock.set_fixed_time(NOW)
        await view.open(path)
        await view.see("Live", ".link-state")
        await steps(view)
        await view.page.wait_for_timeout(300)
        taken = (PICTURES if record else tmp_path) / f"{name}.png"
        await view.page.screenshot(path=taken)

    width, height = _size(taken)
    assert (width, height) == (DESK["width"], DESK["height"])
    assert _size(PICTURES / f"{name}.png") == (width, height)
    assert f"pictures/console/{name}.png" in PAGE.read_text()


def _size(picture: Path) -> tuple[int, int]:
    """Width and height, from a PNG's header."""
    header = picture.read_bytes()[16:24]
    return int.from_bytes(header[:4]), int.from_bytes(header[4:])
