"""The demo is what new users see first: it meets its expectations, or fails and says which not."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli import demo

ROOT = Path(__file__).resolve().parents[2]
EXPECTATIONS = (
    "training waits for room for one more pod",
    "all 16 pods of training run",
    "too-big waits, holds nothing",
    "all 8 pods of one-rack run in one rack",
    "no JobSet, Job, group or pod is left",
)


def test_the_demo_meets_every_expectation(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cli", "demo"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    completed = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert completed.returncode == 0, completed.stdout + completed.stderr
    lines = [line for line in completed.stdout.splitlines() if line.startswith("  ok: ")]
    for expectation in EXPECTATIONS:
        assert any(expectation in line for line in lines), expectation
    assert "there is room for 15" in completed.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda it: it.name)
def test_a_demo_that_is_told_to_end_leaves_no_child_running(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "cli", "demo"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    demo_process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with demo_process as running:
        assert running.stdout is not None
        next(line for line in running.stdout if line.startswith("console:"))

        running.send_signal(number)
        code = running.wait()

        with contextlib.suppress(ProcessLookupError):
            # It led its own process group: any process still in it is a child that it left.
            os.killpg(running.pid, signal.SIGKILL)
            pytest.fail("a child of the demo still runs")
    assert code == 0


def test_an_expectation_that_is_not_met_fails_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def nothing_happens(cluster: demo.DemoCluster) -> None:
        await cluster.until("pigs fly", lambda _seen: False)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "STEPS", (("A wonder.", nothing_happens),))
    monkeypatch.setattr(demo, "TIMEOUT_SECONDS", 0.5)

    code = demo.main(keep=False)

    assert code == 1
    assert "FAILED: expected that pigs fly" in capsys.readouterr().out
