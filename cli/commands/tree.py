"""`muster tree`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cli.commands.options import Kubeconfig, SnapshotFile
from cli.trees.listing import list_objects
from cli.trees.text import tree_lines
from cli.trees.tree import build
from kube.base.errors import KubeError
from kube.client.client import Client


def tree(
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="namespace to show; default: all")
    ] = None,
    snapshot: SnapshotFile = None,
) -> None:
    """Print the trees of groups, with the nodes of their pods or the reason why they wait."""

    async def once() -> list[str]:
        if snapshot is not None:
            from cli.commands.snapshots import tree_of  # the solver: a live tree needs none

            return tree_of(snapshot)
        async with await Client.connect(kubeconfig, user_agent="muster-tree") as client:
            return tree_lines(build(await list_objects(client, namespace)))

    try:
        lines = asyncio.run(once())
    except KubeError as error:
        typer.echo(f"muster: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo("\n".join(lines) or "no groups")
