"""A text that is neither a constant of the page nor in a response is found."""

import pytest
from playwright.async_api import Browser

from e2e.console.examples import GANG, small
from e2e.console.fake import served
from e2e.console.page import address, shown
from e2e.console.texts import Sources

pytestmark = pytest.mark.asyncio(loop_scope="session")

INVENTED = "0/48 nodes have room for 24 pods: 31 are short of cpu"
WRITE = "text => document.querySelector('main p').append(text)"


@pytest.mark.long
async def test_a_made_up_text_is_found(browser: Browser) -> None:
    async with served(small()) as fake, shown(browser, fake.url) as view:
        sources = await Sources.of(view.page)
        for path in ("/map", "/queue", address(GANG)):
            await view.open(path)
            await view.settled()
            assert await sources.unknown(view.page) == []

            await view.run(WRITE, INVENTED)
            assert await sources.unknown(view.page) == [INVENTED]
