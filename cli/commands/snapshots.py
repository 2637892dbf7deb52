"""`muster snapshot` and `muster replay`, and the trees of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer

from analysis.explain.explain import blocker_lines, placed_line, qualified_name
from api.wording import count
from cli.commands.cluster_copy import cluster_copy, echo, read_snapshot
from cli.commands.options import ConfigFile, Context, Kubeconfig, user_errors
from cli.config.config import load
from cli.trees.snapshot_tree import branches
from cli.trees.tree import Branch
from kube.credentials.loading import ClientConfig
from scheduler.snapshot import snapshot as snapshots
from scheduler.snapshot.snapshot import Decision, encode


def snapshot_(
    file: Annotated[Path, typer.Argument(help="file for the snapshot")],
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: ConfigFile = None,
) -> None:
    """Write the complete input of the scheduler to a file, for explain, tree and replay."""
    with user_errors():
        copy = cluster_copy(ClientConfig(kubeconfig, context), None, load(config))
        queue = snapshots.queue_of(copy.state)
        taken = snapshots.take(copy.state, queue, copy.limits, copy.pods.priority_classes)
        data = encode(taken)
        file.write_bytes(data)
    typer.echo(f"{file}: {len(data)} bytes, {count(len(queue.waiting()), 'pending group')}")


def replay(file: Annotated[Path, typer.Argument(help="snapshot file")]) -> None:
    """Repeat the decisions of a snapshot; exit code 1 if one differs from the recorded one."""
    with user_errors():
        recorded = read_snapshot(file)
        state, queue = snapshots.restore(recorded)
        again = list(snapshots.decide_all(state, queue.waiting(), recorded.limits))
    same = True
    for now, then in zip_longest(again, recorded.decisions):
        # A snapshot has the decisions on the first roots of its queue only. A root without a
        # recorded decision cannot differ.
        agrees = then is None or (now is not None and encode(now) == encode(then))
        same = same and agrees
        echo(_decision_lines(now or then, "" if then is None else _verdict(agrees=agrees)))
        if not agrees and now and then:
            echo(["  recorded decision:", *_decision_lines(then, "")])
    if not same:
        raise typer.Exit(1)


def branches_of(file: Path) -> tuple[Branch, ...]:
    """Return the trees of a snapshot. Raises ConfigError."""
    recorded = read_snapshot(file)
    state, _ = snapshots.restore(recorded)
    return branches(state, recorded.limits.budget())


def _decision_lines(decision: Decision | None, result: str) -> Iterator[str]:
    if decision is None:
        return
    yield f"{qualified_name(decision.root)}{result}"
    if decision.blocker is None:
        yield f"  scheduled on: {placed_line(decision.placed or {})}"
    else:
        yield from (f"  {line}" for line in blocker_lines(decision.blocker))
    if decision.evicts:
        yield f"  evicts {', '.join(decision.evicts)}"
    if decision.nominated is not None:
        yield f"  then scheduled on {placed_line(decision.nominated)}"


def _verdict(*, agrees: bool) -> str:
    return ": as recorded" if agrees else ": NOT as recorded"
