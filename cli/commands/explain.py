"""`muster explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from analysis.explain.explain import explain_lines, find
from analysis.explain.owners import owner_lines
from cli.commands.cluster_copy import ClusterCopy, cluster_copy, echo
from cli.commands.completion import objects
from cli.commands.options import (
    ConfigFile,
    Context,
    Kubeconfig,
    Namespace,
    SnapshotFile,
    on_cluster,
    user_errors,
)
from cli.commands.output import OutputOption, full_name, print_structured
from cli.config.config import load
from kube.base.errors import ConfigError
from kube.credentials.loading import ClientConfig
from scheduler.core.groups.groups import Group, Pod
from scheduler.snapshot import snapshot as snapshots
from scheduler.snapshot.snapshot import Decision


def explain(
    what: Annotated[
        str,
        typer.Argument(
            help="KIND/NAME, such as jobset/train, deployment/serve or podgroup/pg-a",
            autocompletion=objects,
        ),
    ],
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    snapshot: SnapshotFile = None,
    namespace: Namespace = None,
    config: ConfigFile = None,
    format_: OutputOption = None,
) -> None:
    """Show why a pod, a group or its owner waits, or where it would be scheduled now."""
    with user_errors():
        access = ClientConfig(kubeconfig, context)
        copy = cluster_copy(access, snapshot, load(config))
        where = namespace or copy.namespace
        try:
            found = find(copy.state, copy.observed, what, where)
        except ConfigError:
            # An owner that has no group yet may still have a message of its own. A snapshot has no
            # owners.
            if snapshot is not None:
                raise
            said = on_cluster(access, lambda client: owner_lines(client, what, where))
            if not said:
                raise
            kind, _, name = what.partition("/")
            explained = [Explained(kind, where, name, said)]
        else:
            explained = [_explained(copy, entity) for entity in found]
    names = (full_name(one.kind, one.name) for one in explained)
    if not print_structured(format_, {"items": explained}, names):
        for one in explained:
            echo(one.explanation)


@dataclass(frozen=True, slots=True)
class Explained:
    """A pod, group or owner, and the lines that explain why it waits or where it would be."""

    kind: str
    namespace: str
    name: str
    explanation: list[str]
    decision: Decision | None = None


def _explained(copy: ClusterCopy, entity: Group | Pod) -> Explained:
    lines = [*explain_lines(copy.state, entity, copy.budget, copy.gates, copy.observed)]
    group = entity.group if isinstance(entity, Pod) else entity
    root = entity.key if group is None else group.top.key
    # Like the scheduler: only what waits, and is complete, is decided.
    waiting = [key for key in snapshots.queue_of(copy.state).waiting() if key == root]
    decisions = snapshots.decide_all(copy.state, waiting, copy.limits)
    return Explained(*entity.key, lines, next(decisions, None))
