"""The command line of the server processes, and the one file that configures them."""

import argparse
import tomllib
from pathlib import Path

import pytest

from cli import __main__ as entry
from cli.config.config import File, load
from cli.config.webhook_config import webhook_config
from cli.main import main
from cli.servers.servers import address
from kube.base.errors import ConfigError
from tests.structure.graph import ROOT
from webhooks.server.registration import ServiceTarget, UrlTarget


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("0.0.0.0:8080", ("0.0.0.0", 8080), id="all interfaces"),
        pytest.param("127.0.0.1:0", ("127.0.0.1", 0), id="any port"),
        pytest.param("[::1]:80", ("::1", 80), id="an IPv6 address"),
    ],
)
def test_a_health_address_is_host_and_port(text: str, want: tuple[str, int]) -> None:
    assert address(text) == want


@pytest.mark.parametrize("text", ["8080", ":8080", "host:", "host:http", "host:70000"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="HOST:PORT, such as"):
        address(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("webhok: {}", "webhok", id="a section misspelt"),
        pytest.param(
            "profiles: [{scoring: spread}]\nscheduler: {profile: pack}",
            "scheduler.profile: Forbidden: profiles[].scoring has replaced it",
            id="the old field beside its successor",
        ),
        pytest.param("profiles: [{scoring: tight}]", "profiles[0].scoring", id="unknown scoring"),
        pytest.param(
            "profiles: [{scoring: default}]", "profiles[0].scoring", id="groups have no default"
        ),
        pytest.param(
            "profiles: [{podScoring: tight}]",
            "profiles[0].podScoring",
            id="unknown scoring of pods",
        ),
        pytest.param(
            "profiles: []",
            "schedulerNames must have between 1 and 8 names, not 0",
            id="no schedulerName",
        ),
        pytest.param(
            "profiles: [{schedulerName: default-scheduler}]", "kube-scheduler's", id="not ours"
        ),
        pytest.param(
            "profiles: [{}, {scoring: spread}]", "more than once", id="a schedulerName twice"
        ),
        pytest.param(
            'profiles: [{schedulerName: "a\'b"}]',
            "lower case alphanumeric characters",
            id="no schedulerName",
        ),
        pytest.param("webhook: {port: 70000}", "webhook.port", id="a port out of range"),
        pytest.param(
            "leaderElection: {leaseSeconds: 4}",
            "leaseSeconds must be more than renewSeconds",
            id="a lease shorter than its renewal",
        ),
    ],
)
def test_a_mistake_in_the_file_ends_the_process_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, want: str
) -> None:
    path = tmp_path / "muster.yaml"
    path.write_text(text)

    code = main(["scheduler", "--config", str(path)])

    assert code == 2
    assert want in capsys.readouterr().err


def test_without_a_file_the_webhook_is_reached_through_its_service() -> None:
    config = webhook_config(load(None), None)

    assert config.target == ServiceTarget("muster-webhook", "muster-system")
    assert config.port == 9443


def test_with_a_url_the_webhook_listens_where_the_url_points() -> None:
    config = webhook_config(File(), "https://127.0.0.1:8443")

    assert config.target == UrlTarget("https://127.0.0.1:8443")
    assert (config.host, config.port) == ("127.0.0.1", 8443)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "127.0.0.1:1", "https://h:port"])
def test_a_url_that_no_api_server_could_call_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--url"):
        webhook_config(File(), url)


def test_the_installed_command_begins_with_the_handler() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["scripts"]["muster"] == f"{entry.__name__}:main"
