"""The commands that ask the solver: `muster explain`, `simulate`, `snapshot` and `replay`.

All of them work on a copy of the cluster, read once, or on a snapshot file.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer

from api.priority import PriorityClass
from api.scheduler_names import USUAL, SchedulerNames
from cli.config import File, load
from cli.explain import blocker_lines, explain_lines, find, placed_line, qualified_name
from cli.simulate import documents_of, simulate
from cli.snapshot_tree import branches
from cli.text import tree_lines
from kube.client import Client
from kube.errors import ConfigError, KubeError
from scheduler import snapshot as snapshots
from scheduler.config import Preemption
from scheduler.core.model import GroupKey
from scheduler.core.place import SearchBudget
from scheduler.core.preemption.dry_run import Effort
from scheduler.core.state import State
from scheduler.snapshot import Decision, Limits, Snapshot, encode
from scheduler.watch.informers import read
from scheduler.watch.objects import GroupObject

Kubeconfig = Annotated[Path | None, typer.Option(help="default: $KUBECONFIG, else ~/.kube/config")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="Muster's configuration file, for its schedulerNames"),
]
SnapshotFile = Annotated[
    Path | None, typer.Option("--snapshot", help="a snapshot file instead of the live cluster")
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="for names without one")]


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """A copy of a cluster to decide on; `observed` is empty for a snapshot, which has no owners."""

    state: State
    limits: Limits
    priorities: list[PriorityClass]
    observed: Mapping[GroupKey, GroupObject] = field(default_factory=dict)

    @property
    def scheduler_names(self) -> SchedulerNames:
        """Whose pods are Muster's there."""
        names = tuple(self.limits.profiles)
        return SchedulerNames(names) if names else USUAL

    @property
    def budget(self) -> SearchBudget:
        return self.limits.budget()


def explain(
    what: Annotated[str, typer.Argument(help="KIND/NAME, such as jobset/train or podgroup/pg-a")],
    kubeconfig: Kubeconfig = None,
    snapshot: SnapshotFile = None,
    namespace: Namespace = "default",
    config: ConfigFile = None,
) -> None:
    """Say why a pod, group, Job or JobSet waits, or where it would go now."""
    with user_errors():
        copy = _cluster_copy(kubeconfig, snapshot, load(config))
        for entity in find(copy.state, copy.observed, what, namespace):
            _print(explain_lines(copy.state, entity, copy.budget))


def simulate_(
    files: Annotated[list[Path], typer.Option("--filename", "-f", help="YAML manifests")],
    kubeconfig: Kubeconfig = None,
    snapshot: SnapshotFile = None,
    namespace: Namespace = "default",
    config: ConfigFile = None,
) -> None:
    """Say whether manifests would fit, where, and if not why; exit code 1 if one would not."""
    with user_errors():
        documents = list(documents_of(files))
        copy = _cluster_copy(kubeconfig, snapshot, load(config))
        lines = simulate(
            copy.state,
            documents,
            namespace,
            copy.budget,
            copy.priorities,
            schedulers=copy.scheduler_names,
        )
    _print(lines or ["nothing to place"])
    if any(line.startswith("  waits") for line in lines):
        raise typer.Exit(1)


def snapshot_(
    file: Annotated[Path, typer.Argument(help="where to write it")],
    kubeconfig: Kubeconfig = None,
    config: ConfigFile = None,
) -> None:
    """Write the whole input of the scheduler to one file, for explain, tree and replay."""
    with user_errors():
        copy = _cluster_copy(kubeconfig, None, load(config))
        queue = snapshots.queue_of(copy.state)
        taken = snapshots.take(copy.state, queue, copy.limits, copy.priorities)
        data = encode(taken)
        file.write_bytes(data)
    typer.echo(f"{file}: {len(data)} bytes, {len(queue.waiting())} roots wait")


def replay(file: Annotated[Path, typer.Argument(help="a snapshot")]) -> None:
    """Decide a snapshot's queue again; exit code 1 if a recorded decision comes out differently."""
    with user_errors():
        recorded = _read(file)
        state, queue = snapshots.restore(recorded)
        again = list(snapshots.decide_all(state, queue.waiting(), recorded.limits))
    same = True
    for now, then in zip_longest(again, recorded.decisions):
        agrees = then is None or (now is not None and encode(now) == encode(then))
        same = same and agrees
        _print(_decision_lines(now or then, "" if then is None else _verdict(agrees=agrees)))
        if not agrees and now and then:
            _print(["  it was recorded as:", *_decision_lines(then, "")])
    if not same:
        raise typer.Exit(1)


def tree_of(file: Path) -> list[str]:
    """The trees of a snapshot. Raises ConfigError."""
    recorded = _read(file)
    state, _ = snapshots.restore(recorded)
    return tree_lines(branches(state, recorded.limits.budget()))


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(explain)
    app.command("simulate")(simulate_)
    app.command("snapshot")(snapshot_)
    app.command()(replay)


def _cluster_copy(kubeconfig: Path | None, snapshot: Path | None, file: File) -> ClusterCopy:
    if snapshot is not None:
        recorded = _read(snapshot)
        state, _ = snapshots.restore(recorded)
        return ClusterCopy(state, recorded.limits, recorded.priorities)

    async def read_cluster() -> ClusterCopy:
        async with await Client.connect(kubeconfig, user_agent="muster-cli") as client:
            sources = await read(client, scheduler_names=file.scheduler_names)
            effort = Effort.at(time.time(), Preemption().patience_seconds)
            limits = Limits.of(SearchBudget(profiles=file.scoring), effort)
            return ClusterCopy(
                sources.state, limits, sources.priority_classes.all(), sources.observed
            )

    return asyncio.run(read_cluster())


def _read(file: Path) -> Snapshot:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    return snapshots.decode(data, str(file))


def _decision_lines(decision: Decision | None, result: str) -> Iterator[str]:
    if decision is None:
        return
    yield f"{qualified_name(decision.root)}{result}"
    if decision.blocker is None:
        yield f"  placed: {placed_line(decision.placed or {})}"
    else:
        yield from (f"  {line}" for line in blocker_lines(decision.blocker))
    if decision.evicts:
        yield f"  evicts {', '.join(decision.evicts)}"
    if decision.nominated is not None:
        yield f"  then goes to {placed_line(decision.nominated)}"


def _verdict(*, agrees: bool) -> str:
    return ": as recorded" if agrees else ": NOT as recorded"


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


@contextmanager
def user_errors() -> Iterator[None]:
    """Prints errors that a user can act on without a traceback; exit code 2."""
    try:
        yield
    except (KubeError, OSError) as error:
        sys.stderr.write(f"muster: {error}\n")
        raise typer.Exit(2) from error
