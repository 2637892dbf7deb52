"""`muster simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.simulate.documents import documents_in
from analysis.simulate.simulate import simulate
from cli.commands.cluster_copy import cluster_copy, echo
from cli.commands.options import (
    ConfigFile,
    Context,
    Kubeconfig,
    Namespace,
    SnapshotFile,
    user_errors,
)
from cli.commands.output import OutputOption, full_name, print_structured
from cli.config.config import load
from kube.credentials.loading import ClientConfig


def simulate_(
    files: Annotated[list[Path], typer.Option("--filename", "-f", help="YAML manifests")],
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    snapshot: SnapshotFile = None,
    namespace: Namespace = None,
    config: ConfigFile = None,
    format_: OutputOption = None,
) -> None:
    """Show whether manifests would fit, where, and if not why; exit code 1 if one does not."""
    with user_errors():
        documents = list(documents_in(files))
        access = ClientConfig(kubeconfig, context)
        copy = cluster_copy(access, snapshot, load(config), for_new_pods=True)
        found = simulate(
            copy.state,
            documents,
            namespace or copy.namespace,
            copy.budget,
            copy.pods,
            schedulers=copy.scheduler_names,
            gates=copy.gates,
        )
    names = (full_name(root.kind, root.name) for root in found.roots)
    if not print_structured(format_, {"fits": found.fits, **found._asdict()}, names):
        echo(found.lines or ["nothing to schedule"])
    if not found.fits:
        raise typer.Exit(1)
