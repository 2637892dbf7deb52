"""A run of the kit as its users run it: a command with a kubeconfig, and JUnit as its result."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.places import ROOT
from e2e.harness.muster import SCHEDULER, STATUS, Muster

PATIENCE = ("--patience=120", "--grace=30", "--quiet=1.5")
"""Times for a machine that runs other suites: Kubernetes' own controllers may take a minute."""

GATE = {"enabled": True, "afterSeconds": 5, "afterPassed": 4, "closedSeconds": 600}
PROTECTED = {"status": STATUS, "starvation": GATE}
"""The scheduler's configuration with the starvation gate, for a scenario of seconds."""


@dataclass(frozen=True, slots=True)
class Killable:
    """A scheduler that the kit kills and that something starts again, as a kubelet does."""

    pid: Callable[[], int]
    running: Callable[[], bool]
    launch: Callable[[], None]


def muster_scheduler(muster: Muster) -> Killable:
    def launch() -> None:
        muster.launch(SCHEDULER)

    return Killable(lambda: muster.pid(SCHEDULER), lambda: muster.running(SCHEDULER), launch)


def kube_scheduler(cluster: ControlPlane, name: str = "kube-scheduler") -> Killable:
    """Return kube-scheduler, or the process `name` that is built of it."""
    process = cluster.processes[name]
    return Killable(lambda: process.pid, lambda: process.running, process.start)


@asynccontextmanager
async def restarted(scheduler: Killable, file: Path) -> AsyncIterator[str]:
    """Start the scheduler again whenever it ended; yield a command that kills it."""

    def revive() -> None:
        if not scheduler.running():
            scheduler.launch()
        # Never truncated in place: the command may read it at any moment.
        partial = file.with_suffix(".new")
        partial.write_text(str(scheduler.pid()))
        partial.replace(file)

    async def supervise() -> None:
        while True:
            revive()
            await asyncio.sleep(0.1)

    revive()
    task = asyncio.create_task(supervise())
    try:
        yield f"kill -9 $(cat {file})"
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        revive()


async def run(
    kubeconfig: Path, scheduler: Killable, folder: Path, *options: str
) -> tuple[Mapping[str, str], str]:
    """Run the kit; return the outcome of each scenario, and the output.

    An outcome is `passed`, `skipped`, `error`, or `failed: ` with the checks that failed.
    """
    junit = folder / "junit.xml"
    fixed = [f"--kubeconfig={kubeconfig}", f"--junit={junit}", *PATIENCE]
    async with restarted(scheduler, folder / "scheduler.pid") as kill:
        command = [sys.executable, "-m", "conformance", *fixed, f"--kill={kill}", *options]
        child = await asyncio.create_subprocess_exec(
            *command,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await child.communicate()
    text = output.decode()
    assert child.returncode in {0, 1}, text
    return {case.get("name", ""): _outcome(case) for case in ET.parse(junit).getroot()}, text


def _outcome(case: ET.Element) -> str:
    if not len(case):
        return "passed"
    if case[0].tag != "failure":
        return case[0].tag
    checks = re.findall(r"^([a-z-]+) at ", case[0].text or "", re.MULTILINE)
    return f"failed: {', '.join(dict.fromkeys(checks))}"
