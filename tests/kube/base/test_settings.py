"""Configuration files."""

from pathlib import Path

import pytest

from kube.base.errors import ConfigError
from kube.base.settings import LeaderElection, Section, read


class Form(Section, frozen=True):
    name: str = "muster"
    leader_election: LeaderElection = LeaderElection()


def test_no_file_and_an_empty_file_give_the_defaults(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")

    assert read(None, Form) == read(empty, Form) == Form()


def test_fields_are_written_in_camel_case(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("leaderElection: {leaseSeconds: 3, renewSeconds: 2, retrySeconds: 0.5}")

    assert read(file, Form).leader_election == LeaderElection(
        lease_seconds=3, renew_seconds=2, retry_seconds=0.5
    )


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("nmae: x", "nmae", id="an unknown field"),
        pytest.param("leaderElection: {leaseSecs: 3}", "leaseSecs", id="an unknown field below"),
        pytest.param("name: [", "yaml", id="no YAML"),
        pytest.param("leaderElection: {retrySeconds: 0}", "retrySeconds", id="out of bounds"),
        pytest.param(
            "leaderElection: {leaseSeconds: 4}", "must be more than", id="times out of order"
        ),
    ],
)
def test_a_mistake_is_told_with_the_file_and_the_field(
    tmp_path: Path, text: str, want: str
) -> None:
    file = tmp_path / "muster.yaml"
    file.write_text(text)

    with pytest.raises(ConfigError, match=want) as caught:
        read(file, Form)

    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        read(tmp_path / "nowhere", Form)
