"""`muster gc`."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from cli.cleanup.gc import Finding, check
from cli.commands import output
from cli.commands.options import (
    ConfigFile,
    Context,
    Kubeconfig,
    NamespaceOrAll,
    on_cluster,
    user_errors,
)
from cli.commands.output import AllNamespaces, Output, OutputOption
from cli.config.config import load
from kube.client.client import Client
from kube.credentials.loading import ClientConfig

_NOTHING: Final = "no orphans and no stuck finalizers"


def gc(
    ctx: typer.Context,
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: NamespaceOrAll = None,
    config: ConfigFile = None,
    format_: OutputOption = None,
    all_namespaces: AllNamespaces = False,
    exit_code: Annotated[
        bool, typer.Option("--check", help="exit with code 1 if anything is found")
    ] = False,
) -> None:
    """List groups and Workloads that should be deleted, and finalizers that nothing needs."""
    with user_errors():
        schedulers = load(config).scheduler_names

        async def run(client: Client) -> list[Finding]:
            where = output.scope(ctx, client, namespace, everywhere=all_namespaces)
            return await check(client, where, schedulers)

        found = on_cluster(ClientConfig(kubeconfig, context), run, "gc")
    names = (output.full_name(it.kind, it.name) for it in found)
    if not output.print_structured(format_, {"items": found}, names):
        if format_ is Output.WIDE or output.is_plugin(ctx):
            rows = [(it.namespace, output.full_name(it.kind, it.name), it.why) for it in found]
            output.print_table([("NAMESPACE", "NAME", "REASON"), *rows], _NOTHING)
        else:
            typer.echo("\n".join(str(it) for it in found) or _NOTHING)
    if exit_code and found:
        raise typer.Exit(1)
