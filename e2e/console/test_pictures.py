"""The screenshots of docs/console.md in Chromium; `make pictures` renews them."""

from pathlib import Path

import pytest
from playwright.async_api import Browser

from e2e.console.clusters import NOW
from e2e.console.fake import served
from e2e.console.page import DESK, shown
from e2e.console.shots import LOGIN, PICTURES, SHOTS

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.long
@pytest.mark.parametrize("name", SHOTS)
async def test_each_view_has_a_picture(
    browser: Browser, name: str, record: bool, tmp_path: Path
) -> None:
    contents, path, dark, steps = SHOTS[name]
    async with served(contents()) as fake, shown(browser, fake.url, dark=dark) as view:
        await view.page.clock.set_fixed_time(NOW)
        fake.logged_in = fake.local = name != LOGIN
        await view.open(path)
        if name != LOGIN:
            await view.see("Live", ".link-state")
        await steps(view)
        await view.page.wait_for_timeout(300)
        taken = (PICTURES if record else tmp_path) / f"{name}.png"
        await view.page.screenshot(path=taken)

    width, height = _size(taken)
    assert (width, height) == (DESK["width"], DESK["height"])
    assert _size(PICTURES / f"{name}.png") == (width, height)


def _size(picture: Path) -> tuple[int, int]:
    """Return width and height from a PNG's header."""
    header = picture.read_bytes()[16:24]
    return int.from_bytes(header[:4]), int.from_bytes(header[4:])
