"""One more watcher, in a process of its own; it reads the changes and drops them."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import aiohttp

from e2e.harness.support import kubeconfig


@contextmanager
def reading(access: Path, path: str) -> Iterator[None]:
    """Let this account read all changes of the collection at `path` inside the block."""
    context = multiprocessing.get_context("spawn")
    opened = context.Event()
    process = context.Process(target=_run, args=(access, path, opened), daemon=True)
    process.start()
    try:
        if not opened.wait(60):
            raise RuntimeError(f"the watch of {path} was not opened")
        yield
    finally:
        process.terminate()
        process.join()


def _run(access: Path, path: str, opened: Event) -> None:
    asyncio.run(_read(access, path, opened))


async def _read(access: Path, path: str, opened: Event) -> None:
    """Read until terminated; reopen an ended stream at the current version."""
    found = kubeconfig.read(access)
    headers = {"Authorization": f"Bearer {found.token}"}
    async with aiohttp.ClientSession(found.server, headers=headers, trust_env=False) as session:
        while True:
            async with session.get(
                path, params={"watch": "true"}, ssl=found.context, timeout=None
            ) as response:
                response.raise_for_status()
                opened.set()
                async for _ in response.content.iter_any():
                    continue
