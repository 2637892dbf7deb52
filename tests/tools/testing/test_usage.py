"""The cost that a run of pytest reports, and the report of several."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.structure.graph import ROOT
from tools.testing import report
from tools.testing.report import Cost, SuiteCost

SUITE = """
import subprocess, sys
def test_computes():
    sum(range(3_000_000))
def test_starts_a_process_that_computes():
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
def test_waits():
    import time; time.sleep(0.3)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> SuiteCost:
    folder = tmp_path_factory.mktemp("usage")
    assert run(folder, SUITE).returncode == 0
    return SuiteCost.read("suite", Cost(9, 5), folder / "usage.json")


def run(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    suite = folder / "test_suite.py"
    suite.write_text(tests)
    plugins = ("-p", "conftest", "-p", "no:cacheprovider", "-q")
    usage = f"--usage={folder / 'usage.json'}"
    command = [sys.executable, "-m", "pytest", *plugins, usage, str(suite)]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def test_each_test_has_its_cost_with_that_of_its_child_processes(recorded: SuiteCost) -> None:
    costs = {test.partition("::")[2]: cost for test, cost in recorded.tests.items()}

    assert set(costs) == {"test_computes", "test_starts_a_process_that_computes", "test_waits"}
    assert costs["test_computes"].processor > 0
    assert costs["test_starts_a_process_that_computes"].processor > 0
    assert costs["test_waits"].wall >= 0.3
    assert recorded.whole == Cost(9, 5)


def test_a_failure_is_named_before_the_summary(tmp_path: Path) -> None:
    done = run(tmp_path, "def test_fails():\n    assert 0\n")

    progress = done.stdout.partition("= FAILURES =")[0]
    assert "F call of test_suite.py::test_fails\n" in progress


def test_a_run_that_was_killed_has_its_whole_cost(tmp_path: Path) -> None:
    assert SuiteCost.read("suite", Cost(9, 5), tmp_path / "none") == SuiteCost("suite", Cost(9, 5))


SUITES = (
    SuiteCost(
        "unit tests",
        Cost(10, 8),
        tests={
            "tests/kube/test_a.py::test_x": Cost(3, 2),
            "tests/kube/test_a.py::test_y[1]": Cost(1, 1),
            "tests/scheduler/core/test_b.py::test_z": Cost(4, 4),
        },
    ),
    SuiteCost("flows", Cost(20, 16), tests={"e2e/faults/test_c.py::test_f": Cost(9, 0.5)}),
)


def test_tests_are_summed_by_file_and_by_folder() -> None:
    assert report.files(SUITES) == {
        "tests/kube/test_a.py": Cost(4, 3),
        "tests/scheduler/core/test_b.py": Cost(4, 4),
        "e2e/faults/test_c.py": Cost(9, 0.5),
    }
    assert report.folders(SUITES) == {
        "tests/kube": Cost(4, 3),
        "tests/scheduler": Cost(4, 4),
        "e2e/faults": Cost(9, 0.5),
    }


def test_the_report_has_the_most_expensive_first_beside_the_last_figures() -> None:
    last = json.loads(json.dumps(report.to_keep(SUITES[:1])))
    last["tests/kube/test_a.py"] = 1.25

    lines = report.text(SUITES, last).splitlines()

    assert lines[0] == "processor seconds: 24"
    rows = [line.split() for line in lines]
    files = rows[rows.index(["wall", "processor", "last", "slowest", "files"]) + 1 :]
    assert files[:3] == [
        ["4.0", "4.0", "4.0", "tests/scheduler/core/test_b.py"],
        ["4.0", "3.0", "1.2", "tests/kube/test_a.py"],
        ["9.0", "0.5", "e2e/faults/test_c.py"],
    ]
