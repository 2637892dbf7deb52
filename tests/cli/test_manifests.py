"""`muster manifests`: the webhook registration for other schedulerNames."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from api.scheduler_names import SchedulerNames
from cli.main import main
from webhooks.registration import load_manifests


def test_the_registration_is_printed_with_the_configured_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "muster.yaml"
    path.write_text("profiles: [{schedulerName: team-pack}, {schedulerName: team-spread}]")

    assert main(["manifests", "--config", str(path)]) == 0

    names = SchedulerNames(("team-pack", "team-spread"))
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == load_manifests(names)


def test_without_a_file_it_is_what_the_manifests_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests"]) == 0

    assert list(yaml.safe_load_all(capsys.readouterr().out)) == load_manifests()


def test_a_wrong_file_ends_with_its_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "muster.yaml"
    path.write_text("profiles: []")

    assert main(["manifests", "--config", str(path)]) == 2
    assert "1 to 8 schedulerNames" in capsys.readouterr().err
