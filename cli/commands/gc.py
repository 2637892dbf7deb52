"""`muster gc`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cli.cleanup.gc import check_with
from cli.commands.options import ConfigFile, Kubeconfig
from cli.config.config import load
from kube.base.errors import KubeError


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
    try:
        found = asyncio.run(check_with(kubeconfig, namespace, load(config).scheduler_names))
    except KubeError as error:
        typer.echo(f"muster: {error}", err=True)
        raise typer.Exit(2) from error
    typer.echo("\n".join(str(it) for it in found) or "no orphans and no stuck finalizers")
    if check and found:
        raise typer.Exit(1)
