"""`muster defrag`."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Annotated, Final

import typer

from analysis.defrag.defrag import Defragmented, answers_of, lines_of
from analysis.explain.explain import find
from api.constants import ANNOTATION_DEFRAGMENT_UNTIL
from cli.commands.cluster_copy import cluster_copy, echo
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
from kube.base.clock import rfc3339
from kube.base.errors import ConfigError
from kube.client.client import Client
from kube.client.patch import PatchBuilder, pointer
from kube.credentials.loading import ClientConfig
from scheduler.core.defragmentation.movable import MoveLimits
from scheduler.core.groups.forest import Group, Pod
from scheduler.support.kinds import GROUP_RESOURCES

_ASKED_FOR: Final = timedelta(minutes=10)
"""The time for which `--apply` asks the scheduler to move gangs for a group."""


def defrag(
    what: Annotated[
        str,
        typer.Argument(
            help="KIND/NAME of the pending object, as for explain", autocompletion=objects
        ),
    ],
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    snapshot: SnapshotFile = None,
    namespace: Namespace = None,
    config: ConfigFile = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="ask the scheduler for 10 minutes to move gangs")
    ] = False,
    format_: OutputOption = None,
) -> None:
    """Show which gangs would have to move so that a pending group fits; --apply asks for it.

    Without --apply nothing changes. With it, the scheduler decides again, and evicts. Exit code: 1
    if no moves help, 2 for an error.
    """
    with user_errors():
        if apply and snapshot is not None:
            raise ConfigError("--apply: cannot be used with --snapshot: use one of them")
        access, file = ClientConfig(kubeconfig, context), load(config)
        copy = cluster_copy(access, snapshot, file)
        own = file.scheduler.defragmentation
        limits = MoveLimits(own.gangs_per_move, lambda _namespace: own.gangs_per_hour)
        named = find(copy.state, copy.observed, what, namespace or copy.namespace)
        roots = {root.key: root for root in (entity.top for entity in named)}
        effort = copy.limits.effort()
        answers = answers_of(copy.state, roots.values(), copy.budget, limits, effort=effort)
        asked = [
            root
            for root, answer in zip(roots.values(), answers, strict=True)
            if apply and answer.result == "moves"
        ]
        for root in asked:
            on_cluster(access, partial(_ask, root), "defrag")
    names = (full_name(*answer.id.split("/", 2)[1:]) for answer in answers)
    if not print_structured(format_, {"items": answers}, names):
        _print(answers, asked=bool(asked))
    if any(answer.result == "no" for answer in answers):
        raise typer.Exit(1)


def _print(answers: list[Defragmented], *, asked: bool) -> None:
    for answer in answers:
        echo(lines_of(answer))
    if asked:
        typer.echo("The scheduler was asked to move them: see the events of the pending group.")
    elif any(answer.result == "moves" for answer in answers):
        typer.echo("Nothing is moved: add --apply.")


async def _ask(root: Group | Pod, client: Client) -> None:
    """Write the annotation that asks the scheduler. Raises kube errors, and ConfigError."""
    kind, namespace, name = root.key
    if isinstance(root, Pod):
        raise ConfigError(f"pod {name} has no group: --apply needs one, create a PodGroup for it")
    resource = GROUP_RESOURCES[kind]
    found = await client.get(resource, name, namespace)
    patch = PatchBuilder().at_version(found["metadata"]["resourceVersion"])
    if not found["metadata"].get("annotations"):
        patch.add("/metadata/annotations", {})
    until = rfc3339(client.server_clock.now() + _ASKED_FOR)
    patch.add(pointer("metadata", "annotations", ANNOTATION_DEFRAGMENT_UNTIL), until)
    await client.patch(resource, name, patch, namespace)
