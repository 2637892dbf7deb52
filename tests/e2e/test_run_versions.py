"""Every version is built and run, and none is passed over because another failed."""

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from e2e import run_versions
from e2e.controlplane.build import RELEASES


class Calls:
    """The commands that would have run: what they do and for which version."""

    def __init__(self, failing: tuple[str, str] | None = None) -> None:
        self.made: list[tuple[str, str]] = []
        self.arguments: list[Sequence[str]] = []
        self._failing = failing

    def run(
        self, command: Sequence[str], *, env: Mapping[str, str], **_: Any
    ) -> subprocess.CompletedProcess[bytes]:
        call = command[2].rpartition(".")[2], env["MUSTER_KUBERNETES"]
        self.made.append(call)
        self.arguments.append(command)
        return subprocess.CompletedProcess(command, int(call == self._failing))


def test_each_version_is_built_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls()
    monkeypatch.setattr(subprocess, "run", calls.run)

    outcomes = run_versions.run_versions(list(RELEASES))

    assert calls.made == [(what, it) for it in RELEASES for what in ("build", "pytest")]
    assert [outcome.code for outcome in outcomes] == [0] * 2 * len(RELEASES)
    assert "e2e/suite" in calls.arguments[1]


@pytest.mark.parametrize(
    ("failing", "want"),
    [
        (("build", "1.33.13"), [1, 0, 0]),
        (("pytest", "1.33.13"), [0, 1, 0, 0]),
    ],
)
def test_a_version_that_fails_does_not_hide_the_next(
    monkeypatch: pytest.MonkeyPatch, failing: tuple[str, str], want: list[int]
) -> None:
    monkeypatch.setattr(subprocess, "run", Calls(failing).run)

    outcomes = run_versions.run_versions(["1.33.13", "1.34.4"], ["e2e/client"])

    assert [outcome.code for outcome in outcomes] == want


def test_a_version_without_a_module_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["run_versions", "1.20.0"])

    with pytest.raises(SystemExit):
        run_versions.main()
    assert "1.20.0: there are modules for 1.33.13" in capsys.readouterr().err
