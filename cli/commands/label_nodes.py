"""`muster label-nodes`."""

from __future__ import annotations

from typing import Annotated

import typer

from analysis.explain.plain_text import clean
from api.wording import count
from cli.commands import output
from cli.commands.options import Context, Kubeconfig, on_cluster, user_errors
from cli.commands.output import OutputOption
from cli.topology.label_nodes import Comparison, apply, compare
from kube.client.client import Client
from kube.credentials.loading import ClientConfig


def label_nodes(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    format_: OutputOption = None,
    write: Annotated[bool, typer.Option("--apply", help="write the labels")] = False,
) -> None:
    """Print, or write, labels of nodes for the tiers of Volcano's HyperNodes.

    A tier becomes the label topology.muster.dev/tier-N, with the HyperNode's name as value. Exit
    code: 1 if a HyperNode cannot be followed or a node was not written, 2 for other errors.
    """

    async def run(client: Client) -> tuple[Comparison, list[str]]:
        found = await compare(client)
        return found, await apply(client, found.changes) if write else []

    with user_errors():
        found, skipped = on_cluster(ClientConfig(kubeconfig, context), run, "label-nodes")
    content = {
        "keys": found.labels.keys,
        "changes": [change._asdict() for change in found.changes],
        "problems": list(found.labels.problems),
        "skipped": skipped,
    }
    names = (output.full_name("Node", name) for name in {it.node for it in found.changes})
    if not output.print_structured(format_, content, sorted(names)):
        _print(found, skipped, written=write)
    if found.labels.problems or skipped:
        raise typer.Exit(1)


def _print(found: Comparison, skipped: list[str], *, written: bool) -> None:
    for problem in found.labels.problems:
        typer.echo(clean(f"PROBLEM {problem}"))
    for node in skipped:
        typer.echo(clean(f"PROBLEM node {node} changed meanwhile, or is gone: run this again"))
    rows = [(it.node, it.key, it.before or "", it.after or "") for it in found.changes]
    output.print_table([("NODE", "LABEL", "NOW", "THEN"), *rows], "no label differs")
    keys = ", ".join(found.labels.keys) or "none"
    typer.echo(f"{count(found.nodes, 'node')}; labels of tiers, the widest first: {keys}")
    if found.changes and not written:
        typer.echo("Nothing is written: add --apply.")
