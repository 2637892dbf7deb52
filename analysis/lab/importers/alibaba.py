"""Alibaba's GPU cluster trace of 2023, `openb_pod_list_*.csv`: one pod in each row.

Columns: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos, pod_phase, creation_time,
deletion_time, scheduled_time; times in seconds. A pod that shares a GPU requests thousandths of one
(`gpu_milli`), which become the resource `example.com/gpu-milli`; others request entire GPUs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from analysis.lab.errors import LabError, input_of
from analysis.lab.trace import Job, checked, from_zero, job_of

GPU: Final = "nvidia.com/gpu"
SHARED_GPU: Final = "example.com/gpu-milli"

_PRIORITIES: Final = {"BE": 0, "Burstable": 0, "LS": 10, "Guaranteed": 10}
"""Priority by `qos`: best effort precedes no other."""


def read_openb(file: Path) -> list[Job]:
    """Read the pods that ran, as jobs of one pod. Raises LabError, which names line and column."""
    with input_of(str(file)), file.open(newline="", encoding="utf-8") as lines:
        return from_zero(checked(_jobs(lines, str(file)), str(file)))


def _jobs(lines: Iterator[str], source: str) -> Iterator[Job]:
    reader = csv.DictReader(lines)
    for row in reader:
        place = f"{source}: line {reader.line_num}"
        if not row.get("deletion_time") or not row.get("scheduled_time"):
            continue  # it never ran, or runs beyond the trace
        yield job_of(_fields(row, place), place)


def _fields(row: Mapping[str, str], place: str) -> dict[str, object]:
    try:
        duration = float(row["deletion_time"]) - float(row["scheduled_time"])
        gpus, milli = int(row["num_gpu"] or 0), int(row["gpu_milli"] or 0)
        requests: dict[str, object] = {
            "cpu": f"{row['cpu_milli']}m",
            "memory": f"{row['memory_mib']}Mi",
        }
    except (KeyError, ValueError) as error:
        raise LabError(f"{place}: not a pod of this trace: {error}") from error
    if gpus == 1 and 0 < milli < 1000:
        requests[SHARED_GPU] = milli
    elif gpus:
        requests[GPU] = gpus
    return {
        "name": row["name"],
        "arrival": row["creation_time"],
        "duration": max(duration, 1.0),
        "requests": requests,
        "priority": _PRIORITIES.get(row.get("qos", ""), 0),
    }
