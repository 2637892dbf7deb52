"""`muster fit`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from analysis.fit.fit import fit as answer_of
from analysis.fit.known_ends import Times
from analysis.fit.messages import FitAnswer, FitRequest, FitWorkload
from analysis.fit.text import lines_of
from analysis.simulate.deciding import Setup
from analysis.simulate.documents import documents_in
from cli.commands.cluster_copy import ClusterCopy, cluster_copy, echo
from cli.commands.console_client import ConsoleServer, ask_console
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
from kube.base.clock import SystemClock
from kube.base.errors import ConfigError
from kube.credentials.loading import ClientConfig
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.snapshot import snapshot as snapshots
from scheduler.watch.published_places import published_until


def fit(
    files: Annotated[
        list[Path], typer.Option("--filename", "-f", help="YAML manifests of one workload")
    ],
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    snapshot: SnapshotFile = None,
    namespace: Namespace = None,
    config: ConfigFile = None,
    together: Annotated[
        bool, typer.Option("--together", help="decide each file after those before it")
    ] = False,
    server: Annotated[
        str | None, typer.Option(help="ask the console at this URL instead of reading the cluster")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="--server: file with the token; default: the one of the kubeconfig"),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(help="--server: certificate authority; default: those of the system"),
    ] = None,
    format_: OutputOption = None,
) -> None:
    """Show whether workloads would fit now; exit code 1 if one does not.

    Each file is a workload of its own: where it would be, whom it would evict, or why it waits.
    """
    with user_errors():
        workloads = [FitWorkload(objects=list(documents_in([file]))) for file in files]
        access = ClientConfig(kubeconfig, context)
        if server is not None:
            if snapshot is not None:
                raise ConfigError("--snapshot: cannot be used with --server: use one of them")
            console = ConsoleServer(server, token_file, ca_file)
            answer = ask_console(console, access, workloads, namespace, together=together)
        else:
            copy = cluster_copy(access, snapshot, load(config), for_new_pods=True)
            request = FitRequest(
                workloads=workloads, together=together, namespace=namespace or copy.namespace
            )
            answer = _answer(copy, request, live=snapshot is None)
    roots = [root for each in answer.workloads for root in each.roots]
    names = (full_name(*root.id.split("/", 2)[1:]) for root in roots)
    if not print_structured(format_, answer, names):
        echo(lines_of(answer))
    if any(each.fits != "yes" for each in answer.workloads):
        raise typer.Exit(1)


def _answer(copy: ClusterCopy, request: FitRequest, *, live: bool) -> FitAnswer:
    """Return the answer of a copy of the cluster. The ends of pods are known if it is current."""
    setup = Setup(
        budget=copy.budget,
        effort=copy.limits.effort(),
        preempts=copy.limits.preempts,
        pods=copy.pods,
        schedulers=copy.scheduler_names,
        gates=copy.gates,
    )

    def held_until(key: GroupKey) -> float | None:
        until = published_until(copy.observed.get(key))
        return None if until is None else until.timestamp()

    def copied() -> State:
        state, limits = copy.state, copy.limits
        priorities = list(copy.pods.priority_classes)
        queue = snapshots.queue_of(state)
        return snapshots.restore(snapshots.take(state, queue, limits, priorities, decisions=0))[0]

    times = Times(time.time(), SystemClock().monotonic(), held_until) if live else None
    return answer_of(copy.state, request, setup, times, copied)
