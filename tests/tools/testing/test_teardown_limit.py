"""A fixture that waits forever after its test timed out."""

import subprocess
import sys
from pathlib import Path

from tests.structure.graph import ROOT

SUITE = """
import threading
import pytest
from tools.testing import teardown_limit

teardown_limit.SECONDS = 0.5

@pytest.fixture
def waits():
    yield
    threading.Event().wait()

@pytest.mark.timeout(0.5, method="signal")
def test_runs_out_of_time(waits):
    threading.Event().wait()

def test_is_reached():
    pass
"""


def test_the_fixture_is_ended_and_the_run_goes_on(tmp_path: Path) -> None:
    suite = tmp_path / "test_suite.py"
    suite.write_text(SUITE)
    plugins = ("-p", "tools.testing.teardown_limit", "-p", "no:cacheprovider", "-q")
    command = [sys.executable, "-m", "pytest", *plugins, str(suite)]

    ended = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)

    assert "1 failed, 1 passed, 1 error" in ended.stdout, ended.stdout
