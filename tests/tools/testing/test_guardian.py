"""A run of the tests leaves no process and no file, however it ends."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.structure.graph import ROOT

SECONDS = 120
"""Timeout for the end of a process, on a machine of any speed."""

SLEEPER = "[sys.executable, '-c', 'import time; time.sleep(600)']"
LEAVES_A_PROCESS = f"""
import os, subprocess, sys, tempfile
from pathlib import Path

def test_leaves(tmp_path):
    child = subprocess.Popen({SLEEPER}, start_new_session=True)
    file = tempfile.NamedTemporaryFile(delete=False).name
    Path(os.environ["REPORT"]).write_text(f"{{child.pid}} {{file}} {{tmp_path}}")
"""
HANGS = "    import time; time.sleep(600)\n"


class Run:
    """A pytest process for one file of tests."""

    def __init__(self, folder: Path, text: str) -> None:
        suite = folder / "test_suite.py"
        suite.write_text(text)
        self._report = folder / "report"
        os.mkfifo(self._report)
        plugins = ("-p", "conftest", "-p", "no:cacheprovider", "-p", "no:randomly")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *plugins, f"--basetemp={folder / 'base'}", str(suite)],
            cwd=ROOT,
            env={**os.environ, "REPORT": str(self._report)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def left(self) -> tuple[int, Path, Path]:
        """Wait for the test; return a descriptor of the process it left, and its files."""
        pid, file, folder = self._report.read_text().split()
        return os.pidfd_open(int(pid)), Path(file), Path(folder)


def ended(descriptor: int) -> bool:
    """Return True if the process ends; its descriptor becomes readable then."""
    readable, _, _ = select.select([descriptor], [], [], SECONDS)
    os.close(descriptor)
    return bool(readable)


def test_a_process_that_a_test_leaves_fails_the_run_and_is_ended(tmp_path: Path) -> None:
    run = Run(tmp_path, LEAVES_A_PROCESS)
    child, _, _ = run.left()

    _, errors = run.process.communicate()

    assert run.process.returncode == pytest.ExitCode.TESTS_FAILED
    assert b"a process was left running: " in errors
    assert b"time.sleep(600)" in errors
    assert ended(child)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_killed_leaves_no_process_and_no_file(
    tmp_path: Path, number: signal.Signals
) -> None:
    run = Run(tmp_path, LEAVES_A_PROCESS + HANGS)
    child, file, folder = run.left()
    assert file.is_relative_to(tmp_path / "base")
    assert folder.is_relative_to(tmp_path / "base")

    run.process.send_signal(number)
    run.process.communicate()

    assert ended(child)
    # The guardian removes the folder last, and keeps the run's standard error open until then.
    assert not (tmp_path / "base").exists()
