"""Findings about processes, and about other gang schedulers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.integration.common.native import GroupsApi
from cli.doctor.findings import About, Limited, Severity
from cli.doctor.health import Process, Ready, check_event, check_ready, port_of, processes
from cli.doctor.neighbours import (
    KNOWN,
    check_definitions_of_others,
    check_groups_api,
    check_namespaces,
    check_native,
)
from kube.base.clock import rfc3339
from kube.base.errors import Forbidden, KubeError, Unreachable

Json = dict[str, Any]
NOW = datetime(2026, 6, 1, tzinfo=UTC)
ABOUT = About("Pod", "p", "ns")
INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR


@pytest.mark.parametrize(
    ("said", "want", "text"),
    [
        pytest.param(Ready("[+]caches\nok\n"), INFO, "it is ready", id="ready"),
        pytest.param(
            Ready("[+]a\n[-]leases\nnot ok\n"), ERROR, "not ready: leases", id="not ready"
        ),
        pytest.param(
            Ready("[+]a\n[!]pods: set aside: ns/x (boom)\nok\n"),
            WARNING,
            "ns/x (boom)",
            id="set aside",
        ),
        pytest.param(Ready("ok\n", timedelta(seconds=9)), INFO, "it is ready", id="clock"),
        pytest.param(
            Ready("ok\n", timedelta(seconds=75)), WARNING, "75 s ahead of", id="clock ahead"
        ),
        pytest.param(
            Ready("ok\n", timedelta(seconds=-75)), WARNING, "75 s behind", id="clock behind"
        ),
        pytest.param(Unreachable("GET", "/", "refused"), WARNING, "refused", id="no answer"),
        pytest.param(Forbidden(403, "Forbidden", "no"), WARNING, "cannot be read", id="no right"),
    ],
)
def test_processes(said: Ready | KubeError, want: Severity, text: str) -> None:
    found = list(check_ready(Process(ABOUT), said))

    assert max(one.severity for one in found) == want
    assert any(text in one.problem for one in found)
    assert all(one.action for one in found if one.severity > INFO)


def test_pods_are_asked_through_the_api_server_and_others_by_their_url() -> None:
    ports = [{"name": "https", "containerPort": 9443}, {"name": "health", "containerPort": 8080}]
    pod = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": [{"ports": ports}]},
        "status": {"phase": "Running"},
    }
    waiting = pod | {"status": {"phase": "Pending"}}

    one, other = processes([pod, waiting], ["http://127.0.0.1:8080/"])

    assert one.path == "/api/v1/namespaces/ns/pods/p:8080/proxy"
    assert other.url == "http://127.0.0.1:8080"
    assert port_of({"spec": {"containers": [{"ports": "x"}]}}, "health") == 0


def event(name: str, minutes: float, *, by: str = "muster-scheduler") -> Json:
    return {
        "involvedObject": {"kind": "Pod", "namespace": "ns", "name": name},
        "message": "cannot be taken in",
        "lastTimestamp": rfc3339(NOW - timedelta(minutes=minutes)),
        "reportingComponent": by,
    }


def test_events_of_the_last_hour_name_what_is_set_aside() -> None:
    found, seen = Limited("set-aside"), set[About]()

    for one in (
        event("a", 5),
        event("a", 6),
        event("b", 90),
        event("c", 1, by="x"),
        {"message": 1},
    ):
        check_event(one, found, seen, NOW)

    (finding,) = found.findings()
    assert (finding.severity, str(finding.about)) == (WARNING, "Pod ns/a")


def test_events_that_somebody_makes_up_are_few() -> None:
    found, seen = Limited("set-aside"), set[About]()

    for number in range(10_000):
        check_event(event(f"p{number}", 1), found, seen, NOW)

    assert len(list(found.findings())) == 6
    assert len(seen) == 5


@pytest.mark.parametrize(
    ("definition", "name"),
    [
        ("workloads.kueue.x-k8s.io", "Kueue"),
        ("podgroups.scheduling.volcano.sh", "Volcano"),
        ("podgroups.scheduling.run.ai", "KAI"),
        ("podgroups.scheduling.x-k8s.io", "scheduler-plugins"),
        ("workloads.scheduling.muster.dev", None),
        ("jobsets.jobset.x-k8s.io", None),
    ],
)
def test_schedulers_are_known_by_their_definitions(definition: str, name: str | None) -> None:
    found = list(check_definitions_of_others([{"metadata": {"name": definition}}]))

    assert [one.problem.partition(" is installed")[0] for one in found] == ([name] if name else [])
    assert all(one.severity == INFO and one.action for one in found)


def test_each_scheduler_is_named_once() -> None:
    names = [f"{kind}.{group}" for group in KNOWN for kind in ("podgroups", "queues")]

    assert len(list(check_definitions_of_others([{"metadata": {"name": n}} for n in names]))) == 4


def test_groups_that_kubernetes_serves_itself() -> None:
    assert list(check_native({"v1": ["priorityclasses"]})) == []
    (finding,) = check_native({"v1": ["priorityclasses"], "v1alpha2": ["workloads", "podgroups"]})

    assert finding.about.name == "scheduling.k8s.io/v1alpha2"


def test_namespaces_that_give_the_groups_of_others_to_muster() -> None:
    label = {"scheduling.muster.dev/foreign-groups": "enabled"}
    there = [{"metadata": {"name": f"n{number}", "labels": label}} for number in range(7)]

    (finding,) = check_namespaces(there)

    assert "n0, n1, n2, n3, n4 and 2 more" in finding.problem
    assert list(check_namespaces([{"metadata": {"name": "x", "labels": {"a": "b"}}}])) == []


@pytest.mark.parametrize(
    ("api", "severity", "then"),
    [
        (GroupsApi.NATIVE, Severity.ERROR, "new Jobs and JobSets wait"),
        (GroupsApi.AUTO, Severity.INFO, "new Jobs and JobSets get Muster's groups"),
    ],
)
def test_native_groups_that_are_wanted_and_not_served(
    api: GroupsApi, severity: Severity, then: str
) -> None:
    assert list(check_groups_api({}, GroupsApi.MUSTER)) == []
    assert list(check_groups_api({"v1beta1": ["podgroups"]}, api)) == []

    (finding,) = check_groups_api({"v1alpha2": ["podgroups"]}, api)

    assert finding.severity == severity
    assert finding.problem == (
        f"groups.api is {api}, and the API server does not serve "
        f"podgroups.scheduling.k8s.io/v1beta1: {then}"
    )
