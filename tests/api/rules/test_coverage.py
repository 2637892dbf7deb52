"""Every rule has a case: the tables cover every branch of the rule modules."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TABLES = (
    "tests/api/rules/test_admission_table.py",
    "tests/api/rules/test_expected_pods.py",
    "tests/api/rules/test_feature_use.py",
    "tests/api/rules/test_validation.py",
    "tests/api/test_slices.py",
)


@pytest.mark.long
def test_every_branch_of_the_rules_is_decided_by_a_case(tmp_path: Path) -> None:
    data = f"--data-file={tmp_path / 'coverage'}"
    coverage = [sys.executable, "-m", "coverage"]
    # A separate session, because the modules must be imported under the tracer.
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    run = subprocess.run(
        [*coverage, "run", "--branch", data, "-m", "pytest", "-q", *TABLES],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    report = subprocess.run(
        [*coverage, "report", data, "--include=api/rules/*", "--show-missing", "--fail-under=100"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert report.returncode == 0, report.stdout
