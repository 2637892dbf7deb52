"""Findings about feature gates: gates that are off, and processes with other settings."""

from pathlib import Path

import pytest

from api.features import GATES, USUAL, Feature, FeatureGates
from cli.doctor.findings import About, Finding, Severity
from cli.doctor.gates import check_gates, read_gates, switches_of
from cli.doctor.health import Process
from cli.servers.servers import show_gates
from kube.base.status_server import StatusServer
from kube.client.client import Client
from tests.support.api_server import ScriptedServer

CONFIG = About("ConfigMap", "muster", "muster-system")
ONE, OTHER = Process(About("Pod", "one", "ns")), Process(About("Pod", "other", "ns"))
ALL_ON = {name.value: True for name in GATES}


def found(gates: FeatureGates | None, *said: dict[str, bool]) -> list[Finding]:
    return list(check_gates(CONFIG, gates, [ONE, OTHER][: len(said)], said))


def test_all_that_is_off_is_one_note() -> None:
    (note,) = found(USUAL.without(Feature.TOPOLOGY, Feature.DEVICE_CLAIMS))

    assert (note.severity, note.about) == (Severity.INFO, CONFIG)
    assert (
        "TopologyAwareWorkloadScheduling (required and preferred topology constraints"
        in note.problem
    )
    assert "DeviceClaims" in note.problem
    assert "Coscheduling" not in note.problem


def test_what_is_off_by_itself_is_not_told() -> None:
    assert found(USUAL) == []


def test_a_process_that_differs_from_the_configuration_is_named() -> None:
    everything = FeatureGates(frozenset(Feature))
    (odd,) = found(everything, ALL_ON, ALL_ON | {"WorkloadWithJob": False})

    assert (odd.severity, odd.about) == (Severity.WARNING, OTHER.about)
    assert (
        odd.problem
        == "it runs with WorkloadWithJob off, which differs from ConfigMap muster-system/muster"
    )
    assert odd.action.startswith("restart it")


def test_without_a_configuration_processes_are_compared_with_each_other() -> None:
    (odd,) = found(None, ALL_ON, ALL_ON | {"Coscheduling": False})

    assert odd.problem == "it runs with Coscheduling off, which differs from Pod ns/one"


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({}, id="an earlier version has no gates"),
        pytest.param(ALL_ON | {"OfALaterVersion": False}, id="a later one has others"),
    ],
)
def test_another_version_is_no_difference(said: dict[str, bool]) -> None:
    everything = FeatureGates(frozenset(Feature))

    assert found(everything, said) == []
    assert found(None) == []


async def test_what_a_process_runs_with_is_read_from_its_metrics(tmp_path: Path) -> None:
    gates = USUAL.without(Feature.PREEMPTION)
    show_gates(gates)
    async with StatusServer() as status, ScriptedServer() as server:
        url = f"http://127.0.0.1:{status.port}"
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            here, nobody = await read_gates(
                client,
                [
                    Process(About("Process", url), url=url),
                    Process(About("Process", "gone"), url="http://127.0.0.1:1"),
                ],
            )

    assert here == {it.value: it in gates for it in Feature}
    assert nobody == {}


def test_a_page_of_others_has_none() -> None:
    assert (
        switches_of('muster_feature_enabled{name="A",stage="BETA"} 2.0\nother{name="A"} 1\n') == {}
    )
