"""The configuration file."""

from pathlib import Path
from typing import cast

import pytest

from kube.base.errors import ConfigError
from kube.base.settings import read
from kube.client.client import CONNECTIONS, Client
from kube.events import events
from scheduler.binding import deadlines, volume_binder
from scheduler.claims import claim_finalizers, claim_releases
from scheduler.core.state.state import State
from scheduler.support.config import Config
from scheduler.watch.informers import SchedulerInformers


def test_no_file_and_an_empty_file_give_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")

    assert read(None, Config) == read(tmp_path / "empty.yaml", Config) == Config()


def test_what_is_given_replaces_the_default(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("retrySeconds: 5\nsearch: {steps: 30}\n")

    config = read(path, Config)

    assert (config.retry_seconds, config.search.steps) == (5, 30)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("serch: {}", "unknown field `serch`", id="a word misspelt"),
        pytest.param("bindWorkers: 0", ">= 1", id="no worker at all"),
        pytest.param("{", "config.yaml", id="no YAML"),
        pytest.param(
            "preemption: {minRunSeconds: 60, mostMinRunSeconds: 30}",
            "mostMinRunSeconds must be at least minRunSeconds, 60: raise it",
            id="protected for longer than is allowed",
        ),
        pytest.param(
            "preemption: {repeatWindowSeconds: -1}",
            "repeatWindowSeconds",
            id="a window that ends before it begins",
        ),
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


def test_all_that_may_be_sent_at_once_has_a_connection() -> None:
    config = Config()
    # Claims have as many writers as Bindings.
    writers = 2 * config.bind_workers + config.status.writers + 2 * config.preemption.writers
    informers = SchedulerInformers(cast("Client", None), State())
    # DeviceTaintRules are watched in one of their versions.
    watches = len(informers.reflectors) + len(informers.device_reflectors) + 1

    others = deadlines.DELETIONS + volume_binder.REQUESTS + claim_releases.RELEASES + watches
    others += claim_finalizers.FINALIZERS + events.SENDERS + 1  # for events of bound pods
    assert writers + others <= CONNECTIONS
