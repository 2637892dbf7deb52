"""`muster manifests`: the webhook registration for other schedulerNames."""

from pathlib import Path

import pytest
import yaml

from api.scheduler_names import SchedulerNames
from cli.main import main
from webhooks.server.registration import load_manifests


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


def test_what_is_written_has_the_configured_names(tmp_path: Path) -> None:
    path = tmp_path / "muster.yaml"
    path.write_text("profiles: [{schedulerName: team-pack}]")
    folder = tmp_path / "manifests"

    assert main(["manifests", "--config", str(path), "--output", str(folder)]) == 0

    written = load_manifests(folder=folder / "webhook")
    assert written == load_manifests(SchedulerNames(("team-pack",)))
    assert "team-pack" in str(written)


def test_a_folder_with_files_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("precious")

    assert main(["manifests", "--output", str(tmp_path)]) == 2

    assert "use a new or empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_wrong_file_ends_with_its_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "muster.yaml"
    path.write_text("profiles: []")

    assert main(["manifests", "--config", str(path)]) == 2
    assert "between 1 and 8 names" in capsys.readouterr().err
