"""`muster webhook`, `muster controller`, `muster scheduler`, `muster all`: the server processes.

They need no more than the base installation. Each follows one API server, serves `/healthz`,
`/readyz` and `/metrics` on the address given with `--health`, and ends in order on SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import structlog

from api.features import GATES, FeatureGates
from cli.config.config import File, load
from cli.config.lean_imports import uncollected
from cli.config.process_names import PROCESSES
from kube.base import process
from kube.base.build import read_build
from kube.base.metrics import FEATURE_ENABLED
from kube.base.status_server import Check, Details, Page, StatusServer
from kube.client.client import Client
from kube.informers.quarantine import Quarantine

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Server:
    """One of the servers: its readiness checks, and the work that runs until `stop`.

    `details` are lines for `/readyz` about skipped objects. `pages` show its state and `actions`
    are for debugging; both are served only with `--debug`.
    """

    checks: Mapping[str, Check]
    run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]
    pages: Mapping[str, Page] = field(default_factory=dict)
    actions: Mapping[str, Page] = field(default_factory=dict)
    details: Details = tuple


def webhook(client: Client, file: File, arguments: argparse.Namespace) -> Server:
    """Return the webhook, reached by `--url` or by its Service."""
    # Imported here: each process loads only the modules of its own server.
    with uncollected():
        from cli.config.webhook_config import webhook_config
        from webhooks.app import run
        from webhooks.server.readiness import Readiness

    readiness, quarantine = Readiness(), Quarantine()
    config = webhook_config(file, arguments.url)
    return Server(
        readiness.checks(),
        lambda stop: run(client, config, stop, readiness=readiness, quarantine=quarantine),
        details=quarantine.details,
    )


def controller(client: Client, file: File, _arguments: argparse.Namespace) -> Server:
    """Return the controllers."""
    with uncollected():
        from controllers.app import ControllerProcess

    controllers = ControllerProcess(
        client,
        file.leader_election,
        file.namespace,
        scheduler_names=file.scheduler_names,
        gates=file.gates,
        groups_api=file.groups.api,
    )
    return Server(controllers.checks, controllers.run, details=controllers.details)


def scheduler(client: Client, file: File, _arguments: argparse.Namespace) -> Server:
    """Return the scheduler."""
    with uncollected():
        from scheduler.app import Scheduler

    decider = Scheduler(
        client,
        file.scheduler,
        file.leader_election,
        file.namespace,
        profiles=file.scoring,
        gates=file.gates,
    )
    return Server(decider.checks, decider.run, decider.pages, decider.actions, decider.details)


_SERVERS: Mapping[str, Callable[[Client, File, argparse.Namespace], Server]] = {
    "webhook": webhook,
    "controller": controller,
    "scheduler": scheduler,
}


def parser() -> argparse.ArgumentParser:
    """Return the command line of the server processes."""
    top = argparse.ArgumentParser(prog="muster", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in PROCESSES:
        command = commands.add_parser(name, help=_HELP[name], description=_HELP[name])
        command.add_argument(
            "--kubeconfig", help="default: in-cluster configuration, then $KUBECONFIG"
        )
        command.add_argument(
            "--config", help="configuration file (YAML); see docs/configuration.md"
        )
        command.add_argument(
            "--health",
            default="127.0.0.1:0",
            type=address,
            metavar="HOST:PORT",
            help="address of /healthz, /readyz and /metrics (default: a free port on loopback)",
        )
        command.add_argument(
            "--debug",
            action="store_true",
            help="also serve /debug/snapshot, the complete input of the scheduler for muster"
            " replay,"
            " and /debug/decide, which decides all pending groups again",
        )
        command.add_argument(
            "--log-level", default="info", choices=("debug", "info", "warning", "error")
        )
        if name in {"webhook", "all"}:
            command.add_argument(
                "--url",
                help="register the webhook by this URL (https://127.0.0.1:PORT), not by its"
                " Service",
            )
    return top


_HELP = {
    "webhook": "serve admission: validation, defaults, priority, group names of Jobs and JobSets",
    "controller": "create groups from Jobs and JobSets, and protect them until their pods are"
    " deleted",
    "scheduler": "decide where gangs run, and bind their pods",
    "all": "run all three in one process, for small clusters",
}


def address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`. Raises argparse.ArgumentTypeError."""
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 0.0.0.0:8080")
    return host.strip("[]"), int(port)


def main(argv: Sequence[str]) -> int:
    """Run the process until a signal. Bad arguments end with code 2, as argparse does."""
    arguments = parser().parse_args(argv)
    file = load(arguments.config)
    process.configure_logging(arguments.command, arguments.log_level)
    process.announce(read_build())
    for name, instead in file.old_fields.items():
        _log.warning("deprecated configuration field", field=name, instead=instead)
    show_gates(file.gates)
    process.run(lambda stop: _serve(arguments, file, stop))
    return 0


def show_gates(gates: FeatureGates) -> None:
    """Set the metric for each gate; log the gates that differ from their default, if any."""
    for feature, gate in GATES.items():
        FEATURE_ENABLED.labels(feature, gate.stage).set(feature in gates)
    off = [str(feature) for feature, gate in GATES.items() if gate.default and feature not in gates]
    on = [str(feature) for feature, gate in GATES.items() if not gate.default and feature in gates]
    if off or on:
        _log.info("feature gates", off=off, on=on)


async def _serve(arguments: argparse.Namespace, file: File, stop: asyncio.Event) -> None:
    async with AsyncExitStack() as stack:
        servers: dict[str, Server] = {}
        details: list[Details] = []
        for name in PROCESSES[arguments.command]:
            # One client a server, also in `muster all`: each has its own user agent and
            # connections.
            client = await Client.connect(arguments.kubeconfig, user_agent=f"muster-{name}")
            await stack.enter_async_context(client)
            servers[name] = _SERVERS[name](client, file, arguments)
            details += [client.details, servers[name].details]
        host, port = arguments.health
        checks = {
            check if len(servers) == 1 else f"{name}-{check}": holds
            for name, each in servers.items()
            for check, holds in each.checks.items()
        }
        pages = {path: page for each in servers.values() for path, page in each.pages.items()}
        actions = {
            path: action for each in servers.values() for path, action in each.actions.items()
        }
        debug: bool = arguments.debug
        server = StatusServer(
            host=host,
            port=port,
            ready=checks,
            details=lambda: [line for each in details for line in each()],
            pages=pages if debug else None,
            actions=actions if debug else None,
        )
        await stack.enter_async_context(server)
        async with asyncio.TaskGroup() as group:
            for each in servers.values():
                group.create_task(each.run(stop))
