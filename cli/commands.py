"""The commands for users, with those of `cli.solver_commands` and `cli.doctor_commands`."""

from __future__ import annotations

import asyncio
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
import yaml

from cli import demo as demo_cluster
from cli import doctor_commands, servers, solver_commands
from cli.config import load
from cli.gc import check_with
from cli.listing import list_objects
from cli.text import tree_lines
from cli.tree import build
from cli.uninstall.command import uninstall as remove
from cli.uninstall.installation import NAMESPACE as INSTALLED_IN
from kube.client import Client
from kube.errors import KubeError
from webhooks.registration import load_manifests

app = typer.Typer(
    name="muster",
    no_args_is_help=True,
    add_completion=False,
    help="Gangs and trees of gangs for Jobs and JobSets on Kubernetes.",
    epilog="Server processes: " + ", ".join(servers.PROCESSES) + " (muster COMMAND --help).",
)


@app.command()
def demo(
    *, keep: Annotated[bool, typer.Option("--keep", help="stay up until Ctrl-C")] = False
) -> None:
    """Start an embedded cluster with Muster, place the examples, check the outcome."""
    _need_localcluster()
    raise typer.Exit(demo_cluster.main(keep=keep))


@app.command()
def tree(
    kubeconfig: solver_commands.Kubeconfig = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="default: all namespaces")
    ] = None,
    snapshot: solver_commands.SnapshotFile = None,
) -> None:
    """Print the trees of groups: what is placed where, and what waits for what."""

    async def once() -> list[str]:
        if snapshot is not None:
            return solver_commands.tree_of(snapshot)
        async with await Client.connect(kubeconfig, user_agent="muster-tree") as client:
            return tree_lines(build(await list_objects(client, namespace)))

    try:
        lines = asyncio.run(once())
    except KubeError as error:
        typer.echo(f"muster: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo("\n".join(lines) or "no groups")


solver_commands.register(app)
doctor_commands.register(app)


@app.command()
def manifests(config: solver_commands.ConfigFile = None) -> None:
    """Print the webhook registration for the schedulerNames of a configuration file, as YAML.

    Apply it after `manifests/base`, or use it there as a patch: the conditions that say who is
    asked about name the usual schedulerName alone.
    """
    with solver_commands.user_errors():
        typer.echo(
            yaml.safe_dump_all(load_manifests(load(config).scheduler_names), sort_keys=False)
        )


@app.command()
def gc(
    kubeconfig: solver_commands.Kubeconfig = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="default: all namespaces")
    ] = None,
    config: solver_commands.ConfigFile = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="exit with 1 if anything is found")
    ] = False,
) -> None:
    """List groups and Workloads whose owner is gone, and finalizers that nothing needs."""
    try:
        found = asyncio.run(check_with(kubeconfig, namespace, load(config).scheduler_names))
    except KubeError as error:
        typer.echo(f"muster: {error}", err=True)
        raise typer.Exit(2) from error
    typer.echo("\n".join(str(it) for it in found) or "no orphans and no stuck finalizers")
    if check and found:
        raise typer.Exit(1)


@app.command()
def uninstall(
    kubeconfig: solver_commands.Kubeconfig = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="where Muster runs")
    ] = INSTALLED_IN,
    timeout: Annotated[float, typer.Option(help="seconds that each wait may take")] = 120.0,
    config: solver_commands.ConfigFile = None,
    *,
    release: Annotated[
        bool, typer.Option("--release", help="give what waits to the default scheduler")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="say what would be done, and do nothing")
    ] = False,
    prepare: Annotated[
        bool,
        typer.Option("--prepare", help="end Muster, and leave the rest to who installed it"),
    ] = False,
) -> None:
    """Remove Muster with all its objects; exit code 1 if gangs are in use or something stays.

    With `--prepare` only what must go before the rest can: the webhooks, the processes and their
    rights, finalizers. The CRDs stay, and `helm uninstall` or `kubectl delete` removes the rest.
    """
    with solver_commands.user_errors():
        names = load(config).scheduler_names

    async def run() -> int:
        async with await Client.connect(kubeconfig, user_agent="muster-uninstall") as client:
            return await remove(
                client,
                namespace,
                typer.echo,
                release=release,
                dry_run=dry_run,
                timeout=timeout,
                prepare=prepare,
                names=names,
            )

    try:
        code = asyncio.run(run())
    except KubeError as error:
        typer.echo(f"muster: {error}", err=True)
        raise typer.Exit(2) from error
    raise typer.Exit(code)


@app.command()
def localcluster(
    kubeconfig: Annotated[Path, typer.Option(help="where to write it")],
    port: Annotated[int, typer.Option(help="0: any free port")] = 0,
) -> None:
    """Run the embedded cluster until Ctrl-C."""
    _need_localcluster()
    sys.argv = ["localcluster", "--kubeconfig", str(kubeconfig), "--port", str(port)]
    runpy.run_module("localcluster", run_name="__main__")


def _need_localcluster() -> None:
    """Ends with exit code 2 where the embedded cluster is not installed."""
    if importlib.util.find_spec("localcluster") is None:
        typer.echo(
            "muster: the embedded cluster is not installed; `pip install muster[demo]` brings it,"
            " and so does `make .venv` in a checkout.",
            err=True,
        )
        raise typer.Exit(2)


def main(arguments: Sequence[str]) -> int:
    """Runs one command; returns its exit code."""
    try:
        app(list(arguments), standalone_mode=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0
