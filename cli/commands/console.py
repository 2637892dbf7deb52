"""`muster console`."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated, Final

import typer

from cli.commands.options import ConfigFile, Context, Kubeconfig, user_errors
from cli.config.config import load
from cli.demo.open_page import open_page
from cli.servers.console_service import PORT, address_of, place_of, serve, settings_of
from console.serving.serving import Console, local
from console.state.state import Settings
from kube.base.build import read_build
from kube.base.errors import ConfigError
from kube.base.process import announce, configure_logging
from kube.client.client import Client
from kube.credentials.loading import ClientConfig
from scheduler.watch.informers import require_groups

_READ_WITHIN: Final = 90.0
"""Seconds that the first lists may take."""


def console(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: ConfigFile = None,
    port: Annotated[
        int, typer.Option(help="port of the page; 0 selects a free port", min=0, max=65535)
    ] = 0,
    topology_key: Annotated[
        list[str] | None,
        typer.Option(help="topology key of the map, outermost first; default: the keys of groups"),
    ] = None,
    *,
    browser: Annotated[bool, typer.Option(help="open the page in the browser")] = True,
    in_cluster: Annotated[
        bool,
        typer.Option("--in-cluster", help="serve users who log in with a token of the cluster"),
    ] = False,
    listen: Annotated[
        str, typer.Option(help="--in-cluster: address of the page, HOST:PORT")
    ] = f"0.0.0.0:{PORT}",
    host: Annotated[
        list[str] | None,
        typer.Option(help="--in-cluster: host name and port that browsers use"),
    ] = None,
    tls: Annotated[
        Path | None, typer.Option(help="--in-cluster: folder with tls.crt and tls.key")
    ] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="--in-cluster: a proxy terminates TLS")
    ] = False,
    health: Annotated[
        str, typer.Option(help="--in-cluster: address of /healthz, /readyz and /metrics")
    ] = "127.0.0.1:0",
) -> None:
    """Show what runs where, and why something waits, on a page. It changes nothing.

    It reads with the rights of the kubeconfig, and ends with Ctrl-C.
    """
    with user_errors():
        file, access = load(config), ClientConfig(kubeconfig, context)
        settings = settings_of(file, tuple(topology_key or ()))
        if in_cluster:
            configure_logging("console")
            announce(read_build())
            place = place_of(listen, host or (), tls, file.namespace, plain_http=plain_http)
            serve(access, settings, place, address_of(health))
            return
        configure_logging("console", "warning")
        asyncio.run(_run(access, settings, port, browser=browser))


async def _read(served: Console, stop: asyncio.Event) -> None:
    """Wait until everything was read once, or `stop` is set.

    Raises ConfigError, which names what is still unread.
    """
    reading = asyncio.create_task(served.cluster.wait())
    ended = asyncio.create_task(stop.wait())
    await asyncio.wait({reading, ended}, timeout=_READ_WITHIN, return_when=asyncio.FIRST_COMPLETED)
    for task in (reading, ended):
        task.cancel()
    if not (served.cluster.synced or stop.is_set()):
        missing = ", ".join(served.cluster.missing) or "device classes and claims"
        raise ConfigError(
            f"could not list in {_READ_WITHIN:g} s: {missing}. The console lists and watches what"
            " the scheduler does: check the rights of this kubeconfig."
        )


async def _run(access: ClientConfig, settings: Settings, port: int, *, browser: bool) -> None:
    """Serve until SIGINT or SIGTERM. Raises KubeError if the cluster does not respond."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await Client.connect(access, user_agent="muster-console") as client:
        await require_groups(client)
        async with local(client, settings, port) as served:
            typer.echo(f"Reading {client.server} ...")
            await _read(served, stop)
            typer.echo(f"Address, valid once: {served.url}")
            typer.echo(f"Showing {client.server}. Press Ctrl-C to stop.")
            if browser:
                # In a thread: `webbrowser` may wait for the browser.
                await asyncio.to_thread(open_page, served.url)
            await served.until(stop)
