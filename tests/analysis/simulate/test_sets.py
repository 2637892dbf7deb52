"""A LeaderWorkerSet in a simulation: its groups, and the pods of its controller."""

from typing import Any

import pytest

from analysis.simulate.sets import of_lws
from analysis.simulate.simulate import simulate
from api import names
from api.constants import LWS_ANNOTATION_SIZE
from api.integration.lws.view import LEADER_FIRST, TOGETHER
from api.scheduler_names import USUAL
from e2e.flows.owners.workloads import lws_pods
from kube.base.errors import ConfigError
from scheduler.core.search.place import SearchBudget
from tests.cli.commands.test_solver_commands import pod_spec
from tests.scheduler.state_builder import StateBuilder
from tests.support.lws import LwsBuilder, admitted, make_lws

Json = dict[str, Any]

RACK = "rack"


def lws(replicas: int = 2, size: int = 2) -> LwsBuilder:
    return make_lws().replicas(replicas, size).worker(**pod_spec())


def gang(replicas: int = 2, size: int = 2) -> LwsBuilder:
    return lws(replicas, size).asks(gang_mode="Gang")


def group(replica: int, *, first: bool = False) -> str:
    key = LEADER_FIRST.text() if first else TOGETHER.key
    return names.pod_group_of_value("serve", key, str(replica))


def simulated(builder: LwsBuilder, nodes: int = 2) -> list[str]:
    state = StateBuilder()
    state.nodes(nodes, cpu=2, rack_of=nodes)
    return simulate(state.state, [builder.to_create()], "default", SearchBudget()).lines


def pods_of(builder: LwsBuilder) -> list[Json]:
    return [it for it in of_lws(builder.build(), USUAL) if it["kind"] == "Pod"]


def test_each_replica_is_decided_as_a_gang() -> None:
    assert simulated(gang()) == [
        f"PodGroup default/{group(0)}: 0 of 2 pods scheduled, minCount 2",
        "  fits: n0 x2",
        f"PodGroup default/{group(1)}: 0 of 2 pods scheduled, minCount 2",
        "  fits: n1 x2",
    ]


def test_a_replica_without_room_waits_whole() -> None:
    lines = simulated(gang(), nodes=1)

    assert lines[1] == "  fits: n0 x2"
    assert "The group needs capacity for 2 more pods" in lines[3]


def test_all_replicas_of_a_composite_are_one_decision() -> None:
    lines = simulated(gang().asks(gang_mode="Composite"))

    assert lines[0].startswith("CompositePodGroup default/cpg-lws-serve: 0 of 2 child groups")
    assert lines[1] == "  fits: n0 x2, n1 x2"


def test_a_leader_that_comes_first_is_decided_with_its_workers() -> None:
    lines = simulated(gang(1, 3).leader_ready())

    assert lines[0].startswith("CompositePodGroup default/cpg-lws-serve-0-")
    assert lines[1] == "  fits: n0 x2, n1 x1"


def test_without_the_annotation_its_pods_are_alone() -> None:
    fits = "  fits: n0 x1"
    assert simulated(lws(1, 2)) == ["Pod serve-0", fits, "Pod serve-0-1", fits]


@pytest.mark.parametrize(
    ("builder", "want"),
    [
        pytest.param(lws(), ["  fits: n0 x1", "  fits: n0 x1"], id="pods"),
        pytest.param(gang(), ["  fits: n0 x2"], id="gangs"),
    ],
)
def test_replicas_with_a_domain_of_their_own_keep_out_of_each_others(
    builder: LwsBuilder, want: list[str]
) -> None:
    """All four pods fit the one rack, but only one replica may use it."""
    lines = simulated(builder.exclusive(RACK))

    assert [line for line in lines if line.startswith("  fits")] == want
    assert any(line.startswith("  Unschedulable") for line in lines)


def test_workers_follow_their_leader_into_its_domain() -> None:
    state = StateBuilder()
    state.nodes(2, cpu=2, rack_of=1)

    document = lws(1, 3).exclusive(RACK).to_create()
    lines = simulate(state.state, [document], "default", SearchBudget()).lines

    assert lines[1:4:2] == ["  fits: n0 x1", "  fits: n0 x1"]
    assert lines[5].startswith("  Unschedulable")


def test_its_own_affinity_is_kept() -> None:
    term = {"labelSelector": {}, "topologyKey": "zone"}
    own = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    builder = make_lws().worker(affinity=own).exclusive(RACK)

    (made,) = pods_of(builder)

    terms = made["spec"]["affinity"]["podAffinity"]
    assert terms["requiredDuringSchedulingIgnoredDuringExecution"][0] == term
    assert len(terms["requiredDuringSchedulingIgnoredDuringExecution"]) == 2


@pytest.mark.parametrize(
    "builder", [gang(2, 3), gang(2, 3).leader(hostNetwork=True).leader_ready()]
)
def test_pods_are_those_that_the_controller_makes(builder: LwsBuilder) -> None:
    stored = builder.admitted()
    want = [
        pod
        for replica in range(2)
        for pod in (lws_pods.leader(stored, replica), *lws_pods.workers(stored, replica))
    ]

    for made, real in zip(pods_of(builder), want, strict=True):
        assert made["metadata"].pop("namespace") == "default"
        assert made["metadata"]["annotations"][LWS_ANNOTATION_SIZE] == "3"
        real["metadata"]["annotations"].pop(lws_pods.LEADER_NAME, None)
        assert made == real


def test_what_admission_refuses_is_refused_by_the_path() -> None:
    with pytest.raises(ConfigError, match=r"LeaderWorkerSet serve would be rejected: .*min-count"):
        simulated(gang().asks(min_count="9"))


def test_subgroups_have_a_domain_each() -> None:
    made = gang(1, 4).subgroups(2, exclusive=RACK)

    for racks, want in ((2, "  fits: "), (1, "  Unschedulable (")):
        state = StateBuilder()
        state.nodes(2, cpu=8, rack_of=2 // racks)
        said = simulate(state.state, [made.to_create()], "default", SearchBudget()).lines
        assert said[1].startswith(want), "one rack is not for two subgroups"


@pytest.mark.parametrize(
    ("size", "subgroup", "policy", "want"),
    [
        (4, 2, "LeaderWorker", [0, 0, 1, 1]),
        (5, 2, "LeaderWorker", [0, 0, 0, 1, 1]),
        (5, 2, "LeaderExcluded", [None, 0, 0, 1, 1]),
        (4, 4, "LeaderWorker", [0, 0, 0, 0]),
        (3, 1, "LeaderWorker", [0, 0, 1]),
    ],
)
def test_pods_are_in_the_subgroups_of_the_controller(
    size: int, subgroup: int, policy: str, want: list[int | None]
) -> None:
    """The subgroups match `getSubGroupIndex` of version 0.7.0."""
    made = gang(1, size).subgroups(subgroup)
    made._spec["leaderWorkerTemplate"]["subGroupPolicy"]["type"] = policy
    labels = [it["metadata"]["labels"] for it in pods_of(made)]

    found = [it.get("leaderworkerset.sigs.k8s.io/subgroup-index") for it in labels]
    assert found == [None if it is None else str(it) for it in want]
    assert all("affinity" not in it["spec"] for it in pods_of(made))


def test_subgroups_are_as_in_the_flows() -> None:
    made = gang(2, 4).subgroups(2, exclusive=RACK)
    plain = admitted(gang(2, 4).build())
    real = [
        lws_pods.alone(it, 2, RACK)
        for at in range(2)
        for it in (lws_pods.leader(plain, at), *lws_pods.workers(plain, at))
    ]

    for pod, other in zip(pods_of(made), real, strict=True):
        assert pod["spec"]["affinity"] == other["spec"]["affinity"]
        assert pod["metadata"]["labels"] == other["metadata"]["labels"]


@pytest.mark.parametrize("policy", [None, 7, {}, {"subGroupSize": 0}, {"subGroupSize": "x"}])
def test_a_policy_of_any_form_parts_nothing(policy: Any) -> None:
    made = gang(1, 4).subgroups(2, exclusive=RACK)
    made._spec["leaderWorkerTemplate"]["subGroupPolicy"] = policy

    assert all("affinity" not in it["spec"] for it in pods_of(made))


def test_replicas_without_pods_are_not_visited_one_by_one() -> None:
    assert list(of_lws(lws(2**31 - 1, 0).build(), USUAL)) == []


@pytest.mark.parametrize("templates", [{}, {"size": 4}, {"workerTemplate": None}, None])
def test_one_without_templates_has_no_pods(templates: Any) -> None:
    made = lws(2).build()
    made["spec"]["leaderWorkerTemplate"] = templates

    assert list(of_lws(made, USUAL)) == []
