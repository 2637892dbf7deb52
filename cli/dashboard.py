"""A live page of the trees of groups and the nodes, on loopback.

It only reads, and only answers requests that name it as the host they ask (a page from
elsewhere cannot read the cluster through it).
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from cli.listing import list_objects
from cli.text import pods_per_node
from cli.tree import Objects, build
from kube.client import Client

PAGE = Path(__file__).with_name("dashboard.html")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def state(objects: Objects, label: str) -> dict[str, Any]:
    """What the page draws: the trees, and per value of the node label `label` its nodes."""
    used = pods_per_node(objects.pods)
    domains: dict[str, list[dict[str, Any]]] = {}
    for node in sorted(objects.nodes, key=lambda item: str(item["metadata"]["name"])):
        name = node["metadata"]["name"]
        domain = node["metadata"].get("labels", {}).get(label, "no rack")
        domains.setdefault(domain, []).append({"name": name, "pods": used.get(name, 0)})
    trees = [dataclasses.asdict(branch) for branch in build(objects)]
    return {"trees": trees, "domains": dict(sorted(domains.items()))}


@asynccontextmanager
async def serve(client: Client, *, label: str, port: int = 0) -> AsyncIterator[str]:
    """Serves the page on 127.0.0.1 while the context lasts; yields its address."""

    async def page(_request: web.Request) -> web.StreamResponse:
        return web.Response(text=PAGE.read_text("utf-8"), content_type="text/html", headers=HEADERS)

    async def data(request: web.Request) -> web.StreamResponse:
        if request.url.host not in {"127.0.0.1", "localhost"}:
            raise web.HTTPForbidden(text="ask for this page as 127.0.0.1 or localhost")
        return web.json_response(state(await list_objects(client), label), headers=HEADERS)

    app = web.Application()
    app.add_routes([web.get("/", page), web.get("/state", data)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()
