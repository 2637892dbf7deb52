"""`muster doctor` and `muster support-bundle`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from cli.doctor.examination import Examination, Options, own_version
from cli.doctor.findings import EXIT_CODES, highest, json_report, text_lines
from cli.solver_commands import Kubeconfig
from cli.support_bundle import collect, write
from kube.client import Client
from kube.errors import KubeError

SystemNamespace = Annotated[
    str, typer.Option("--system-namespace", help="where Muster is installed")
]
TrialNamespace = Annotated[
    str, typer.Option("--trial-namespace", help="where groups are created with dryRun")
]
Health = Annotated[
    list[str] | None,
    typer.Option("--health", help="URL of a process outside of the cluster (its --health address)"),
]
T = TypeVar("T")


def doctor(
    kubeconfig: Kubeconfig = None,
    system_namespace: SystemNamespace = "muster-system",
    trial_namespace: TrialNamespace = "default",
    health: Health = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="for machines")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="errors and warnings only")] = False,
) -> None:
    """Say what is wrong with an installation, and what to do; changes nothing.

    Exit code: 0 nothing is wrong, 1 warnings, 3 errors, 2 no cluster could be examined.
    """
    options = Options(system_namespace, trial_namespace, tuple(health or ()))
    found = _on_cluster(kubeconfig, lambda client: Examination(client, options).run())
    if json:
        typer.echo(json_report(found, own_version()).decode())
    else:
        typer.echo("\n".join(text_lines(found, all_of_them=not quiet)))
    raise typer.Exit(EXIT_CODES[highest(found)])


def support_bundle(
    file: Annotated[Path, typer.Argument(help="where to write it, a .tar.gz")],
    kubeconfig: Kubeconfig = None,
    system_namespace: SystemNamespace = "muster-system",
    trial_namespace: TrialNamespace = "default",
    health: Health = None,
) -> None:
    """Write what others need to help: findings, logs, metrics, snapshot, Muster's objects, events.

    Without Secrets, environment variables, commands and arguments.
    """
    options = Options(system_namespace, trial_namespace, tuple(health or ()))
    members = _on_cluster(kubeconfig, lambda client: collect(client, options))
    try:
        write(file, members)
    except OSError as problem:
        typer.echo(f"muster: {file}: {problem.strerror}", err=True)
        raise typer.Exit(2) from problem
    size = file.stat().st_size
    typer.echo(f"{file}: {len(members)} files, {size} bytes; look through it before you send it on")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(doctor)
    app.command("support-bundle")(support_bundle)


def _on_cluster(kubeconfig: Path | None, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """Runs `work` with a client; ends with exit code 2 if the cluster cannot be reached."""

    async def connected() -> T:
        async with await Client.connect(kubeconfig, user_agent="muster-doctor") as client:
            return await work(client)

    try:
        return asyncio.run(connected())
    except KubeError as problem:
        typer.echo(f"muster: {problem}", err=True)
        raise typer.Exit(2) from problem
