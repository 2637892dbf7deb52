"""A page of the console in Chromium that records forbidden events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

from playwright.async_api import Browser, Page, Request, ViewportSize

from e2e.console.clusters import NOW

WALL: Final = ViewportSize(width=2560, height=1440)
DESK: Final = ViewportSize(width=1440, height=900)
PHONE: Final = ViewportSize(width=390, height=844)
PATIENCE: Final = 60_000.0  # milliseconds: a machine under load is slow, not wrong


@dataclass
class Shown:
    """A page and its origin, with its errors and requests."""

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)
    """Errors of scripts, and violations of the Content-Security-Policy."""
    abroad: list[str] = field(default_factory=list)
    """Requests to another origin."""

    async def open(self, path: str) -> None:
        await self.page.goto(self.origin + path)
        await self.page.locator("h1").first.wait_for()

    async def settled(self) -> None:
        """Wait until everything that the view requests has arrived."""
        await self.until("!document.querySelector('[aria-busy=true]')")

    async def text(self, selector: str = "main") -> str:
        return await self.page.locator(selector).first.inner_text()

    async def see(self, text: str, selector: str = "main") -> None:
        """Wait until a text is visible."""
        await self.page.locator(selector, has_text=text).first.wait_for()

    async def until(self, script: str, argument: Any = None) -> None:
        """Wait until an expression or a function is true.

        The check runs from outside: Playwright's own waiting compiles text within the page, which
        the page's policy forbids.
        """
        async with asyncio.timeout(PATIENCE / 1000):
            while not await self.run(script, argument):
                await self.page.wait_for_timeout(30)

    async def run(self, script: str, argument: Any = None) -> Any:
        return await self.page.evaluate(script, argument)


@asynccontextmanager
async def shown(
    browser: Browser, origin: str, *, size: ViewportSize = DESK, dark: bool = False
) -> AsyncIterator[Shown]:
    """Open a new page; fail on exit if it had errors, violations or requests to another origin."""
    context = await browser.new_context(
        viewport=size, color_scheme="dark" if dark else "light", locale="en-GB"
    )
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    await page.clock.set_system_time(NOW)
    found = Shown(page, origin)
    await _watch(found)
    try:
        yield found
    finally:
        await context.close()
    assert not found.abroad
    assert not found.complaints


async def _watch(found: Shown) -> None:
    origin = urlsplit(found.origin).netloc
    page = found.page

    def refused(what: str) -> None:
        found.complaints.append(what)

    def sent(request: Request) -> None:
        if urlsplit(request.url).netloc != origin:
            found.abroad.append(request.url)

    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.on("request", sent)
    await page.expose_function("refused", refused)
    await page.add_init_script(
        "addEventListener('securitypolicyviolation', (event) => "
        "refused(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`))"
    )


def address(id_: str) -> str:
    """Return the URL path of one workload's view."""
    return "/workloads/" + "/".join(quote(part, safe="") for part in id_.split("/"))
