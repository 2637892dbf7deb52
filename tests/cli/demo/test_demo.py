"""The demo, the first contact of new users: it meets its expectations, or fails and names them."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from cli.demo import demo
from cli.demo.view import DemoView
from cli.trees.tree import Objects
from kube.client.client import Client

ROOT = Path(__file__).resolve().parents[3]
EXPECTATIONS = (
    "training waits for capacity for one more pod",
    "all 16 pods of training run",
    "too-big waits without bound pods",
    "all 8 pods of one-rack run in one rack",
    "no JobSet, Job, group or pod is left",
)


# Ctrl-C ends it in the same way; an unhandled SIGTERM would leave the children.
@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)],
    ids=lambda it: it.name,
)
def test_the_demo_meets_every_expectation_and_leaves_no_child_running(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "demo", "--keep"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DISPLAY": "", "WAYLAND_DISPLAY": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with process as running:
        assert running.stdout is not None
        said = []
        for line in running.stdout:
            said.append(line)
            if line.startswith("The cluster keeps running"):
                break
        running.send_signal(number)
        said += running.stdout
        code = running.wait()

        with contextlib.suppress(ProcessLookupError):
            # It led its own process group: any process still in it is a remaining child.
            os.killpg(running.pid, signal.SIGKILL)
            pytest.fail("a child of the demo still runs")
    assert code == 0, said
    text = "".join(line for line in said if line.startswith("  ok: "))
    for expectation in EXPECTATIONS:
        assert expectation in text
    assert "; 15 fit" in "".join(said)
    # The condition of a gang that starts lags behind its pods.
    assert not re.search(r"Unschedulable, ([1-9]\d*) of \1 pods scheduled", "".join(said))


@pytest.mark.parametrize("holds", [True, False])
def test_the_demo_fails_unless_its_expectations_are_met(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    holds: bool,
) -> None:
    @contextlib.asynccontextmanager
    async def started(view: DemoView) -> AsyncIterator[demo.DemoCluster]:
        yield demo.DemoCluster(cast("Client", None), view)

    async def nothing_happens(cluster: demo.DemoCluster) -> None:
        await cluster.until("pigs fly", lambda _seen: holds)

    async def nothing(_client: object) -> Objects:
        return Objects()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "_started", started)
    monkeypatch.setattr(demo, "list_objects", nothing)
    monkeypatch.setattr(demo, "STEPS", (("A wonder.", nothing_happens),))
    monkeypatch.setattr(demo, "TIMEOUT_SECONDS", 0.0)

    assert demo.main(keep=False) == (0 if holds else 1)
    failed = "FAILED: expected that pigs fly" in capsys.readouterr().out
    assert failed is not holds


def test_plain_output_has_one_line_for_each_change_of_a_gang(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def seen(pods: int, reason: str = "", node: str = "", status: str = "False") -> Objects:
        condition = {"type": "PodGroupInitiallyScheduled", "status": status, "reason": reason}
        group = {
            "metadata": {"namespace": "default", "name": "gang"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
            "status": {"conditions": [{**condition, "message": "No node."}] if reason else []},
        }
        labels = {"scheduling.muster.dev/pod-group": "gang"}
        names = ("a", "b", "c")[:pods]
        return Objects(
            pod_groups=[group],
            pods=[
                {"metadata": {"namespace": "default", "name": name, "labels": labels}}
                | {"spec": {"nodeName": node}}
                for name in names
            ],
        )

    plain = DemoView()
    moments = (
        seen(0),
        seen(2),
        seen(2, "Unschedulable"),
        seen(3, "Unschedulable"),
        seen(3, "Scheduled", "n1", "True"),
    )
    for objects in moments:
        plain.show(objects)
        plain.show(objects)
    assert capsys.readouterr().out.splitlines() == [
        "    PodGroup gang: Unschedulable, 0 of 2 pods scheduled (minCount 2). No node.",
        "    PodGroup gang: Scheduled, 3 of 3 pods scheduled (minCount 2) on n1 x3",
    ]
