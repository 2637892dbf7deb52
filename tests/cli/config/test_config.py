"""The webhook's section of the configuration file, and the resulting objects."""

from datetime import timedelta
from pathlib import Path

import pytest

from api.features import USUAL, FeatureGates
from api.integration.common.autoscalers import KNOWN_KEYS, Autoscalers
from api.integration.common.native import GroupsApi
from certs.authority import DEFAULT_LIFETIMES
from cli.config.config import File, load
from cli.config.webhook_config import webhook_config
from kube.base.errors import ConfigError
from scheduler.core.values.profiles import Scoring

URL = "https://127.0.0.1:9000"


def file_exists(folder: Path, text: str) -> File:
    path = folder / "muster.yaml"
    path.write_text(text)
    return load(path)


def test_by_service_it_listens_for_all_and_drains() -> None:
    config = webhook_config(File(), None)

    assert (config.host, config.port, config.drain_seconds) == ("0.0.0.0", 9443, 10)
    assert config.lifetimes == DEFAULT_LIFETIMES
    assert config.announced_seconds == 60


def test_by_url_it_listens_there_and_ends_at_once() -> None:
    config = webhook_config(File(), URL)

    assert (config.host, config.port, config.drain_seconds) == ("127.0.0.1", 9000, 0)


def test_what_the_file_says_counts(tmp_path: Path) -> None:
    file = file_exists(
        tmp_path,
        "webhook: {host: 127.0.0.2, port: 7, drainSeconds: 3, certDir: /certs,"
        " certificates: {caDays: 30, serverDays: 20, aheadDays: 10, announcedSeconds: 5}}",
    )

    config = webhook_config(file, URL)

    assert (config.host, config.port, config.drain_seconds) == ("127.0.0.2", 7, 3)
    assert config.cert_dir == Path("/certs")
    assert config.lifetimes.ca == timedelta(days=30)
    assert config.announced_seconds == 5


def test_certificates_that_others_make_are_mounted_and_not_announced(tmp_path: Path) -> None:
    file = file_exists(tmp_path, "webhook: {certificates: {mounted: /mounted}}")

    config = webhook_config(file, None)

    assert config.mounted_certificates == Path("/mounted")
    assert config.target.names.dns
    assert "inject=False" in repr(config.target)


@pytest.mark.parametrize("days", ["aheadDays: 365", "caDays: 100"])
def test_lifetimes_in_which_renewing_gains_nothing_name_the_fields(
    tmp_path: Path, days: str
) -> None:
    with pytest.raises(ConfigError, match="caDays must be at least serverDays"):
        file_exists(tmp_path, f"webhook: {{certificates: {{{days}}}}}")


def test_all_processes_take_the_scheduler_names_from_one_place(tmp_path: Path) -> None:
    text = "profiles: [{schedulerName: team-pack}, {schedulerName: team-spread, scoring: spread}]"
    file = file_exists(tmp_path, text)

    assert file.scheduler_names.all == ("team-pack", "team-spread")
    assert file.scheduler_names.default == "team-pack"
    assert file.scoring == {
        "team-pack": Scoring("pack", "default"),
        "team-spread": Scoring("spread", "default"),
    }
    assert webhook_config(file, None).scheduler_names == file.scheduler_names


@pytest.mark.parametrize("scoring", ["default", "pack", "spread"])
def test_pods_without_a_group_have_a_scoring_of_their_own(tmp_path: Path, scoring: str) -> None:
    file = file_exists(tmp_path, f"profiles: [{{scoring: spread, podScoring: {scoring}}}]")

    assert file.scoring == {"muster-scheduler": ("spread", scoring)}


def test_without_a_file_there_is_one_scheduler_that_packs_groups() -> None:
    assert File().scheduler_names.all == ("muster-scheduler",)
    assert File().scoring == {"muster-scheduler": Scoring("pack", "default")}


def test_a_file_of_version_0_1_0_with_every_field_is_read() -> None:
    """During an upgrade, replicas of both versions read the same ConfigMap."""
    file = load(Path(__file__).parent / "data" / "config-0.1.0.yaml")

    # It was for all pods, and stays so.
    assert file.scoring == {"muster-scheduler": Scoring("spread", "spread")}
    assert file.scheduler_names.all == ("muster-scheduler",)
    assert file.old_fields == {"scheduler.profile": "profiles[].scoring"}
    assert File().old_fields == {}


def test_the_old_field_and_its_successor_do_not_go_together(tmp_path: Path) -> None:
    text = "profiles: [{scoring: spread}]\nscheduler: {profile: pack}"

    with pytest.raises(
        ConfigError, match=r"scheduler\.profile: Forbidden: profiles\[\]\.scoring has replaced it"
    ):
        file_exists(tmp_path, text)


def test_every_fault_of_the_names_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"profiles: schedulerName 'A' must consist of .*; .*kube-sched"
    ):
        file_exists(tmp_path, "profiles: [{schedulerName: A}, {schedulerName: default-scheduler}]")


def told(folder: Path, text: str) -> Autoscalers:
    file = file_exists(folder, f"webhook: {{autoscalers: {text}}}")
    return webhook_config(file, None).autoscalers


def test_autoscalers_are_told_unless_it_is_switched_off(tmp_path: Path) -> None:
    off = told(tmp_path, "{podAffinity: false, topologyKeys: [example.com/rack]}")

    assert webhook_config(File(), None).autoscalers == Autoscalers()
    assert off == Autoscalers(frozenset(), do_not_disrupt=True)
    assert told(tmp_path, "{doNotDisrupt: false}") == Autoscalers(do_not_disrupt=False)


def test_topology_keys_come_to_those_that_all_autoscalers_know(tmp_path: Path) -> None:
    keys = told(tmp_path, "{topologyKeys: [example.com/rack]}").topology_keys

    assert keys == {*KNOWN_KEYS, "example.com/rack"}
    with pytest.raises(ConfigError, match=r"topologyKeys.*'not a key'"):
        told(tmp_path, "{topologyKeys: [not a key]}")


def test_feature_gates_are_as_their_default_unless_named(tmp_path: Path) -> None:
    file = file_exists(tmp_path, "featureGates: {CompositePodGroup: false, DeviceClaims: true}")

    assert File().gates == USUAL
    assert file.gates == FeatureGates.of({"CompositePodGroup": False, "DeviceClaims": True})
    assert webhook_config(file, None).gates == file.gates


def test_a_gate_that_is_not_known_is_refused_with_the_one_that_is_meant(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=(
            r"featureGates: unrecognized feature gate: 'Topology'.*; known feature gates: "
            r".*WorkloadWithJobSet"
        ),
    ):
        file_exists(tmp_path, "featureGates: {Topology: false}")


@pytest.mark.parametrize("value", ['"false"', "0", "null", "[]"])
def test_a_gate_is_true_or_false(value: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Expected `bool`.*featureGates"):
        file_exists(tmp_path, f"featureGates: {{Coscheduling: {value}}}")


@pytest.mark.parametrize("api", list(GroupsApi))
def test_the_api_of_new_groups_needs_the_gate_of_native_ones(tmp_path: Path, api: str) -> None:
    assert webhook_config(file_exists(tmp_path, f"groups: {{api: {api}}}"), URL).groups_api == api
    text = f"{{groups: {{api: {api}}}, featureGates: {{NativeGroups: false}}}}"
    if api == GroupsApi.MUSTER:
        assert file_exists(tmp_path, text).groups.api == api
        return
    with pytest.raises(ConfigError, match=f"groups.api: {api} needs the feature gate NativeGroups"):
        file_exists(tmp_path, text)
