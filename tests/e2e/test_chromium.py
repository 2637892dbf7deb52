"""The source of the browser of e2e/console."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from e2e.console import chromium


def _only(*names: str) -> Any:
    return lambda name: f"/usr/bin/{name}" if name in names else None


def test_the_path_s_own_browser_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", _only("google-chrome", "chromium-browser"))

    assert chromium.chromium() == Path("/usr/bin/chromium-browser")


@pytest.mark.parametrize(("names", "user"), [((), 0), (("apt-get",), 1000)])
def test_without_a_way_to_install_one_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], user: int
) -> None:
    monkeypatch.setattr(shutil, "which", _only(*names))
    monkeypatch.setattr(os, "geteuid", lambda: user)

    with pytest.raises(chromium.MissingChromiumError, match=" ".join(chromium.INSTALL)):
        chromium.chromium()


def test_root_gets_debian_s(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"apt-get": "/usr/bin/apt-get"}
    ran: list[Sequence[str]] = []

    def run(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        there["chromium"] = "/usr/bin/chromium"
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(shutil, "which", there.get)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(subprocess, "run", run)

    assert chromium.chromium() == Path("/usr/bin/chromium")
    assert ran == [("apt-get", "update"), chromium.INSTALL]


def test_a_failed_installation_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 100, "", "no network")

    monkeypatch.setattr(shutil, "which", _only("apt-get"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(subprocess, "run", run)

    with pytest.raises(chromium.MissingChromiumError, match="no network"):
        chromium.chromium()
