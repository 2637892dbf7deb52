"""`muster lab`: what a trace of jobs would do on a cluster, in virtual time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import structlog
import typer

from analysis.lab.amounts import seconds_of
from analysis.lab.cluster import Cluster, cluster_of_snapshot, read_cluster
from analysis.lab.errors import LabError
from analysis.lab.generate import generate, read_recipe
from analysis.lab.importers import IMPORTERS
from analysis.lab.limits import broken, limit_of
from analysis.lab.page import page
from analysis.lab.record import Recording, record
from analysis.lab.report import reference_text, table, to_json
from analysis.lab.results import result_of
from analysis.lab.simulation import Simulation
from analysis.lab.trace import Job, read_trace, write_trace
from analysis.lab.variants import variant_of
from cli.commands.cluster_copy import echo, read_snapshot
from cli.commands.options import Kubeconfig, user_errors
from kube.client.client import Client
from kube.client.resources import PODS
from scheduler.support.kinds import GROUPS

lab = typer.Typer(
    no_args_is_help=True,
    help="Play a trace of jobs on a simulated cluster, in virtual time; compare variants.",
)

_Recipe = Annotated[Path | None, typer.Option("--recipe", help="draw a trace by this YAML file")]
_Seed = Annotated[int, typer.Option(help="of the trace that is drawn")]


@lab.command()
def run(  # noqa: PLR0917 - options, which are given by name
    cluster: Annotated[
        Path | None, typer.Option("--cluster", help="a YAML file with pools of nodes")
    ] = None,
    snapshot: Annotated[
        Path | None, typer.Option("--snapshot", help="the nodes of a `muster snapshot` instead")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="the jobs, as CSV or JSON lines")
    ] = None,
    recipe: _Recipe = None,
    seed: _Seed = 1,
    variant: Annotated[
        list[str] | None,
        typer.Option("--variant", help='what to compare, as "spread+nodes=8"; may be repeated'),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="end there, as 7d; default: when all jobs have ended")
    ] = None,
    json: Annotated[Path | None, typer.Option("--json", help="write the results here")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="write a report with plots here")
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option("--fail-if", help="exit code 1 if this holds, as 'wait.p99 > 1h'"),
    ] = None,
) -> None:
    """Play the trace once for each variant, and say how long jobs waited and what was used."""
    with user_errors(), _quiet():
        nodes, jobs = _cluster(cluster, snapshot), _jobs(trace, recipe, seed)
        limits = [limit_of(each) for each in fail_if or ()]
        variants = [variant_of(each) for each in variant or ["muster"]]
        if len({each.name for each in variants}) < len(variants):
            raise LabError("--variant: two of them are the same")
        end = None if until is None else _time(until)
        results = []
        for each in variants:
            begun = time.perf_counter()
            simulated = Simulation(nodes, jobs, each).run(end)
            seconds = max(time.perf_counter() - begun, 1e-9)
            results.append(result_of(simulated))
            rate = f"{simulated.decisions / seconds:.0f} decisions/s"
            typer.echo(f"{each.name}: {len(jobs)} jobs in {seconds:.1f} s, {rate}", err=True)
        echo([*table(results), f"fragments are counted in pods of {reference_text(results[0])}"])
        if json is not None:
            json.write_bytes(to_json(results))
        if html is not None:
            html.write_text(page(results, _title(trace, recipe, seed)), "utf-8")
        _judge(broken(limits, results))


@lab.command("generate")
def generate_(
    recipe: Annotated[Path, typer.Argument(help="a YAML file that says what to draw")],
    seed: _Seed = 1,
) -> None:
    """Draw a trace, and print it as JSON lines; the same seed gives the same trace."""
    with user_errors():
        typer.echo(write_trace(generate(read_recipe(recipe), seed)), nl=False)


@lab.command("import")
def import_(
    kind: Annotated[str, typer.Argument(metavar="FORMAT", help="openb, philly or borg")],
    file: Annotated[Path, typer.Argument(help="the published file")],
) -> None:
    """Print a published trace as a trace of the lab, in JSON lines."""
    with user_errors():
        if kind not in IMPORTERS:
            raise LabError(f"there is no format {kind!r}; there are {', '.join(IMPORTERS)}")
        typer.echo(write_trace(IMPORTERS[kind](file)), nl=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the scheduler's logs, which would report on a cluster that does not exist."""
    before = structlog.get_config()["wrapper_class"]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        yield
    finally:
        structlog.configure(wrapper_class=before)


@lab.command("record")
def record_(kubeconfig: Kubeconfig = None) -> None:
    """Print what a cluster's groups and pods tell of the past as a trace, in JSON lines."""
    with user_errors():
        recorded = asyncio.run(_recorded(kubeconfig))
        typer.echo(write_trace(recorded.jobs), nl=False)
    typer.echo(
        f"{len(recorded.jobs)} jobs; {recorded.running} of them still run, and have the time so"
        f" far as their duration; left out: {recorded.waiting} that wait, and {recorded.odd}"
        " objects that cannot be read",
        err=True,
    )


async def _recorded(kubeconfig: Path | None) -> Recording:
    async with await Client.connect(kubeconfig, user_agent="muster-cli") as client:
        groups = [
            (resource.kind, group)
            for resource in GROUPS.values()
            for group in (await client.list(resource))["items"]
        ]
        pods = (await client.list(PODS))["items"]
        return record(groups, pods, client.server_clock.now().timestamp())


def _cluster(file: Path | None, snapshot: Path | None) -> Cluster:
    if (file is None) == (snapshot is None):
        raise LabError("name the nodes: either --cluster FILE or --snapshot FILE")
    if snapshot is not None:
        return cluster_of_snapshot(read_snapshot(snapshot))
    return read_cluster(file or Path())


def _jobs(trace: Path | None, recipe: Path | None, seed: int) -> list[Job]:
    if (trace is None) == (recipe is None):
        raise LabError("name the jobs: either --trace FILE or --recipe FILE")
    if recipe is not None:
        return generate(read_recipe(recipe), seed)
    return read_trace(trace or Path())


def _time(written: str) -> float:
    try:
        return seconds_of(written)
    except ValueError as error:
        raise LabError(f"--until: {error}") from error


def _title(trace: Path | None, recipe: Path | None, seed: int) -> str:
    return f"{trace.name}" if trace is not None else f"{recipe and recipe.name}, seed {seed}"


def _judge(lines: list[str]) -> None:
    for line in lines:
        typer.echo(line, err=True)
    if lines:
        raise typer.Exit(1)
