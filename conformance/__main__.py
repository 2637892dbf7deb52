"""The command: `python -m conformance --adapter NAME`; installed it is `gang-conformance`."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from kubernetes.config import ConfigException
from yaml import YAMLError

from conformance import report
from conformance.adapters import ADAPTERS
from conformance.cluster import FAILURES, Cluster
from conformance.runner import Limits, Result, Runner
from conformance.values.scenario import FOLDER, Scenario, ScenarioError, load

FAILED, WRONG_USE = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every scenario passed or is not supported, 1 if one did not, 2 for wrong use."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    try:
        scenarios = _select(load(chosen.scenarios), chosen.scenario, core=chosen.core)
    except ScenarioError as error:
        parser.error(str(error))
    if chosen.list:
        print(*(f"{it.name}: {it.title}" for it in scenarios), sep="\n")
        return 0
    if chosen.adapter is None:
        parser.error("--adapter is required")
    try:
        cluster = Cluster(chosen.kubeconfig, chosen.context)
        version = cluster.version()
        for plural in ("nodes", "pods"):  # what the recorder has to see
            cluster.get(f"/api/v1/{plural}", limit=1)
    except (ConfigException, YAMLError, *FAILURES) as error:
        parser.error(f"the cluster cannot be read: {error}")
    # A CI system that gives up leaves no nodes behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    adapter = ADAPTERS[chosen.adapter]
    runner = Runner(
        cluster=cluster,
        adapter=adapter,
        scheduler=chosen.scheduler or adapter.scheduler,
        kill=chosen.kill,
        limits=Limits(grace=chosen.grace, patience=chosen.patience, quiet=chosen.quiet),
    )
    print(f"{chosen.adapter} on Kubernetes {version}", flush=True)
    results = []
    for scenario in scenarios:
        results.append(runner.run(scenario))
        print(report.line(results[-1]), flush=True)
        if chosen.keep:
            _keep(results[-1], chosen.keep)
        if chosen.junit:
            chosen.junit.write_text(report.junit(results, f"gang-conformance.{chosen.adapter}"))
    print(report.total(results))
    return FAILED if any(it.outcome in {"failed", "error"} for it in results) else 0


def _select(scenarios: Sequence[Scenario], names: Sequence[str], *, core: bool) -> list[Scenario]:
    """Return the chosen scenarios. Raises ScenarioError for an unknown name."""
    if unknown := set(names) - {it.name for it in scenarios}:
        raise ScenarioError(f"there is no scenario {', '.join(sorted(unknown))}")
    return [it for it in scenarios if (it.name in names or not names) and (it.core or not core)]


def _keep(result: Result, folder: Path) -> None:
    """Write the history as one JSON value a line."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = (msgspec.json.encode(event) for event in result.history)
    (folder / f"{result.scenario.name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gang-conformance",
        description="Check a gang scheduler on the KWOK nodes of a cluster.",
    )
    add, limits = parser.add_argument, Limits()
    add("--adapter", choices=sorted(ADAPTERS), help="whose API states a gang")
    add("--kubeconfig", type=Path, help="default: KUBECONFIG, or ~/.kube/config")
    add("--context", help="a context of the kubeconfig, if not its current one")
    add("--scheduler", default="", help="schedulerName of pods, if not the adapter's")
    add("--kill", default="", help="a shell command that kills the scheduler, which must restart")
    add("--core", action="store_true", help="only the scenarios that are marked as core")
    add("--scenario", action="append", default=[], metavar="NAME", help="may be repeated")
    add("--scenarios", type=Path, default=FOLDER, help="another folder of scenarios")
    add("--list", action="store_true", help="print names and titles, and run nothing")
    add("--grace", type=float, default=limits.grace, help="seconds that a gang may be half")
    add("--patience", type=float, default=limits.patience, help="seconds until a state is reached")
    add("--quiet", type=float, default=limits.quiet, help="seconds without change that settle")
    add("--junit", type=Path, help="write JUnit XML to this file")
    add("--keep", type=Path, help="write the history of each scenario to this folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
