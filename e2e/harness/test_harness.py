"""The harness itself: processes, ports, builds, normalized traces, the summary of a run."""

import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from e2e import run_tests
from e2e.harness.controlplane import build
from e2e.harness.controlplane.down import running
from e2e.harness.controlplane.places import ROOT, before
from e2e.harness.controlplane.process import Process, ProcessFailedError
from e2e.harness.support import kubeconfig, pki, ports
from e2e.kubernetes.controllers.normalise import Interner, Normaliser

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


async def test_a_process_is_killed_and_started_again(tmp_path: Path) -> None:
    process = Process("sleeper", SLEEP, logs=tmp_path)
    process.start()
    first = process.pid
    process.kill()
    process.start()
    second = process.pid
    process.kill()

    assert second != first
    assert not process.running
    process.kill()  # has no effect


async def test_a_process_that_ends_while_starting_shows_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no such port'); raise SystemExit(3)"]
    process = Process("broken", command, logs=tmp_path)
    process.start()

    async def never() -> bool:
        return False

    with pytest.raises(ProcessFailedError, match="no such port") as caught:
        await process.ready(never, timeout=20)
    assert caught.value.name == "broken"


def test_a_process_dies_with_its_parent_even_by_sigkill(tmp_path: Path) -> None:
    program = f"""
import time
from pathlib import Path
from e2e.harness.controlplane.process import Process
child = Process("child", {SLEEP!r}, logs=Path({str(tmp_path)!r}))
child.start()
print(child.pid, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert parent.stdout is not None
    with parent.stdout:
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
    # A process's descriptor becomes readable when the process ends.
    ended, _, _ = select.select([child], [], [], 20)
    os.close(child)
    assert ended == [child]


def test_a_pid_that_is_another_process_now_is_not_taken_for_ours(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    assert running(pid_file) is None
    pid_file.write_text(str(os.getpid()))
    assert running(pid_file) is None

    ours = Process("ours", [*SLEEP, "e2e.harness.controlplane.up"], logs=tmp_path)
    ours.start()
    pid_file.write_text(str(ours.pid))
    assert running(pid_file) == ours.pid
    ours.kill()
    assert running(pid_file) is None


def test_a_port_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    few = range(20000, 20200)
    held: list[socket.socket] = []  # released before the end of the run
    monkeypatch.setattr(ports, "_RANGE", few)
    monkeypatch.setattr(ports, "_HELD", held)
    try:
        first, second = ports.free(60), ports.free(60)
    finally:
        for each in held:
            each.close()

    assert len({*first, *second}) == 120
    assert all(port in few for port in first)


def test_a_kubeconfig_is_read_back(tmp_path: Path) -> None:
    made = pki.issue(tmp_path)
    path = kubeconfig.write(
        tmp_path / "kubeconfig", server="https://127.0.0.1:1", ca_pem=made.ca_pem, token="t"
    )

    access = kubeconfig.read(path)

    assert (access.server, access.token) == ("https://127.0.0.1:1", "t")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_login_by_a_plug_in_is_refused(tmp_path: Path) -> None:
    made = pki.issue(tmp_path)
    path = kubeconfig.write(tmp_path / "k", server="https://x", ca_pem=made.ca_pem, token="t")
    path.write_text(path.read_text().replace("token: t", "exec: {command: login}"))

    with pytest.raises(ValueError, match="plugin"):
        kubeconfig.read(path)


def test_every_modules_stamp_follows_its_files() -> None:
    kubernetes = map(build.kubernetes, build.RELEASES)
    modules = [*kubernetes, *build.CONTROL_PLANE, *build.NEIGHBOURS]
    stamps = {module.stamp() for module in modules}

    assert len(stamps) == len(modules)
    assert all(len(stamp) == 64 for stamp in stamps)


def test_accidental_values_are_normalised() -> None:
    normal = Normaliser()
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "work-x8k2p",
            "generateName": "work-",
            "uid": "11111111-2222-3333-4444-555555555555",
            "resourceVersion": "77",
            "creationTimestamp": "2026-01-02T03:04:05Z",
        },
        "status": {"podIP": "10.0.0.7", "note": "made work-x8k2p"},
    }
    normal.learn(pod)

    assert normal.value(pod) == {
        "kind": "Pod",
        "metadata": {
            "name": "work-~1",
            "generateName": "work-",
            "uid": "<uid of Pod/work-~1>",
            "creationTimestamp": "<time>",
        },
        "status": {"podIP": "<ip>", "note": "made work-~1"},
    }


def test_equal_values_become_one() -> None:
    spec = {"containers": [{"name": "main", "image": "registry.example/" + "x" * 120}]}

    interned = Interner().value([dict(spec), dict(spec)])

    assert interned[0] is interned[1]


def test_the_summary_names_what_failed_and_what_was_left_out() -> None:
    outcomes = [
        run_tests.Outcome("a", 0, "1 s"),
        run_tests.Outcome("b", 2, "3 s"),
        run_tests.Outcome("c", None, "no Go"),
    ]

    assert run_tests.summary(outcomes).splitlines() == [
        "",
        "summary",
        "  passed    a: 1 s",
        "  FAILED    b: 3 s",
        "  left out  c: no Go",
    ]


@pytest.mark.parametrize(
    ("version", "running", "want"),
    [
        pytest.param("1.36", "1.36.3", False, id="the same"),
        pytest.param("1.36", "1.34.4", True, id="older"),
        pytest.param("1.9", "1.33.13", False, id="numbers, not letters"),
        pytest.param("1.36", "2.0.0", False, id="the next major version"),
    ],
)
def test_flows_of_a_later_kubernetes_are_left_out(version: str, running: str, want: bool) -> None:
    assert before(version, running) == want
