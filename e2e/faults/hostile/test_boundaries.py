"""Boundaries between two tenants: requests against the other are rejected or have no effect."""

from dataclasses import dataclass
from typing import Any

import pytest

from e2e.faults.hostile.scenarios import LONG_SCENARIOS, POLICY, SCENARIOS, Scenario
from e2e.faults.hostile.stage import Player
from e2e.harness.objects import Json, pod_group
from kube.client.resources import PRIORITY_CLASSES

REFERENCE = {"workloadName": "w", "templateName": "t"}


@dataclass(frozen=True)
class Refusal:
    """A request of the hostile tenant; `path` has {own} and {other} for the namespaces."""

    what: str
    method: str
    path: str
    body: Json
    code: int
    says: str = ""


def _spec(**fields: object) -> Json:
    return {**pod_group("g", 1), "spec": {**POLICY, **fields}}


_OURS = "/apis/scheduling.muster.dev/v1alpha3"
_STATUS: Json = {"status": {"scheduledPods": 99, "conditions": []}}
REFUSED = (
    Refusal("reads another's groups", "GET", f"{_OURS}/namespaces/{{other}}/podgroups", {}, 403),
    Refusal("reads all groups", "GET", f"{_OURS}/podgroups", {}, 403),
    Refusal(
        "makes a group in another namespace",
        "POST",
        f"{_OURS}/namespaces/{{other}}/podgroups",
        _spec(),
        403,
    ),
    Refusal(
        "writes the status of its own group",
        "PATCH",
        f"{_OURS}/namespaces/{{own}}/podgroups/any/status",
        _STATUS,
        403,
    ),
    Refusal(
        "writes the status of its own composite",
        "PATCH",
        f"{_OURS}/namespaces/{{own}}/compositepodgroups/any/status",
        _STATUS,
        403,
    ),
    Refusal(
        "writes the status of its own pod",
        "PATCH",
        "/api/v1/namespaces/{own}/pods/any/status",
        {"status": {"nominatedNodeName": "calm-0"}},
        403,
    ),
    Refusal(
        "binds its own pod",
        "POST",
        "/api/v1/namespaces/{own}/pods/any/binding",
        {"target": {"kind": "Node", "name": "calm-0"}},
        403,
    ),
    Refusal("reads Reservations", "GET", f"{_OURS}/reservations", {}, 403),
    Refusal(
        "writes a Reservation",
        "POST",
        f"{_OURS}/reservations",
        {"metadata": {"name": "mine"}, "spec": {}},
        403,
    ),
    Refusal(
        "makes a priority class",
        "POST",
        PRIORITY_CLASSES.path(),
        {"metadata": {"name": "mine"}, "value": 10**9},
        403,
    ),
    Refusal(
        "has a priority without a class",
        "POST",
        f"{_OURS}/namespaces/{{own}}/podgroups",
        _spec(priority=10**9),
        403,
        "priority",
    ),
    Refusal(
        "preempts under a class that never does",
        "POST",
        f"{_OURS}/namespaces/{{own}}/podgroups",
        _spec(priorityClassName="hostile-never", preemptionPolicy="PreemptLowerPriority"),
        403,
        "preemptionPolicy",
    ),
    Refusal(
        "names a parent in another namespace",
        "POST",
        f"{_OURS}/namespaces/{{own}}/podgroups",
        _spec(parentCompositePodGroupName="calm/tree", workloadRef=REFERENCE),
        422,
        "parentCompositePodGroupName",
    ),
    Refusal(
        "names a Workload in another namespace",
        "POST",
        f"{_OURS}/namespaces/{{own}}/podgroups",
        _spec(workloadRef={"workloadName": "calm/w", "templateName": "t"}),
        422,
        "workloadName",
    ),
    Refusal(
        "evicts another's pod",
        "POST",
        "/api/v1/namespaces/{other}/pods/any/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "any"}},
        403,
    ),
)


@pytest.mark.parametrize("case", [pytest.param(each, id=each.what) for each in REFUSED])
def test_it_is_refused(player: Player, case: Refusal) -> None:
    stage = player.stage
    path = case.path.format(own=stage.mallory.name, other=stage.calm.tenant.name)

    body = case.body or None
    content: dict[str, Any] = (
        {"content_type": "application/merge-patch+json"} if case.method == "PATCH" else {}
    )
    answer = player.runner.run(stage.mallory.rest.call(case.method, path, body, **content))

    assert answer.status == case.code, answer.text
    assert case.says in answer.text


@pytest.mark.parametrize(
    "scenario",
    [
        *(pytest.param(each, id=each.__name__) for each in SCENARIOS),
        *(pytest.param(each, id=each.__name__, marks=pytest.mark.long) for each in LONG_SCENARIOS),
    ],
)
def test_it_has_no_effect(player: Player, scenario: Scenario) -> None:
    player.act(scenario)
