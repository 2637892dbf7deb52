"""`muster explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.cluster_copy import cluster_copy, echo
from cli.commands.options import ConfigFile, Kubeconfig, Namespace, SnapshotFile, user_errors
from cli.config import load
from cli.explain import explain_lines, find


def explain(
    what: Annotated[str, typer.Argument(help="KIND/NAME, such as jobset/train or podgroup/pg-a")],
    kubeconfig: Kubeconfig = None,
    snapshot: SnapshotFile = None,
    namespace: Namespace = None,
    config: ConfigFile = None,
) -> None:
    """Say why a pod, group, Job or JobSet waits, or where it would go now."""
    with user_errors():
        copy = cluster_copy(kubeconfig, snapshot, load(config))
        for entity in find(copy.state, copy.observed, what, namespace or copy.namespace):
            echo(explain_lines(copy.state, entity, copy.budget, copy.gates))
