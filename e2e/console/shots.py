"""The screenshots of docs/console.md: the cluster, URL and color scheme of each."""

from collections.abc import Awaitable, Callable
from typing import Final

from e2e.console.clusters import BLOCK, Contents
from e2e.console.examples import GANG, large, small
from e2e.console.fake import STATIC
from e2e.console.page import Shown, address

PICTURES: Final = STATIC.parents[1] / "docs" / "pictures" / "console"
PAGE: Final = PICTURES.parents[1] / "console.md"
LOGIN: Final = "login"
"""The screenshot of the login page."""

Steps = Callable[[Shown], Awaitable[None]]
Shot = tuple[Callable[[], Contents], str, bool, Steps]
"""The cluster, the URL, True if dark, and the steps before the screenshot."""


async def _looked_at(view: Shown) -> None:
    await view.settled()


async def _tried(view: Shown) -> None:
    await view.page.get_by_label("Manifests, YAML").fill(MANIFEST)
    await view.page.get_by_role("button", name="Try it").click()
    await view.see("Summary")


async def _plotted(view: Shown) -> None:
    await view.page.locator(".plot canvas").nth(3).wait_for()


async def _asked_for_a_token(view: Shown) -> None:
    await view.page.get_by_label("Token").wait_for()


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
SHOTS: Final[dict[str, Shot]] = {
    "map": (small, f"/map?workload={GANG}", False, _looked_at),
    "map-dark": (small, "/map?domain=block-2/b2-rack-3&node=node-2-3-1", True, _looked_at),
    "map-5000": (large, "/map", False, _looked_at),
    "queue": (small, "/queue", False, _looked_at),
    "workload": (small, address(GANG), False, _looked_at),
    "what-if": (small, f"/what-if?changes={CHANGES}", False, _tried),
    "history": (small, "/history?hours=3", False, _plotted),
    LOGIN: (small, "/", False, _asked_for_a_token),
}
