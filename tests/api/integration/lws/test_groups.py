"""The groups of a LeaderWorkerSet: names, sizes, parents, and their members."""

from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GROUP_BY,
    ANNOTATION_PROVISIONING_REQUEST,
    LABEL_POD_GROUP,
    LWS_LABEL_GROUP_INDEX,
    LWS_LABEL_WORKER_INDEX,
    MAX_REPLICAS,
)
from api.groups import groups_of_object
from api.integration.lws.admission import lws_groups
from api.rules.validation import validate
from tests.support.lws import LwsBuilder, make_lws

Json = dict[str, Any]


def gang(replicas: int = 1, size: int = 4, **words: str) -> LwsBuilder:
    return make_lws().replicas(replicas, size).asks(gang_mode="Gang", **words)


def composite(replicas: int = 2, size: int = 4, **words: str) -> LwsBuilder:
    return make_lws().replicas(replicas, size).asks(gang_mode="Composite", **words)


def pod_of(lws: Json, replica: int, worker: int) -> Json:
    """Return a pod as the LeaderWorkerSet controller creates it."""
    templates = lws["spec"]["leaderWorkerTemplate"]
    key = "leaderTemplate" if worker == 0 and "leaderTemplate" in templates else "workerTemplate"
    made: Json = {**templates[key], "metadata": dict(templates[key]["metadata"])}
    labels = {LWS_LABEL_GROUP_INDEX: str(replica), LWS_LABEL_WORKER_INDEX: str(worker)}
    made["metadata"]["labels"] = made["metadata"]["labels"] | labels
    return made


def group_of(lws: Json, replica: int, worker: int) -> str:
    (reference,) = groups_of_object(pod_of(lws, replica, worker), ours=True)
    return reference.name


def line(obj: Json) -> tuple[Any, ...]:
    """Return kind, template, minimum, topology, disruption mode."""
    spec = obj["spec"]
    policy = spec["schedulingPolicy"]["gang"]
    topology = spec.get("schedulingConstraints", {}).get("topology", [{}])[0]
    return (
        obj["kind"],
        spec["workloadRef"]["templateName"],
        next(iter(policy.values())),
        topology.get("key", ""),
        topology.get("preferred", False),
        *spec["disruptionMode"],
    )


CPG, PG = "CompositePodGroup", "PodGroup"


@pytest.mark.parametrize(
    ("builder", "want"),
    [
        pytest.param(gang(), [(PG, "replica", 4, "", False, "single")], id="one gang"),
        pytest.param(
            gang(2, topology="rack", disruption_mode="All"),
            [(PG, "replica", 4, "rack", False, "all")] * 2,
            id="a gang for each replica",
        ),
        pytest.param(
            gang(min_count="3", preferred_topology="rack"),
            [(PG, "replica", 3, "rack", True, "single")],
            id="min-count counts pods",
        ),
        pytest.param(
            composite(3, min_count="2", topology="rack", disruption_mode="All"),
            [
                (CPG, "replicas", 2, "", False, "single"),
                *[(PG, "replica", 4, "rack", False, "all")] * 3,
            ],
            id="min-count counts replicas; topology and disruption mode are a replica's",
        ),
        pytest.param(
            gang(topology="rack", disruption_mode="All").leader_ready(),
            [
                (CPG, "replica", 1, "rack", False, "all"),
                (PG, "leader", 1, "", False, "all"),
                (PG, "workers", 3, "", False, "all"),
            ],
            id="the leader first",
        ),
        pytest.param(
            gang(min_count="3").leader_ready(),
            [
                (CPG, "replica", 1, "", False, "single"),
                (PG, "leader", 1, "", False, "single"),
                (PG, "workers", 2, "", False, "single"),
            ],
            id="min-count counts the leader too",
        ),
        pytest.param(
            gang(min_count="1").leader_ready(),
            [
                (CPG, "replica", 1, "", False, "single"),
                (PG, "leader", 1, "", False, "single"),
                (PG, "workers", 1, "", False, "single"),
            ],
            id="no group of no pods",
        ),
        pytest.param(
            gang(size=1).leader_ready(),
            [(CPG, "replica", 1, "", False, "single"), (PG, "leader", 1, "", False, "single")],
            id="a leader without workers",
        ),
        pytest.param(
            gang().exclusive("rack"),
            [
                (CPG, "replica", 1, "rack", False, "single"),
                (PG, "leader", 1, "", False, "single"),
                (PG, "workers", 3, "", False, "single"),
            ],
            id="an exclusive topology",
        ),
        pytest.param(
            gang(preferred_topology="block").exclusive("rack"),
            [
                (CPG, "replica", 1, "block", True, "single"),
                (PG, "leader", 1, "", False, "single"),
                (PG, "workers", 3, "", False, "single"),
            ],
            id="a topology besides the exclusive one",
        ),
        pytest.param(
            composite(1).leader_ready(),
            [
                (CPG, "replicas", 1, "", False, "single"),
                (CPG, "replica", 1, "", False, "single"),
                (PG, "leader", 1, "", False, "single"),
                (PG, "workers", 3, "", False, "single"),
            ],
            id="three levels",
        ),
        pytest.param(
            gang(1).present(3),
            [(PG, "replica", 4, "", False, "single")] * 3,
            id="replicas that are there besides, as in a rolling update",
        ),
        pytest.param(
            composite(1).present(2),
            [
                (CPG, "replicas", 1, "", False, "single"),
                *[(PG, "replica", 4, "", False, "single")] * 2,
            ],
            id="replicas that are there besides do not count",
        ),
        pytest.param(gang(0).present(2), [], id="scaled to zero"),
        pytest.param(gang(-1).present(2), [], id="a number that its controller refuses"),
        pytest.param(
            gang(size=0), [(PG, "replica", 1, "", False, "single")], id="a size that it refuses"
        ),
        pytest.param(make_lws().asks(gang_mode="Off"), [], id="off"),
        pytest.param(make_lws(), [], id="not asked"),
    ],
)
def test_groups(builder: LwsBuilder, want: list[tuple[Any, ...]]) -> None:
    made = lws_groups(builder.admitted())

    assert [line(it) for it in made[1:]] == want
    assert [it["kind"] for it in made[:1]] == (["Workload"] if want else [])
    for obj in made:
        assert validate(obj["kind"], obj, None, "CREATE").causes == []


@pytest.mark.parametrize("mode", ["Gang", "Composite"])
def test_the_pods_of_a_replica_are_in_its_group(mode: str) -> None:
    lws = make_lws().replicas(3, 4).asks(gang_mode=mode).admitted()
    leaves = [it["metadata"]["name"] for it in lws_groups(lws) if it["kind"] == PG]

    found = [{group_of(lws, replica, worker) for worker in range(4)} for replica in range(3)]

    assert found == [{name} for name in leaves]
    assert len(set(leaves)) == 3


@pytest.mark.parametrize("with_template", [False, True])
@pytest.mark.parametrize("mode", ["Gang", "Composite"])
def test_a_leader_that_comes_first_is_in_a_group_of_its_own(mode: str, with_template: bool) -> None:
    builder = make_lws().replicas(2, 3).asks(gang_mode=mode).leader_ready()
    lws = (builder.leader() if with_template else builder).admitted()
    made = lws_groups(lws)
    parents = [it["metadata"]["name"] for it in made if line_is(it, "replica")]
    leaders, workers = (
        [it for it in made if line_is(it, template)] for template in ("leader", "workers")
    )

    for replica in range(2):
        assert group_of(lws, replica, 0) == leaders[replica]["metadata"]["name"]
        assert {group_of(lws, replica, at) for at in (1, 2)} == {
            workers[replica]["metadata"]["name"]
        }
        for leaf in (leaders[replica], workers[replica]):
            assert leaf["spec"]["parentCompositePodGroupName"] == parents[replica]


def line_is(obj: Json, template: str) -> bool:
    return bool(obj["spec"].get("workloadRef", {}).get("templateName") == template)


def test_each_level_names_the_one_above_it() -> None:
    made = lws_groups(composite(2).leader_ready().admitted())
    names = {it["metadata"]["name"]: it["spec"].get("parentCompositePodGroupName") for it in made}

    assert len(names) == 1 + 1 + 2 + 4
    (root,) = (it["metadata"]["name"] for it in made if line_is(it, "replicas"))
    assert [names[it["metadata"]["name"]] for it in made if line_is(it, "replica")] == [root] * 2


def test_groups_say_whose_they_are() -> None:
    for obj in lws_groups(composite().leader_ready().admitted()):
        (owner,) = obj["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == (
            "LeaderWorkerSet",
            "serve",
            "uid-of-serve",
        )


def test_the_priority_is_that_of_both_templates() -> None:
    same = gang().leader(priorityClassName="high").worker(priorityClassName="high")

    for obj in lws_groups(same.admitted())[1:]:
        assert obj["spec"]["priorityClassName"] == "high"


def test_a_delay_is_the_roots() -> None:
    note = "scheduling.muster.dev/preemption-delay"
    for builder in (gang(2), gang(2).leader_ready(), composite(2), composite(2).leader_ready()):
        made = lws_groups(builder.asks(preemption_delay="5m").admitted())
        for obj in made[1:]:
            root = "parentCompositePodGroupName" not in obj["spec"]
            assert (obj["metadata"]["annotations"].get(note) == "5m") is root


def test_a_request_for_capacity_reaches_no_group() -> None:
    """Admission rejects it: the pods would not have the annotation of the request."""
    for builder in (gang(), composite()):
        for obj in lws_groups(builder.asks(provisioning_request="check-capacity").admitted()):
            assert ANNOTATION_PROVISIONING_REQUEST not in obj["metadata"]["annotations"]


def test_the_workload_may_have_another_name() -> None:
    workload, *made = lws_groups(composite().admitted(), workload="other")

    assert workload["metadata"]["name"] == "other"
    assert {it["spec"]["workloadRef"]["workloadName"] for it in made} == {"other"}


def test_names_of_two_sets_never_meet() -> None:
    made = [
        {(it["kind"], it["metadata"]["name"]) for it in lws_groups(it.admitted())}
        for it in (
            make_lws(name).replicas(12, 2).asks(gang_mode="Composite").leader_ready()
            for name in ("a", "a-1", "a-1-1", "replicas")
        )
    ]

    assert sum(map(len, made)) == len(set().union(*made))


def test_without_its_marks_it_has_no_groups() -> None:
    lws = gang().leader().admitted()
    for template in ("leaderTemplate", "workerTemplate"):
        for section, key in (("labels", LABEL_POD_GROUP), ("annotations", ANNOTATION_GROUP_BY)):
            metadata = lws["spec"]["leaderWorkerTemplate"][template]["metadata"]
            said = metadata[section].pop(key)
            assert lws_groups(lws) == []
            metadata[section][key] = said
    assert len(lws_groups(lws)) == 2


def test_a_set_that_asks_for_nothing_or_has_no_templates_has_no_groups() -> None:
    off, bare = gang().admitted(), gang().admitted()
    off["metadata"]["annotations"].clear()
    del bare["spec"]["leaderWorkerTemplate"]["workerTemplate"]

    assert lws_groups(off) == lws_groups(bare) == []


def test_a_huge_one_costs_no_more_than_the_most_replicas() -> None:
    made = lws_groups(gang(10**9, 10**6).present(10**9).admitted())

    assert len(made) == 1 + MAX_REPLICAS
    assert len(lws_groups(composite(10**9).present(10**9).leader_ready().admitted())) == (
        2 + 3 * MAX_REPLICAS
    )
