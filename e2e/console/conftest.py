"""One browser for the run."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from e2e.console.chromium import FLAGS, MissingChromiumError, chromium


@pytest.fixture(scope="session")
def command() -> Path:
    """The Chromium command, installed if possible."""
    try:
        return chromium()
    except MissingChromiumError as error:
        if os.environ.get("MUSTER_REQUIRE_REAL") == "1":
            raise
        pytest.skip(str(error))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(command: Path) -> AsyncIterator[Browser]:
    """A browser process."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=command, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()
