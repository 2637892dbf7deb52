"""`muster console --in-cluster`: the console for users who log in with a token of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import structlog

from api.features import Feature
from cli.config.config import File
from console.serving.in_cluster import ConsoleAddress, in_cluster
from console.state.state import Settings
from kube.base.errors import ConfigError
from kube.base.process import run
from kube.base.status_server import StatusServer
from kube.client.client import Client
from kube.credentials.loading import ClientConfig
from scheduler.core.values.search_budget import SearchBudget
from scheduler.watch.informers import require_groups

PORT = 8443
SERVICE = "muster-console"
_log = structlog.get_logger()


def place_of(
    listen: str, hosts: Iterable[str], tls: Path | None, namespace: str, *, plain_http: bool
) -> ConsoleAddress:
    """Return where the console is served; `listen` is HOST:PORT.

    Raises ConfigError unless exactly one of TLS and plain HTTP behind a proxy is chosen: viewers
    send their tokens.
    """
    if (tls is None) == (not plain_http):
        raise ConfigError(
            "--in-cluster: use --tls FOLDER for a certificate, or --plain-http behind a proxy"
            " that terminates TLS"
        )
    name = f"{SERVICE}.{namespace}.svc"
    return ConsoleAddress(address_of(listen), (name, f"{name}:443", *hosts), tls)


def settings_of(file: File, topology_keys: tuple[str, ...] = ()) -> Settings:
    """Return the console's settings for the scheduler of that configuration file."""
    return Settings(
        budget=SearchBudget(steps=file.scheduler.search.steps, profiles=file.scoring),
        scheduler_names=file.scheduler_names,
        gates=file.gates,
        topology_keys=topology_keys,
        preempts=file.scheduler.preemption.enabled and Feature.PREEMPTION in file.gates,
        preemption=file.scheduler.preemption,
    )


def address_of(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`. Raises ConfigError."""
    host, separator, port = text.rpartition(":")
    if not (separator and host and port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigError(f"{text!r} is not HOST:PORT, such as 0.0.0.0:{PORT}")
    return host.strip("[]"), int(port)


def serve(
    access: ClientConfig, settings: Settings, place: ConsoleAddress, health: tuple[str, int]
) -> None:
    """Serve until SIGINT or SIGTERM; `health` is the address of the health endpoints.

    Raises ConfigError, KubeError or OSError.
    """

    async def until(stop: asyncio.Event) -> None:
        async with await Client.connect(access, user_agent="muster-console") as client:
            await require_groups(client)
            async with in_cluster(client, settings, place) as served:
                ready = {"read": lambda: served.cluster.synced}
                _log.info("serving", port=served.port, hosts=place.hosts)
                async with StatusServer(host=health[0], port=health[1], ready=ready):
                    await served.until(stop)

    run(until)
