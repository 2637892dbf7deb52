"""`muster tree`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.options import Kubeconfig, SnapshotFile, on_cluster, user_errors
from cli.trees.listing import list_objects
from cli.trees.text import tree_lines
from cli.trees.tree import build


def tree(
    kubeconfig: Kubeconfig = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="namespace to show; default: all")
    ] = None,
    snapshot: SnapshotFile = None,
) -> None:
    """Print the trees of groups, with the nodes of their pods or the reason why they wait."""
    with user_errors(code=1):
        if snapshot is not None:
            from cli.commands.snapshots import tree_of  # the solver: a live tree needs none

            lines = tree_of(snapshot)
        else:
            objects = on_cluster(kubeconfig, lambda it: list_objects(it, namespace), "tree")
            lines = tree_lines(build(objects))
    typer.echo("\n".join(lines) or "no groups")
