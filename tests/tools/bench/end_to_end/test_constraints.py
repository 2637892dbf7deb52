"""The check finds a violation of each constraint, and no false ones."""

from collections.abc import Iterable
from typing import Any

import pytest

from tools.bench.end_to_end import workload_objects as made
from tools.bench.end_to_end import workload_volumes as stored
from tools.bench.end_to_end.cases import CASES
from tools.bench.end_to_end.constraints import Outcome, complaints
from tools.bench.end_to_end.objects import OURS
from tools.bench.end_to_end.workload_cluster import unexpected
from tools.bench.end_to_end.workloads import Coming, Content, Stage, Workload

Json = dict[str, Any]

OWN = "bench"


def node(name: str, zone: str = "zone1", **allocatable: str) -> Json:
    resources = {"cpu": "4", "memory": "32Gi", "pods": "110"} | allocatable
    labels = {made.HOST: name, made.ZONE: zone}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": resources}}


NODES = [node("n0"), node("n1", "zone2"), node("n2", "zone3")]


def pod(content: Content, name: str, at: str = "", space: str = OWN) -> Json:
    """Return a pod as the API server has it."""
    it = made.pod(content, name, OWN)
    it["metadata"]["namespace"] = space
    if at:
        it["spec"]["nodeName"] = at
    return it


def judged(*pods: Json, **more: list[Json]) -> list[str]:
    spaces = [
        {"metadata": {"name": name, "labels": {"team": "devops"}}} for name in (OWN, f"{OWN}-0")
    ]
    found = Outcome(pods=list(pods), **({"nodes": NODES, "namespaces": spaces} | more))
    return complaints(found, OURS.group_of)


def series(content: Content, *nodes: str) -> list[Json]:
    return [pod(content, f"p-{index}", at) for index, at in enumerate(nodes)]


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(series("default", "n0", "n0", ""), id="pods of which one waits"),
        pytest.param(series("anti-affinity", "n0", "n1"), id="a node each"),
        pytest.param(series("namespaces", "n0", "n1"), id="a node each, by namespace selector"),
        pytest.param(series("affinity", "n0", "n0"), id="one zone"),
        pytest.param(series("affinity", "n2"), id="the first of a series"),
        pytest.param(series("preferred-anti-affinity", "n0", "n0"), id="what is only preferred"),
        pytest.param(series("node-affinity", "n0", "n1"), id="zones that are taken"),
        pytest.param(series("spreading", *["n0"] * 5), id="the largest skew"),
        pytest.param(series("preferred-spreading", *["n0"] * 9), id="a skew that is allowed"),
        pytest.param(series("host-port", "n0", "n1"), id="a host port each"),
        pytest.param(series("gated", "", ""), id="gated pods that wait"),
        pytest.param(series("inclusion", "n0", "n1", "n2"), id="a node each, by a skew of 1"),
    ],
)
def test_nothing_is_wrong(pods: list[Json]) -> None:
    assert judged(*pods) == []


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(series("anti-affinity", "n0", "n0"), "anti-affinity excludes", id="together"),
        pytest.param(
            [pod("namespaces", "v-0", "n0", "bench-0"), pod("namespaces", "p-0", "n0")],
            "anti-affinity excludes",
            id="together, of two namespaces",
        ),
        pytest.param(
            [pod("anti-affinity", "v-0", "n0", "bench-0"),
             pod("matching-anti-affinity", "p-0", "n0")],
            "v-0 is with 1 pods",
            id="a pod without terms is with one that excludes it",
        ),
        pytest.param(series("affinity", "n0", "n1"), "affinity asks for", id="apart"),
        pytest.param(series("node-affinity", "n2"), "node affinity does not take", id="zone"),
        pytest.param(series("daemon", "n2"), "node affinity does not take", id="another node"),
        pytest.param(series("spreading", *["n0"] * 6), "skew is 6", id="skew"),
        pytest.param(series("host-port", "n1", "n1"), "host port 8080", id="host ports"),
        pytest.param(series("gated", "n0"), "in spite of its gates", id="gates"),
        pytest.param(series("large", "n0"), "n0 has less cpu", id="too large"),
        pytest.param(series("default", "n9"), "not there", id="a node that is not there"),
        pytest.param(series("csi-volume", "n0"), "without the volume", id="no volume"),
    ],
)  # fmt: skip
def test_a_violation_is_found(pods: list[Json], want: str) -> None:
    found = judged(*pods)

    assert any(want in text for text in found), found


def coming(kind: Coming) -> Json:
    it = made.coming("c0", kind)
    assert it["kind"] == "Node"
    return it


@pytest.mark.parametrize(
    ("content", "kind", "want"),
    [
        pytest.param("roomy", "large", "", id="room"),
        pytest.param("roomy", "small", "has less cpu", id="no room"),
        pytest.param("cordoned", "small", "", id="nothing asked for"),
        pytest.param("labelled", "labelled", "", id="the label"),
        pytest.param("labelled", "large", "node affinity does not take", id="no label"),
        pytest.param("domains", "labelled", "", id="a domain"),
        pytest.param("domains", "large", "nodes without topology", id="no domain"),
        pytest.param("tolerating", "tainted", "", id="the taint"),
        pytest.param("tolerating", "labelled", "does not tolerate", id="another taint"),
        pytest.param("default", "tainted", "does not tolerate", id="no toleration"),
    ],
)
def test_nodes_that_come_take_only_the_pods_that_wait_for_them(
    content: Content, kind: Coming, want: str
) -> None:
    found = judged(*series(content, "c0"), nodes=[coming(kind)])

    assert any(want in text for text in found) if want else found == []


def test_too_few_domains_count_as_one_that_is_empty() -> None:
    pods = series("domains", *["c0"] * 1_001)

    assert "skew is 1001 over topology, not 1000" in judged(*pods, nodes=[coming("labelled")])


def test_a_pod_on_a_cordoned_node_is_found() -> None:
    cordoned = coming("default") | {"spec": {"unschedulable": True}}

    found = judged(*series("cordoned", "c0"), nodes=[cordoned])
    assert found == ["p-0 is on a node that is cordoned"]


def test_a_skew_leaves_out_nodes_with_a_taint_only_where_a_rule_says_so() -> None:
    tainted = node("n9", "zone9") | {"spec": coming("tainted")["spec"]}
    pods = series("inclusion", "n0", "n1", "n2", "n0")
    assert judged(*pods, nodes=[*NODES, tainted]) == []
    for each in pods:
        each["spec"]["topologySpreadConstraints"][0].pop("nodeTaintsPolicy")

    assert any("skew is 2" in text for text in judged(*pods, nodes=[*NODES, tainted]))


def test_more_devices_than_a_node_has_are_found() -> None:
    one = node("n0", **{made.DEVICE: "1"})
    assert judged(*series("extended", "n0"), nodes=[one]) == []

    assert judged(*series("extended", "n0", "n0"), nodes=[one]) == [
        f"n0 has less {made.DEVICE} than its pods ask for"
    ]


def test_more_pods_than_a_node_takes_are_found() -> None:
    assert judged(*series("default", "n0", "n0"), nodes=[node("n0", pods="1")])


def test_a_deleted_pod_that_is_bound_is_found() -> None:
    gone = pod("finalizer", "v-0", "n0")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert judged(gone) == ["v-0 is bound although it was deleted"]


def with_volumes(content: Content, count: int, at: str = "n0") -> tuple[list[Json], Any]:
    both = [stored.volume(content, f"p-{index}", OWN) for index in range(count)]
    more = bound(both) | {"csi_nodes": [stored.csi_node("n0", content)]}
    return series(content, *[at] * count), more


def bound(both: Iterable[tuple[Json, Json]]) -> dict[str, list[Json]]:
    """Return volumes and their claims, as the API server has them."""
    volumes, claims = list[Json](), list[Json]()
    for volume, claim in both:
        claim["metadata"]["namespace"] = OWN
        volumes.append(volume)
        claims.append(claim)
    return {"volumes": volumes, "claims": claims}


@pytest.mark.parametrize("content", ["csi-volume", "migrated-volume"])
def test_as_many_volumes_as_a_node_attaches_are_right_and_one_more_is_found(
    content: Content,
) -> None:
    pods, more = with_volumes(content, stored.ATTACHABLE)
    assert judged(*pods, **more) == []

    pods, more = with_volumes(content, stored.ATTACHABLE + 1)
    assert f"n0 has 40 volumes of {stored.DRIVER}, not 39" in judged(*pods, **more)


def test_volumes_in_the_tree_count_only_where_their_plugin_is_migrated() -> None:
    pods, more = with_volumes("in-tree-volume", stored.ATTACHABLE + 1)

    assert not any("volumes of" in text for text in judged(*pods, **more))


BLOCKED: list[Content] = [
    "room-blocked", "port-blocked", "anti-blocked", "spread-blocked", "once-blocked",
    "limit-blocked",
]  # fmt: skip


@pytest.mark.parametrize("content", BLOCKED)
def test_blockers_keep_a_pod_of_each_kind_away_and_their_end_lets_it_in(content: Content) -> None:
    there = made.blockers(1, OWN)
    for each in there:
        each["metadata"]["namespace"] = OWN
    own = pod(content, "p-0", "n0")
    workload = Workload(stages=(Stage(("limit-blocked",), deletes=True),))
    more = bound(stored.of_stages(workload, 1, 1, OWN)) | {
        "csi_nodes": [stored.csi_node("n0", count=stored.attachable(workload))]
    }

    assert judged(*there, **more) == []
    assert judged(*there, own, **more) != []
    assert judged(own, **more) == []


def test_a_pod_in_another_zone_than_its_volume_is_found() -> None:
    pods, more = with_volumes("csi-volume", 1, "n1")
    term = {"matchExpressions": [{"key": made.ZONE, "operator": "In", "values": ["zone1"]}]}
    more["volumes"][0]["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}

    assert judged(*pods, **more) == ["p-0 is where pv-p-0 cannot be used"]


def gang(*nodes: str) -> tuple[list[Json], Json]:
    case = CASES["racks"]
    group = OURS.group(case, "g0")
    pods = [OURS.pod(case, "g0", f"g0-{index}") for index in range(case.size)]
    for each, at in zip(pods, nodes, strict=False):
        each["spec"]["nodeName"] = at
    return pods, group


RACKS = [node("n0"), node("n1"), node("n2")]
for _at, _each in enumerate(RACKS):
    _each["metadata"]["labels"]["example.com/rack"] = f"r{_at // 2}"


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        pytest.param((), [], id="none of it"),
        pytest.param(("n0", "n0", "n1", "n1"), [], id="whole, in a rack"),
        pytest.param(("n0", "n0", "n1"), ["g0 runs with 3 pods of 4"], id="a part"),
        pytest.param(
            ("n0", "n1", "n2", "n2"), ["g0 is not in one domain of example.com/rack"], id="racks"
        ),
    ],
)
def test_gangs_are_whole_and_in_one_rack(nodes: tuple[str, ...], want: list[str]) -> None:
    pods, group = gang(*nodes)

    assert judged(*pods, nodes=RACKS, groups=[group]) == want


def test_what_cannot_be_judged_is_an_error() -> None:
    odd = pod("node-affinity", "p-0", "n0")
    required = odd["spec"]["affinity"]["nodeAffinity"]
    terms = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    terms[0]["matchExpressions"][0]["operator"] = "Exists"

    with pytest.raises(ValueError, match="Exists"):
        judged(odd)


def test_pods_that_fit_and_wait_are_found_and_those_that_cannot_and_run() -> None:
    case = CASES["perf-unschedulable"].scaled(100, 0.001)
    pods = [*series("default", "n0", "n0", ""), pod("large", "v-1", "n0")]

    assert unexpected(case, pods) == [
        "v-1 is bound, and cannot be",
        "1 pods that fit are not bound",
    ]
