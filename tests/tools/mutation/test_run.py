"""A complete run on a small project, and the same mutants again with one more test."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tools.mutation.toy import toy
from tools.mutation.project import ROOT


def run(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    output = folder / "out.json"
    command = [sys.executable, "-m", "tools.mutation", "--root", str(folder), "--target", "shop"]
    subprocess.run(
        [*command, "--tests", "tests", "--output", str(output), *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    )
    found: list[dict[str, Any]] = json.loads(output.read_text())
    return found


def outcomes(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["after"].strip(): row["outcome"] for row in rows}


@pytest.mark.long
def test_mutants_are_caught_or_survive_and_are_run_again_with_more_tests(tmp_path: Path) -> None:
    toy(tmp_path)

    rows = run(tmp_path, "--count", "8", "--jobs", "2")

    found = outcomes(rows)
    boundary = next(change for change in found if change.startswith("if price"))
    assert found == {
        "return self.coins": "caught",
        "return max(self.coins)": "caught",
        "return False": "caught",
        boundary: "survived",
        "return sum(self.coins) - 0": "survived",
        "return True": "not executed",
        "return price // 2": "not executed",  # its test fails without the change, too
    }
    assert next(row["test"] for row in rows if row["after"].strip() == "return self.coins") == (
        "tests/test_till.py::test_empty"
    )

    first = tmp_path / "first.json"
    first.write_text(json.dumps(rows))
    tests = tmp_path / "tests" / "test_till.py"
    more = "def test_boundary():\n    assert is_cheap(9) and not is_cheap(10)\n"
    tests.write_text(f"{tests.read_text()}\n\n{more}")

    again = outcomes(run(tmp_path, "--mutants", str(first)))

    assert {change for change in found if found[change] != again[change]} == {
        boundary,
        "return True",
    }
    assert again[boundary] == "caught"
