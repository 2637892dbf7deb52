"""The screenshots of docs/console.md: the URL and color scheme of each, by scene of the story."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import yaml

from cli.demo.demo import RACK, example
from e2e.console.page import Shown, address
from e2e.console.story import TRAINING
from e2e.console.texts import STATIC

PICTURES: Final = STATIC.parents[1] / "docs" / "pictures" / "console"
PAGE: Final = PICTURES.parents[1] / "console.md"
LOGIN: Final = "login"
"""The screenshot of the login page."""
LARGE: Final = "map-5000"
"""The screenshot of 5,000 nodes, which are a cluster of their own."""
MANIFEST: Final = yaml.safe_dump(example("job-gang.yaml"), sort_keys=False)
CHANGES: Final = (
    '[{"addNodes":{"like":"node-2-1-1","count":2}},'
    f'{{"removeDomain":{{"key":"{RACK}","value":"rack-1-1"}}}}]'
)
TYPED: Final = (MANIFEST, TRAINING)
"""The user's input in fields and URLs."""


async def _settled(view: Shown) -> None:
    await view.settled()


async def _tried(view: Shown) -> None:
    await view.page.get_by_label("Manifests, YAML").fill(MANIFEST)
    await view.page.get_by_role("button", name="Try it").click()
    await view.see("Summary")


async def _plotted(view: Shown) -> None:
    await view.page.locator(".plot canvas").nth(3).wait_for()


async def _evicted(view: Shown) -> None:
    await view.see("Eviction in progress", "tbody")
    await view.settled()


async def _running(view: Shown) -> None:
    await view.see("16 running, 16 bound of 16 pods")
    await view.settled()


async def _opened(view: Shown) -> None:
    await view.page.get_by_role("button", name="Groups and pods of JobSet training").click()
    await view.page.locator(".opened .tree").wait_for()
    await view.settled()


async def _asked_for_a_token(view: Shown) -> None:
    await view.page.get_by_label("Token").wait_for()


@dataclass(frozen=True, slots=True)
class Shot:
    """A URL, the steps before the screenshot, and the color scheme."""

    path: str
    steps: Callable[[Shown], Awaitable[None]] = _settled
    dark: bool = False


PREEMPTING: Final = {"queue": Shot("/queue", _evicted)}
"""The screenshots while a gang evicts another."""
STARTED: Final = {
    "map": Shot(f"/map?workload={TRAINING}"),
    "map-dark": Shot("/map?domain=block-2/rack-2-1&node=node-2-1-1", dark=True),
    "workloads": Shot("/workloads", _opened),
    "workload": Shot(address(TRAINING), _running),
    "what-if": Shot(f"/what-if?changes={CHANGES}", _tried),
    "history": Shot("/history?hours=1", _plotted),
}
"""The screenshots after the gang that waited has started."""
SHOTS: Final = {
    **PREEMPTING,
    **STARTED,
    LARGE: Shot("/map"),
    LOGIN: Shot("/", _asked_for_a_token),
}
