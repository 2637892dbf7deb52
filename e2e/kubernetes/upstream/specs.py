"""Kubernetes' own end-to-end specs for scheduling: one run of all of them, and its report."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final, NamedTuple

from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.places import BIN
from e2e.harness.controlplane.process import Process
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.upstream import cluster

PASSED: Final = "passed"

_MOST_SECONDS: Final = 1800.0
_MARKS: Final = re.compile(r"^\[It\] \[sig-scheduling\] | \[[^]]*\]")
"""The marks in a spec's full name, such as [Serial] and [Conformance]."""


class Spec(NamedTuple):
    """The result of one spec: `outcome` is passed, failed, skipped, ...; `reason` is why."""

    name: str
    outcome: str
    reason: str


async def run(plane: ControlPlane, folder: Path, *arguments: str) -> list[Spec]:
    """Run the specs one by one, and return their results.

    `arguments` are further ones of Ginkgo. Raises FileNotFoundError if it wrote no report.
    """
    report = folder / "report.xml"
    command: list[str | Path] = [
        BIN / "kubernetes-e2e",
        f"--kubeconfig={plane.kubeconfig}",
        "--provider=skeleton",
        f"--num-nodes={cluster.NODES}",
        f"--ginkgo.junit-report={report}",
        # Without a filter of labels it leaves out the specs of gates that are off by default.
        "--ginkgo.label-filter=!Flaky",
        "--ginkgo.no-color",
        "--ginkgo.v",
        *arguments,
    ]
    specs = Process("kubernetes-e2e", command, logs=folder)

    async def ended() -> bool:
        return not specs.running

    async with cluster.allocatable_follows(plane):
        specs.start()
        try:
            await eventually(ended, "the specs to end", _MOST_SECONDS)
        finally:
            specs.kill()
    return read(report)


def read(report: Path) -> list[Spec]:
    """Return the specs of a report in JUnit's format, those that were not selected left out."""
    cases = ET.parse(report).iter("testcase")
    return [_spec(case) for case in cases if case.get("name", "").startswith("[It]")]


def _spec(case: ET.Element) -> Spec:
    reasons = (case.find(kind) for kind in ("failure", "error", "skipped"))
    reason = next((it.get("message") or "" for it in reasons if it is not None), "")
    name = _MARKS.sub("", case.get("name", ""))
    return Spec(name, case.get("status", ""), reason.strip())
