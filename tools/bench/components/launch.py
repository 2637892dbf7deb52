"""The cost of starting a command or process: python -m tools.bench.components.launch

Each command runs to its end on an embedded cluster with one group; each process runs until it is
ready. The table shows the processor time, user and system, and a process's resident memory once it
is ready. The least of several runs counts. A command's time includes its work on that cluster.

`--beside TREE` measures the code in another working tree in turn with this one, so that both have
the same machine. `--record` stores the results and updates docs/performance-results.md. Ends with 1
if a target was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from cli.demo.demo import install_kinds
from cli.servers.child_processes import free_port
from cli.trees.listing import POD_GROUPS
from kube.client.client import Client
from kube.client.resources import NAMESPACES
from localcluster.cluster import LocalCluster
from tools.bench import page
from tools.bench.decisions.churn import cpu, resident
from tools.bench.report import launch_results
from tools.bench.report.launch_results import Launched

ROOT: Final = Path(__file__).resolve().parents[3]

COMMANDS: Final[Mapping[str, float]] = {
    "--help": 0.3,
    "tree": 0.5,
    "explain podgroup/train": 0.9,
    "doctor --quiet": 0.7,
    "gc": 0.6,
}
"""Seconds of processor time, at most."""

PROCESSES: Final[Mapping[str, float]] = {"webhook": 0.9, "controller": 0.65, "scheduler": 1.0}
_READY_WITHIN: Final = 60.0

TRAIN: Final[Mapping[str, Any]] = {
    "apiVersion": POD_GROUPS.api_version,
    "kind": POD_GROUPS.kind,
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}


class UnknownError(Exception):
    """The other tree does not have this command."""


class Sample(NamedTuple):
    """Seconds of processor time; MiB resident, 0 for a command."""

    seconds: float
    mib: float = 0.0


class Bench:
    """Runner of commands and processes on one cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def command(self, tree: Path, name: str) -> Sample:
        """Run a command to its end. Raises UnknownError, and SystemExit if it was killed."""
        child = self._start(tree, name.split())
        assert child.stdout is not None
        with child.stdout as output:
            said = output.read()
        # `wait4` returns the usage of this child alone; `getrusage` sums up all children.
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode == 2:
            raise UnknownError(f"muster {name} is refused: {said.decode()}")
        if child.returncode < 0:
            raise SystemExit(f"muster {name} ended with {child.returncode}: {said.decode()}")
        return Sample(used.ru_utime + used.ru_stime)

    def process(self, tree: Path, name: str) -> Sample:
        """Run a process until it is ready. Raises SystemExit if it ends before."""
        health = free_port()
        arguments = [name, "--health", f"127.0.0.1:{health}", "--kubeconfig", str(self._kubeconfig)]
        if name == "webhook":
            arguments += ["--url", f"https://127.0.0.1:{free_port()}"]
        child = self._start(tree, arguments, quiet=True)
        try:
            _await_ready(child, name, f"http://127.0.0.1:{health}/readyz")
            return Sample(cpu(child.pid), resident(child.pid))
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait()

    def _start(
        self, tree: Path, arguments: Sequence[str], *, quiet: bool = False
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "cli", *arguments],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree), "KUBECONFIG": str(self._kubeconfig)},
            stdout=subprocess.DEVNULL if quiet else subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else subprocess.STDOUT,
        )


def _await_ready(child: subprocess.Popen[bytes], name: str, url: str) -> None:
    end = time.monotonic() + _READY_WITHIN
    while True:
        if child.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"muster {name} did not become ready")
        try:
            with urlopen(url, timeout=2):
                return
        except (URLError, OSError):
            time.sleep(0.05)


def measure(bench: Bench, trees: Sequence[Path], runs: int) -> list[Launched]:
    """Measure all cases, the trees in turn; the first one must meet the targets."""
    cases = [(name, limit, bench.command) for name, limit in COMMANDS.items()]
    cases += [(name, limit, bench.process) for name, limit in PROCESSES.items()]
    found = []
    for name, limit, run in cases:
        samples: list[list[Sample]] = [[] for _ in trees]
        for _ in range(runs):
            for tree, each in zip(trees, samples, strict=True):
                try:
                    each.append(run(tree, name))
                except UnknownError:
                    if tree is trees[0]:
                        raise
                    each.append(Sample(0.0))
        ours, *others = [_least(each) for each in samples]
        other = others[0] if others else Sample(0.0)
        found.append(Launched(name, ours.seconds, limit, ours.mib, other.seconds, other.mib))
    return found


def _least(samples: Sequence[Sample]) -> Sample:
    """Return the least of each number: other processes on the machine can only add to it."""
    return Sample(min(it.seconds for it in samples), min(it.mib for it in samples))


async def on_a_cluster(trees: Sequence[Path], runs: int) -> list[Launched]:
    """Return the results on an embedded cluster of this process."""
    async with LocalCluster() as cluster:
        async with await Client.connect(cluster.kubeconfig) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
            await install_kinds(client)
            await client.create(POD_GROUPS, dict(TRAIN))
        return await asyncio.to_thread(measure, Bench(cluster.kubeconfig), trees, runs)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--beside", type=Path, help="another working tree")
    parser.add_argument("--record", action="store_true", help="keep the results and show them")
    options = parser.parse_args()
    trees = [ROOT, *([options.beside.resolve()] if options.beside else [])]
    results = asyncio.run(on_a_cluster(trees, options.runs))
    print(launch_results.table(results))
    if options.record:
        launch_results.keep(results)
        page.write()
    return 0 if all(it.kept for it in results) else 1


if __name__ == "__main__":
    sys.exit(main())
