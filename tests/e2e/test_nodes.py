"""What the nodes need, and what they get from the project's files."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.harness.controlplane import build as binaries
from e2e.nodes.cluster import build, images, requirements
from e2e.nodes.cluster.network import Addresses


def test_a_machine_that_cannot_run_nodes_is_told_all_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "unshare" else name)
    monkeypatch.setattr(requirements, "_controllers", lambda: {"cpu", "cpuacct", "pids"})
    monkeypatch.setattr(binaries, "build", lambda *_, **__: pytest.fail("nothing is built"))
    monkeypatch.setattr("sys.argv", ["build"])

    assert build.main() == 1

    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "nodes cannot run here:"
    assert "- root: namespaces, mounts and network links need it" in lines
    assert "- the command unshare" in lines
    assert "- the control group controllers cpuset, memory" in lines


def test_a_missing_mmdebstrap_is_installed_and_a_failure_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        code = 100 if "install" in command else 0
        return subprocess.CompletedProcess(command, code, "", "E: no such package")

    monkeypatch.setattr(requirements, "missing", list)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "mmdebstrap" else name)
    monkeypatch.setattr(subprocess, "run", run)

    with pytest.raises(requirements.MissingError, match="install failed: E: no such package"):
        requirements.check()

    assert [command[2] for command in ran] == ["update", "install"]


def test_the_images_are_stale_when_a_file_that_the_image_has_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in (
        ("Dockerfile", "FROM python:3.11-slim"),
        (".dockerignore", "*\n!api\n**/__pycache__"),
        ("api/types.py", "first"),
        ("api/__pycache__/types.pyc", "compiled"),
        ("docs/page.md", "not sent"),
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for tree in ("NODE_TREE", "IMAGE_TREE"):
        monkeypatch.setattr(images, tree, tmp_path / tree)
        (tmp_path / f"{tree}.stamp").write_text("packages")
    monkeypatch.setattr(images, "ROOT", tmp_path)
    first = images._digest()

    (tmp_path / "docs/page.md").write_text("changed")
    (tmp_path / "api/__pycache__/types.pyc").write_text("compiled again")
    assert images._digest() == first
    (tmp_path / "api/types.py").write_text("second")
    assert images._digest() != first


def test_no_two_nodes_share_an_address_or_a_network_of_pods() -> None:
    all_addresses = [Addresses.of(number) for number in range(9)]

    assert len({it.node for it in all_addresses}) == 9
    assert len({it.pods for it in all_addresses}) == 9
