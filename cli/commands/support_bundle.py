"""`muster support-bundle`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from api.wording import count
from cli.commands.options import (
    Context,
    Health,
    Kubeconfig,
    SystemNamespace,
    TrialNamespace,
    on_cluster,
    user_errors,
)
from cli.doctor.examination import Options
from cli.support.support_bundle import collect, write
from kube.credentials.loading import ClientConfig


def support_bundle(
    file: Annotated[Path, typer.Argument(help="file for the bundle, a .tar.gz")],
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    system_namespace: SystemNamespace = "muster-system",
    trial_namespace: TrialNamespace = "default",
    health: Health = None,
) -> None:
    """Write findings, logs, metrics, a snapshot, Muster's objects and events to a file.

    It contains no Secrets, environment variables, commands and arguments.
    """
    options = Options(system_namespace, trial_namespace, tuple(health or ()))
    access = ClientConfig(kubeconfig, context)
    with user_errors():
        members = on_cluster(access, lambda client: collect(client, options), "doctor")
    try:
        write(file, members)
    except OSError as problem:
        typer.echo(f"muster: {file}: {problem.strerror}", err=True)
        raise typer.Exit(2) from problem
    size = file.stat().st_size
    files = count(len(members), "file")
    typer.echo(f"{file}: {files}, {size} bytes; check the contents before you share it")
