"""`muster lab`: what a trace of jobs would do on a cluster, in virtual time."""

from __future__ import annotations

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
from analysis.lab.errors import LabError, input_of
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
from api.wording import count
from cli.commands.cluster_copy import echo, read_snapshot
from cli.commands.options import Context, Kubeconfig, on_cluster, user_errors
from cli.trees.listing import list_items
from kube.client.client import Client
from kube.client.resources import PODS
from kube.credentials.loading import ClientConfig
from scheduler.support.kinds import GROUP_RESOURCES

lab = typer.Typer(
    no_args_is_help=True,
    help="Run a trace of jobs on a simulated cluster, in virtual time; compare variants.",
)

_Recipe = Annotated[
    Path | None, typer.Option("--recipe", help="YAML file with the recipe of a random trace")
]
_Seed = Annotated[int, typer.Option(help="seed of the random trace")]


@lab.command()
def run(  # noqa: PLR0917 - options, which are given by name
    cluster: Annotated[
        Path | None, typer.Option("--cluster", help="YAML file with pools of nodes")
    ] = None,
    snapshot: Annotated[
        Path | None, typer.Option("--snapshot", help="use the nodes of a `muster snapshot` instead")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="file with the jobs, as CSV or JSON lines")
    ] = None,
    recipe: _Recipe = None,
    seed: _Seed = 1,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            "--variant", help='variant to compare, such as "spread+nodes=8"; can be repeated'
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="end of the simulation, such as 7d; default: the end of all jobs"),
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="write the results to this file")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="write a report with plots to this file")
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option("--fail-if", help="exit with code 1 if this is true, such as 'wait.p99 > 1h'"),
    ] = None,
) -> None:
    """Run the trace once for each variant, and print how long jobs waited and what they used."""
    with user_errors(), _quiet():
        nodes, jobs = _cluster(cluster, snapshot), _jobs(trace, recipe, seed)
        limits = [limit_of(each) for each in fail_if or ()]
        variants = [variant_of(each) for each in variant or ["muster"]]
        if len({each.name for each in variants}) < len(variants):
            raise LabError("--variant: Duplicate value: use each variant once")
        with input_of("--until"):
            end = None if until is None else seconds_of(until)
        results = []
        for each in variants:
            begun = time.perf_counter()
            simulated = Simulation(nodes, jobs, each).run(end)
            seconds = max(time.perf_counter() - begun, 1e-9)
            results.append(result_of(simulated))
            rate = f"{simulated.decisions / seconds:.0f} decisions/s"
            typer.echo(
                f"{each.name}: {count(len(jobs), 'job')} in {seconds:.1f} s, {rate}", err=True
            )
        echo([*table(results), reference_text(results[0])])
        if json is not None:
            json.write_bytes(to_json(results))
        if html is not None:
            title = f"{recipe and recipe.name}, seed {seed}" if trace is None else trace.name
            html.write_text(page(results, title), "utf-8")
        _check_limits(broken(limits, results))


@lab.command("generate")
def generate_(
    recipe: Annotated[Path, typer.Argument(help="YAML file with the recipe")],
    seed: _Seed = 1,
) -> None:
    """Print a random trace as JSON lines. The same seed gives the same trace."""
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
            raise LabError(f"unknown format {kind!r}: use {', '.join(IMPORTERS)}")
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
def record_(kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Print the past of a cluster's groups and pods as a trace, in JSON lines."""
    with user_errors():
        recorded = on_cluster(ClientConfig(kubeconfig, context), _recorded)
        typer.echo(write_trace(recorded.jobs), nl=False)
    typer.echo(
        f"{count(len(recorded.jobs), 'job')}; {recorded.running} still running, with their time so"
        f" far as duration; left out: {recorded.waiting} waiting, {recorded.odd} that cannot be"
        " decoded",
        err=True,
    )


async def _recorded(client: Client) -> Recording:
    groups = [
        (kind, group)
        for kind, resource in GROUP_RESOURCES.items()
        for group in await list_items(client, resource, None)
    ]
    pods = (await client.list(PODS))["items"]
    return record(groups, pods, client.server_clock.now().timestamp())


def _cluster(file: Path | None, snapshot: Path | None) -> Cluster:
    if (file is None) == (snapshot is None):
        raise LabError("use either --cluster FILE or --snapshot FILE")
    if snapshot is not None:
        return cluster_of_snapshot(read_snapshot(snapshot))
    return read_cluster(file or Path())


def _jobs(trace: Path | None, recipe: Path | None, seed: int) -> list[Job]:
    if (trace is None) == (recipe is None):
        raise LabError("use either --trace FILE or --recipe FILE")
    if recipe is not None:
        return generate(read_recipe(recipe), seed)
    return read_trace(trace or Path())


def _check_limits(lines: list[str]) -> None:
    for line in lines:
        typer.echo(line, err=True)
    if lines:
        raise typer.Exit(1)
