"""The screenshots of docs/console.md: the console of a running cluster, in Chromium.

`make pictures` renews them. Each text in a screenshot is a constant of the page or part of a
response of the console, and the queue shows the summary of each group's blocker.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from console.following import history
from console.serving.in_cluster import ConsoleAddress, in_cluster
from console.serving.serving import LOOPBACK, Console
from console.state.state import Settings
from e2e.console.clusters import Contents, blocks, filled
from e2e.console.page import DESK, Shown, shown
from e2e.console.real import staged
from e2e.console.shots import LARGE, LOGIN, PICTURES, PREEMPTING, SHOTS, STARTED, TYPED
from e2e.console.story import URGENT, Story, begun
from e2e.console.texts import Sources
from e2e.harness.clusters.local import Local
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.objects import POD_GROUPS
from e2e.harness.running import installed, started
from e2e.harness.support.waiting import eventually
from kube.client.client import Client

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.long,
    pytest.mark.timeout(1800),
]

ROWS: Final = """() => Object.fromEntries([...document.querySelectorAll("tbody tr")].map((row) =>
  [row.querySelector("th a").textContent, row.querySelector(".why p").textContent]))"""
"""A script that returns the sentence of each group in the queue, by name."""


class Camera:
    """A page whose screenshots go to a folder, with the sources of its texts."""

    def __init__(self, view: Shown, sources: Sources, folder: Path) -> None:
        self.view = view
        self._sources = sources
        self._folder = folder

    @classmethod
    async def of(cls, view: Shown, folder: Path) -> "Camera":
        sources = await Sources.of(view.page)
        sources.given(*TYPED)
        return cls(view, sources, folder)

    async def take(self, name: str) -> None:
        shot, page = SHOTS[name], self.view.page
        await page.emulate_media(color_scheme="dark" if shot.dark else "light")
        await self.view.open(shot.path)
        if name != LOGIN:
            await self.view.see("Live", ".link-state")
        await shot.steps(self.view)
        await page.wait_for_timeout(300)
        assert await self._sources.unknown(page) == []
        taken = self._folder / f"{name}.png"
        await page.screenshot(path=taken)
        assert _size(taken) == _size(PICTURES / taken.name) == tuple(DESK.values())


@pytest.fixture
def folder(record: bool, tmp_path: Path) -> Path:
    """Return the folder of the screenshots: that of the docs if they are recorded."""
    return PICTURES if record else tmp_path


@pytest.fixture
def stage() -> Iterator[tuple[Local, Muster]]:
    """Start an embedded cluster without nodes, and Muster's processes."""
    cluster = Local()
    with started(cluster), installed(cluster) as muster:
        yield cluster, muster


@pytest_asyncio.fixture(loop_scope="session")
async def story(
    stage: tuple[Local, Muster], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Story]:
    # The complete story is shorter than one regular step of the history.
    monkeypatch.setattr(history, "STEP", 1.0)
    async with await Client.connect(stage[0].kubeconfig) as client:
        env = Environment(*stage, client, "default")
        env.timeout_seconds = 600
        async with begun(env) as opened:
            yield opened


async def test_each_view_has_a_picture(browser: Browser, story: Story, folder: Path) -> None:
    await story.waits()
    async with shown(browser, story.console.address.rstrip("/")) as view:
        camera = await Camera.of(view, folder)
        await _log_in(view, story.console)
        await story.preempts()
        for name in PREEMPTING:
            await camera.take(name)
        await _queue_shows_summaries(view, story.env)
        await story.starts()
        for name in STARTED:
            await camera.take(name)


async def test_a_cluster_of_5000_nodes_has_a_picture(browser: Browser, folder: Path) -> None:
    async with staged() as stage:
        await stage.fill(filled(Contents(blocks(20, 10, 25))))
        async with shown(browser, stage.console.address.rstrip("/")) as view:
            camera = await Camera.of(view, folder)
            await _log_in(view, stage.console)
            await camera.take(LARGE)


async def test_the_login_has_a_picture(browser: Browser, folder: Path) -> None:
    async with (
        staged() as stage,
        in_cluster(stage.client, Settings(), ConsoleAddress((LOOPBACK, 0), (), None)) as console,
        shown(browser, f"http://{LOOPBACK}:{console.port}") as view,
    ):
        await (await Camera.of(view, folder)).take(LOGIN)


async def _log_in(view: Shown, console: Console) -> None:
    await view.open(console.url.removeprefix(view.origin))


async def _queue_shows_summaries(view: Shown, env: Environment) -> None:
    """Wait until the sentences are the summaries. The preemptor is nominated, and has another."""

    async def probe() -> bool:
        groups = (await env.client.list(POD_GROUPS, env.name))["items"]
        summaries = {
            group["metadata"]["name"]: group["status"]["blocker"]["summary"]
            for group in groups
            if group.get("status", {}).get("blocker")
        }
        rows = await view.run(ROWS)
        for sentences in (summaries, rows):
            sentences.pop(f"pg-{URGENT}", None)
        return len(summaries) >= 3 and bool(summaries == rows)

    await eventually(probe, "the queue to show the summaries", env.timeout_seconds)


def _size(picture: Path) -> tuple[int, int]:
    """Return width and height from a PNG's header."""
    header = picture.read_bytes()[16:24]
    return int.from_bytes(header[:4]), int.from_bytes(header[4:])
