"""The configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kube.errors import ConfigError
from kube.settings import read
from scheduler.config import Config


def test_no_file_and_an_empty_file_give_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")

    assert read(None, Config) == read(tmp_path / "empty.yaml", Config) == Config()


def test_what_is_given_replaces_the_default(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("profile: spread\nsearch: {steps: 30}\n")

    config = read(path, Config)

    assert (config.profile, config.search.steps) == ("spread", 30)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("profil: pack", "unknown field `profil`", id="a word misspelt"),
        pytest.param("profile: tight", "Invalid enum value 'tight'", id="an unknown profile"),
        pytest.param("bindWorkers: 0", ">= 1", id="no worker at all"),
        pytest.param("{", "config.yaml", id="no YAML"),
    ],
)
def test_a_mistake_is_said_with_the_file(tmp_path: Path, text: str, want: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=want):
        read(path, Config)


def test_a_file_that_is_not_there_is_a_mistake_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        read(tmp_path / "none.yaml", Config)
