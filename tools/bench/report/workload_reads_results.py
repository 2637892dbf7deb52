"""The stored cost of reading Workloads, and its table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from tools.bench.report import frame

FILE: Final = frame.RESULTS / "workload_reads.json"


@dataclass(frozen=True, slots=True)
class WorkloadReads:
    """Processor time of kube-apiserver, and the wall time of a LIST, for Workloads of `bytes`."""

    workloads: int
    bytes: int
    create_ms: float
    watch_us: float
    list_seconds: float
    list_cpu_seconds: float


def load() -> WorkloadReads | None:
    """Return the last stored result; None without a file."""
    return WorkloadReads(**json.loads(FILE.read_text())) if FILE.is_file() else None


def keep(measured: WorkloadReads) -> None:
    FILE.write_text(json.dumps(asdict(measured), indent=1) + "\n")


def table(measured: WorkloadReads | None) -> str:
    """Return one line for each request; empty if nothing is stored."""
    if measured is None:
        return ""
    rows = (
        ("create one", f"{measured.create_ms:.2f} ms", "one for each workload"),
        (
            f"its event on one watch, {measured.bytes:,} bytes",
            f"{measured.watch_us:.0f} µs",
            "one watch of each process",
        ),
        (
            f"list all {measured.workloads:,}",
            f"{measured.list_cpu_seconds:.2f} s, in {measured.list_seconds:.1f} s",
            "when a process starts",
        ),
    )
    lines = "".join(f"| {what} | {cost} | {often} |\n" for what, cost, often in rows)
    return "| request | processor time of kube-apiserver | how often |\n|---|---:|---|\n" + lines
