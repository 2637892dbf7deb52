"""`muster gc`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.cleanup.gc import check as search
from cli.commands.options import ConfigFile, Kubeconfig, on_cluster, user_errors
from cli.config.config import load


def gc(
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="namespace to check; default: all")
    ] = None,
    config: ConfigFile = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="exit with code 1 if anything is found")
    ] = False,
) -> None:
    """List groups and Workloads that should be deleted, and finalizers that nothing needs."""
    with user_errors():
        names = load(config).scheduler_names
        found = on_cluster(kubeconfig, lambda client: search(client, namespace, names), "gc")
    typer.echo("\n".join(str(it) for it in found) or "no orphans and no stuck finalizers")
    if check and found:
        raise typer.Exit(1)
