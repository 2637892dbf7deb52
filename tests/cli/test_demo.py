"""The demo is what a newcomer sees first: it must tell the story, and must not lie about it."""

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
PROMISES = (
    "training waits for one more pod's room",
    "all 16 pods of training run",
    "too-big waits, holds nothing",
    "all 8 pods of one-rack run in one rack",
    "no JobSet, Job, group or pod is left",
)


@pytest.mark.timeout(120)
def test_the_demo_shows_every_promise_come_true(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cli", "demo"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    played = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert played.returncode == 0, played.stdout + played.stderr
    lines = [line for line in played.stdout.splitlines() if line.startswith("  ok: ")]
    for promise in PROMISES:
        assert any(promise in line for line in lines), promise
    assert "there is room for 15" in played.stdout


@pytest.mark.timeout(60)
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
    with demo_process as played:
        assert played.stdout is not None
        next(line for line in played.stdout if line.startswith("dashboard:"))

        played.send_signal(number)
        code = played.wait()

        with contextlib.suppress(ProcessLookupError):
            # It led a group of its own: who is still there is a child that it left.
            os.killpg(played.pid, signal.SIGKILL)
            pytest.fail("a child of the demo still runs")
    assert code == 0


@pytest.mark.timeout(60)
def test_a_promise_that_does_not_come_true_fails_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def nothing_happens(stage: demo.Stage) -> None:
        await stage.until("pigs fly", lambda _seen: False)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "STORY", (("A wonder.", nothing_happens),))
    monkeypatch.setattr(demo, "PATIENCE", 0.5)

    code = demo.main(keep=False)

    assert code == 1
    assert "FAILED: it should be that pigs fly" in capsys.readouterr().out
