"""Leaders created first are placed together with the workers created after them."""

from typing import Any

import pytest

from api.constants import GROUP, MAX_EXPECTED_PODS, MAX_EXPECTED_TEMPLATE
from api.integration.common.owner_kind import Review
from api.integration.lws.admission import lws_admission, lws_expected, lws_groups
from api.integration.lws.expected import leader_group, workers_group
from api.integration.lws.view import read_lws
from api.rules.validation import validate
from tests.support.lws import LwsBuilder, make_lws

Json = dict[str, Any]

CONTAINERS = [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]


def gang(replicas: int = 1, size: int = 4, **words: str) -> LwsBuilder:
    builder = make_lws().replicas(replicas, size).asks(**{"gang_mode": "Gang"} | words)
    return builder.worker(containers=CONTAINERS)


def counts(made: Json, **sizes: int) -> dict[str, list[tuple[str, int]]]:
    known = {int(at.removeprefix("r")): size for at, size in sizes.items()}
    found = lws_expected(made, known)
    return {group: [(it["name"], it["count"]) for it in pods] for group, pods in found.items()}


def minimums(made: Json, *, expects: bool) -> dict[str, int]:
    return {
        obj["spec"]["workloadRef"]["templateName"]: next(
            iter(obj["spec"]["schedulingPolicy"]["gang"].values())
        )
        for obj in lws_groups(made, expects=expects)[1:]
    }


@pytest.mark.parametrize("order", ["LeaderReady", "exclusive"])
def test_leader_and_workers_of_each_replica_expect_their_pods(order: str) -> None:
    builder = gang(2).leader_ready() if order == "LeaderReady" else gang(2).exclusive("rack")
    made = builder.admitted()
    view = read_lws(made)

    assert counts(made) == {
        leader_group(view, 0): [("leader", 1)],
        workers_group(view, 0): [("workers", 3)],
        leader_group(view, 1): [("leader", 1)],
        workers_group(view, 1): [("workers", 3)],
    }
    assert minimums(made, expects=True) == {"replica": 2, "leader": 1, "workers": 3}
    assert minimums(made, expects=False) == {"replica": 1, "leader": 1, "workers": 3}


@pytest.mark.parametrize(
    ("builder", "want"),
    [
        pytest.param(gang(min_count="3").leader_ready(), [2, 1, 2], id="some of the workers"),
        pytest.param(gang(min_count="1").leader_ready(), [1, 1, 1], id="the leader is enough"),
        pytest.param(gang(size=1).leader_ready(), [1, 1], id="no workers"),
        pytest.param(gang(size=MAX_EXPECTED_PODS + 1).leader_ready(), [1, 1, 10_000], id="many"),
        pytest.param(gang(2, gang_mode="Composite").leader_ready(), [2, 2, 1, 3], id="a tree"),
        pytest.param(gang(), [4], id="all at once"),
    ],
)
def test_how_much_of_a_replica_its_leader_waits_for(builder: LwsBuilder, want: list[int]) -> None:
    assert list(minimums(builder.admitted(), expects=True).values()) == want


def test_nothing_is_expected_where_all_pods_are_made_at_once_or_none_is_in_a_group() -> None:
    assert lws_expected(gang().admitted()) == {}
    assert lws_expected(gang().leader_ready().build()) == {}
    assert lws_expected(gang(0).leader_ready().admitted()) == {}
    assert counts(gang(size=1).leader_ready().admitted()).popitem()[1] == []


def test_a_replica_with_fewer_pods_expects_those() -> None:
    made = gang(2, 8).leader_ready().admitted()

    found = counts(made, r1=3)

    assert found[workers_group(read_lws(made), 0)] == [("workers", 7)]
    assert found[workers_group(read_lws(made), 1)] == [("workers", 2)]


def test_leaders_have_a_template_of_their_own_or_that_of_the_workers() -> None:
    own = gang().leader(containers=[{"name": "lead"}]).leader_ready().admitted()
    found = lws_expected(own)
    leader, workers = (found[it(read_lws(own), 0)][0] for it in (leader_group, workers_group))

    assert leader["template"]["spec"] == {"containers": [{"name": "lead"}]}
    assert workers["template"]["spec"] == {"containers": CONTAINERS}
    labels = workers["template"]["metadata"]["labels"]
    assert labels["leaderworkerset.sigs.k8s.io/name"] == "serve"
    assert labels["leaderworkerset.sigs.k8s.io/group-index"] == "0"
    same = lws_expected(gang().leader_ready().admitted())
    assert {it["template"]["spec"]["containers"][0]["name"] for (it,) in same.values()} == {"main"}


def test_the_groups_are_as_the_rules_have_them() -> None:
    made = gang(2).leader_ready().admitted()
    pods = lws_expected(made)
    for obj in lws_groups(made, expects=True):
        if obj["kind"] == "PodGroup":
            obj["spec"]["expectedPods"] = pods[obj["metadata"]["name"]]
            assert not validate("PodGroup", obj, None, "CREATE").causes


TEMPLATE = "spec.leaderWorkerTemplate.workerTemplate"


@pytest.mark.parametrize(
    ("builder", "want"),
    [
        pytest.param(gang().leader_ready(), [], id="the leader first"),
        pytest.param(
            gang(size=MAX_EXPECTED_PODS + 1).leader_ready(),
            ["spec.leaderWorkerTemplate.size"],
            id="too many pods",
        ),
        pytest.param(
            gang().worker(nodeSelector={"k": "v" * MAX_EXPECTED_TEMPLATE}).leader_ready(),
            [TEMPLATE],
            id="a template that is too large",
        ),
        pytest.param(
            gang().worker(nodeSelector={"k": "v" * MAX_EXPECTED_TEMPLATE}),
            [],
            id="large, and all at once",
        ),
    ],
)
def test_what_is_more_than_a_group_can_expect_is_refused(
    builder: LwsBuilder, want: list[str]
) -> None:
    answer = lws_admission(builder.build(), Review("CREATE", expects=True))

    assert [it.field for it in answer.causes] == want
    assert not lws_admission(builder.build(), Review("CREATE")).causes
    assert answer.warnings == []
    found = lws_expected(builder.admitted())
    assert not want or all(it == [] for it in found.values())


def test_without_groups_nothing_is_said() -> None:
    plain = make_lws().replicas(1, MAX_EXPECTED_PODS + 1).leader_ready()

    assert lws_admission(plain.build(), Review("CREATE", expects=True)).causes == []


@pytest.mark.parametrize("template", [None, 1, {}, {"spec": []}, {"spec": {"containers": [1]}}])
def test_a_template_of_any_structure(template: Any) -> None:
    made = gang().leader_ready().admitted()
    labels = {f"{GROUP}/pod-group": "serve"}
    worker = made["spec"]["leaderWorkerTemplate"]
    notes = worker["workerTemplate"]["metadata"]["annotations"]
    if isinstance(template, dict):
        template = template | {"metadata": {"labels": labels, "annotations": notes}}
    worker["workerTemplate"] = template

    lws_expected(made)
    lws_groups(made, expects=True)
    lws_admission(made, Review("CREATE", expects=True))
