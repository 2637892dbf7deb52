"""`muster tree`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cli.commands import output
from cli.commands.options import (
    Context,
    Kubeconfig,
    NamespaceOrAll,
    SnapshotFile,
    on_cluster,
    user_errors,
)
from cli.commands.output import AllNamespaces, Output, OutputOption
from cli.trees import table
from cli.trees.listing import list_objects
from cli.trees.text import tree_lines
from cli.trees.tree import Branch, build
from kube.client.client import Client
from kube.credentials.loading import ClientConfig


def tree(
    ctx: typer.Context,
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: NamespaceOrAll = None,
    snapshot: SnapshotFile = None,
    format_: OutputOption = None,
    all_namespaces: AllNamespaces = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="print what changes until Ctrl-C")
    ] = False,
) -> None:
    """Print the trees of groups, with the nodes of their pods or the reason why they wait.

    As `kubectl muster tree` it prints a table of the context's namespace.
    """
    as_table = watch or format_ is not None or output.is_plugin(ctx)

    def show(found: Sequence[Branch], where: str | None) -> None:
        if as_table:
            _View(where, format_).show(found)
        else:
            typer.echo("\n".join(tree_lines(found)) or "no groups")

    async def run(client: Client) -> None:
        where = output.scope(ctx, client, namespace, everywhere=all_namespaces)
        if watch:
            from cli.trees.watching import watch_objects  # reflectors: a list needs none

            view = _View(where, format_)
            await watch_objects(client, where, lambda objects: view.show(build(objects)))
        show(build(await list_objects(client, where, nodes=False)), where)

    with user_errors(code=1):
        if snapshot is not None:
            from cli.commands.snapshots import branches_of  # the solver: a live tree needs none

            show(branches_of(snapshot), None)
        else:
            on_cluster(ClientConfig(kubeconfig, context), run, "tree")


class _View:
    """The trees as kubectl prints objects. With `--watch` the header comes once."""

    def __init__(self, namespace: str | None, format_: Output | None) -> None:
        self._namespace = namespace
        self._format = format_
        self._last: Sequence[Branch] = ()
        self._widths: list[int] = []

    def show(self, found: Sequence[Branch]) -> None:
        """Print the trees that are not as they were. Print nothing for a tree that is deleted."""
        changed = [branch for branch in found if branch not in self._last]
        self._last = found
        if found and not changed:
            return
        names = (output.full_name(branch.kind, branch.name) for branch in table.flat(changed))
        if output.print_structured(self._format, {"items": changed}, names):
            return
        # As in kubectl, the namespace is a column only if there may be several.
        first = 0 if self._namespace is None else 1
        rows = [row[first:] for row in table.rows(changed, wide=self._format is Output.WIDE)]
        where = f" in {self._namespace} namespace" if self._namespace else ""
        empty = "" if self._widths else f"No resources found{where}."
        self._widths = output.print_table(rows[bool(self._widths) :], empty, self._widths)
