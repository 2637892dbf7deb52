"""The cost of reading Workloads: what is kept, and its table."""

from pathlib import Path

import pytest

from tools.bench import page
from tools.bench.report import workload_reads_results
from tools.bench.report.workload_reads_results import WorkloadReads
from tools.marked_parts import replaced

FOUND = WorkloadReads(10_000, 1216, 2.767, 31.4, 2.5, 1.25)


def test_what_is_kept_is_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_reads_results, "FILE", tmp_path / "workload_reads.json")
    assert workload_reads_results.load() is None

    workload_reads_results.keep(FOUND)

    assert workload_reads_results.load() == FOUND


def test_the_table_states_the_cost_of_each_request() -> None:
    assert workload_reads_results.table(FOUND).splitlines()[2:] == [
        "| create one | 2.77 ms | one for each workload |",
        "| its event on one watch, 1,216 bytes | 31 µs | one watch of each process |",
        "| list all 10,000 | 1.25 s, in 2.5 s | when a process starts |",
    ]
    assert workload_reads_results.table(None) == ""


def test_the_page_has_the_last_result() -> None:
    text, kept = page.SCALE.read_text("utf-8"), workload_reads_results.load()

    assert replaced(text, {"workload-reads": workload_reads_results.table(kept)}) == text
