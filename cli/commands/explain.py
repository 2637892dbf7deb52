"""`muster explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from analysis.explain.explain import explain_lines, find
from analysis.explain.owners import owner_lines
from cli.commands.cluster_copy import cluster_copy, echo
from cli.commands.options import (
    ConfigFile,
    Kubeconfig,
    Namespace,
    SnapshotFile,
    on_cluster,
    user_errors,
)
from cli.config.config import load
from kube.base.errors import ConfigError


def explain(
    what: Annotated[
        str,
        typer.Argument(help="KIND/NAME, such as jobset/train, deployment/serve or podgroup/pg-a"),
    ],
    kubeconfig: Kubeconfig = None,
    snapshot: SnapshotFile = None,
    namespace: Namespace = None,
    config: ConfigFile = None,
) -> None:
    """Show why a pod, a group or its owner waits, or where it would be scheduled now."""
    with user_errors():
        copy = cluster_copy(kubeconfig, snapshot, load(config))
        where = namespace or copy.namespace
        try:
            found = find(copy.state, copy.observed, what, where)
        except ConfigError:
            # An owner that has no group yet may still have a message of its own. A snapshot has no
            # owners.
            if snapshot is not None:
                raise
            said = on_cluster(kubeconfig, lambda client: owner_lines(client, what, where))
            if not said:
                raise
            echo(said)
            return
        for entity in found:
            echo(explain_lines(copy.state, entity, copy.budget, copy.gates, copy.observed))
