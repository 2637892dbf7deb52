"""`muster console`: its output, and its termination."""

import asyncio
import contextlib
import os
import signal
import sys
import webbrowser
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from cli.commands import console
from cli.demo import open_page
from cli.demo.demo import install_kinds
from console.serving.serving import Console, local
from console.state.state import Settings
from kube.base.errors import ConfigError
from kube.client.client import Client
from kube.client.resources import NAMESPACES
from kube.credentials.loading import ClientConfig
from localcluster.cluster import LocalCluster

ROOT = Path(__file__).resolve().parents[3]


async def test_it_prints_an_address_that_opens_once_and_ends_with_ctrl_c() -> None:
    async with LocalCluster() as cluster:
        async with await Client.connect(cluster.kubeconfig) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
            await install_kinds(client)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "cli", "console", "--no-browser",
            env={**os.environ, "PYTHONPATH": str(ROOT), "KUBECONFIG": str(cluster.kubeconfig)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        line = ""
        while not line.startswith("Address, valid once: "):
            line = (await process.stdout.readline()).decode()
            assert line, await process.communicate()
        url = line.removeprefix("Address, valid once: ").strip()
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as http:
            async with http.get(url) as answer:
                assert answer.status == 200
            async with http.get(url.partition("?")[0] + "api/map") as answer:
                assert (await answer.json())["domains"] == []
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()

    assert process.returncode == 0, said.decode()
    assert said == b""


async def test_a_cluster_without_muster_is_said_at_once() -> None:
    async with LocalCluster() as cluster:
        with pytest.raises(ConfigError, match="is Muster installed"):
            await console._run(ClientConfig(cluster.kubeconfig), Settings(), 0, browser=False)


@contextlib.asynccontextmanager
async def unconnected() -> AsyncIterator[Console]:
    """A console on a cluster without Muster, so that its caches never sync."""
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(LocalCluster())
        client = await stack.enter_async_context(await Client.connect(cluster.kubeconfig))
        yield await stack.enter_async_context(local(client))


async def test_what_may_not_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_READ_WITHIN", 0.5)
    async with unconnected() as served:
        with pytest.raises(ConfigError) as raised:
            await console._read(served, asyncio.Event())

    assert "podgroups.scheduling.muster.dev" in str(raised.value)


async def test_a_port_that_is_taken_is_said() -> None:
    async with unconnected() as served:
        port = int(served.address.rstrip("/").rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            async with local(served.cluster.client, port=port):
                pass


def test_no_browser_is_started_where_there_is_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not open_page.open_page("http://127.0.0.1/")
    assert opened == []

    monkeypatch.setenv("DISPLAY", ":0")
    open_page.open_page("http://127.0.0.1/")
    assert opened == ["http://127.0.0.1/"]
