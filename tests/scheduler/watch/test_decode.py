"""From the bytes of a watch to the values of the decision core."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.core.model import (
    Expression,
    GroupSpec,
    HostPort,
    NodeInfo,
    PodInfo,
    PodSelector,
    PodTerm,
    Spread,
    Taint,
    Term,
    Toleration,
    Topology,
    WeightedPodTerm,
)
from scheduler.watch import decode
from scheduler.watch.objects import decode_group, decode_node, decode_pod


def container(cpu: str = "", **fields: Any) -> dict[str, Any]:
    requests = {"cpu": cpu} if cpu else {}
    return {"name": "c", "resources": {"requests": requests}, **fields}


def pod(labels: dict[str, str] | None = None, **spec: Any) -> PodInfo:
    spec = {"schedulerName": "muster-scheduler", "containers": [container("1")], **spec}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": labels or {}},
        "spec": spec,
        "status": {"phase": "Pending"},
    }
    return decode.pod_info(decode_pod(msgspec.json.encode(document)))


def read(before: PodInfo | None, *, generation: int, node: str, cpu: str, **labels: str) -> PodInfo:
    spec = {"schedulerName": "muster-scheduler", "containers": [container(cpu)], "nodeName": node}
    meta = {"name": "p", "namespace": "ns", "uid": "u", "generation": generation, "labels": labels}
    document = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
    return decode.pod_info(decode_pod(msgspec.json.encode(document)), before)


def test_what_a_pod_asks_for_is_not_read_again_as_it_is_bound() -> None:
    waiting = read(None, generation=1, node="", cpu="1", a="b")
    bound = read(waiting, generation=1, node="n", cpu="1", a="b")

    assert bound.requirements is waiting.requirements
    assert bound == read(None, generation=1, node="n", cpu="1", a="b")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param({"generation": 1, "node": ""}, {"generation": 2, "node": "n"}, id="changed"),
        pytest.param({"generation": 0, "node": ""}, {"generation": 0, "node": "n"}, id="uncounted"),
        pytest.param({"generation": 1, "node": ""}, {"generation": 1, "node": ""}, id="waits on"),
        pytest.param({"generation": 1, "node": "n"}, {"generation": 1, "node": "n"}, id="runs on"),
        pytest.param(
            {"generation": 1, "node": ""}, {"generation": 1, "node": "n", "a": "b"}, id="labels"
        ),
    ],
)
def test_what_a_pod_asks_for_is_read_at_all_other_events(
    before: dict[str, Any], now: dict[str, Any]
) -> None:
    """A user may have written the generation of a pod where the API server does not count it."""
    known = read(None, cpu="1", **before)

    assert dict(read(known, cpu="2", **now).requirements.requests) == {"cpu": 2000}


@pytest.mark.parametrize(
    ("spec", "want_cpu"),
    [
        pytest.param({"containers": [container("500m"), container("1")]}, 1500, id="a sum"),
        pytest.param(
            {"initContainers": [container("3"), container("2")]}, 3000, id="the hungriest init"
        ),
        pytest.param(
            {"initContainers": [container("1", restartPolicy="Always"), container("3")]},
            4000,
            id="an init beside a sidecar started before it",
        ),
        pytest.param(
            {"initContainers": [container("3"), container("1", restartPolicy="Always")]},
            3000,
            id="an init before a sidecar",
        ),
        pytest.param(
            {"initContainers": [container("1", restartPolicy="Always")]}, 2000, id="a sidecar"
        ),
        pytest.param({"overhead": {"cpu": "250m"}}, 1250, id="overhead on top"),
        pytest.param({"resources": {"requests": {"cpu": "5"}}}, 5000, id="pod-level requests"),
    ],
)
def test_cpu_requests(spec: dict[str, Any], want_cpu: int) -> None:
    assert dict(pod(**spec).requirements.requests)["cpu"] == want_cpu


def test_requests_are_whole_units_sorted_and_without_zeros() -> None:
    requests = {"memory": "1Gi", "nvidia.com/gpu": 2, "cpu": "0"}

    info = pod(containers=[{"resources": {"requests": requests}}])

    assert info.requirements.requests == (("memory", 1 << 30), ("nvidia.com/gpu", 2))


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"resourceClaims": [{"name": "x"}]}, ("resourceClaims",), id="a claim"),
        pytest.param(
            {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "c"}}]},
            ("in-tree volumes of a removed or restricted plugin",),
            id="a volume of a cloud's own kind",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "projected": {}}]},
            (),
            id="volumes that exist anywhere",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
            (),
            id="soft spread",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}
                }
            },
            (),
            id="soft affinity",
        ),
    ],
)
def test_what_cannot_be_decided_yet_is_named(spec: dict[str, Any], want: tuple[str, ...]) -> None:
    assert pod(**spec).requirements.unsupported == want


@pytest.mark.parametrize("scheduler", ["muster-scheduler", "default-scheduler"])
def test_claims_of_a_pod(scheduler: str) -> None:
    volumes = [
        {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "w", "persistentVolumeClaim": {"claimName": "data"}},
    ]

    claims = pod(volumes=volumes, schedulerName=scheduler).requirements.claims

    assert claims == (("ns", "data"), ("ns", "p-scratch"))


PORT = {"containerPort": 80, "hostPort": 80}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [container(ports=[{"containerPort": 80}])]}, (), id="its own"),
        pytest.param(
            {"containers": [container(ports=[PORT])]}, (HostPort("TCP", 80),), id="TCP by default"
        ),
        pytest.param(
            {"containers": [container(ports=[PORT | {"protocol": "UDP", "hostIP": "10.0.0.1"}])]},
            (HostPort("UDP", 80, "10.0.0.1"),),
            id="of one address",
        ),
        pytest.param(
            {"initContainers": [container(ports=[PORT], restartPolicy="Always")]},
            (HostPort("TCP", 80),),
            id="of a sidecar",
        ),
        pytest.param({"initContainers": [container(ports=[PORT])]}, (), id="not of an init"),
    ],
)
@pytest.mark.parametrize("scheduler", ["muster-scheduler", "default-scheduler"])
def test_host_ports(spec: dict[str, Any], want: tuple[HostPort, ...], scheduler: str) -> None:
    assert pod(**spec, schedulerName=scheduler).requirements.ports == want


WEB = {"matchLabels": {"app": "web"}}
IS_WEB = Expression("app", "In", ("web",))


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param({"labelSelector": WEB}, PodSelector((IS_WEB,), ("ns",)), id="its namespace"),
        pytest.param(
            {"labelSelector": WEB, "namespaces": ["b", "a"]},
            PodSelector((IS_WEB,), ("a", "b")),
            id="namespaces by name",
        ),
        pytest.param(
            {"labelSelector": WEB, "namespaceSelector": {}},
            PodSelector((IS_WEB,), (), ()),
            id="all namespaces",
        ),
        pytest.param({}, PodSelector(None, ("ns",)), id="no selector"),
        pytest.param({"labelSelector": {}}, PodSelector((), ("ns",)), id="an empty selector"),
        pytest.param(
            {"labelSelector": WEB, "matchLabelKeys": ["rev", "none"]},
            PodSelector((IS_WEB, Expression("rev", "In", ("7",))), ("ns",)),
            id="matchLabelKeys",
        ),
        pytest.param(
            {"labelSelector": WEB, "mismatchLabelKeys": ["rev"]},
            PodSelector((IS_WEB, Expression("rev", "NotIn", ("7",))), ("ns",)),
            id="mismatchLabelKeys",
        ),
    ],
)
def test_terms_about_other_pods(term: dict[str, Any], want: PodSelector) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "t", **term}]}

    info = pod({"rev": "7"}, affinity={"podAffinity": required, "podAntiAffinity": required})

    assert (
        info.requirements.required_affinity
        == info.requirements.required_anti_affinity
        == (PodTerm(want, "t"),)
    )


def test_a_running_pod_of_another_scheduler_keeps_its_anti_affinity() -> None:
    term = {"topologyKey": "t", "labelSelector": WEB}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}

    info = pod({"a": "b"}, schedulerName="x", nodeName="n", affinity={"podAntiAffinity": required})

    assert info.requirements.required_anti_affinity == (
        PodTerm(PodSelector((IS_WEB,), ("ns",)), "t"),
    )
    assert info.labels == {"a": "b"}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, {}, id="defaults"),
        pytest.param(
            {"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"},
            {"min_domains": 3, "honours_affinity": False, "honours_taints": True},
            id="policies",
        ),
    ],
)
def test_spread(fields: dict[str, Any], want: dict[str, Any]) -> None:
    constraint = {"topologyKey": "t", "maxSkew": 2, "labelSelector": WEB, **fields}
    hard = constraint | {"whenUnsatisfiable": "DoNotSchedule"}
    soft = constraint | {"whenUnsatisfiable": "ScheduleAnyway"}

    wants = pod(topologySpreadConstraints=[hard, soft]).requirements

    assert (
        wants.spread
        == wants.preferred_spread
        == (Spread(PodSelector((IS_WEB,), ("ns",)), "t", 2, **want),)
    )


@pytest.mark.parametrize("scheduler", ["muster-scheduler", "default-scheduler"])
def test_preferred_terms_about_other_pods(scheduler: str) -> None:
    """Those of other schedulers' pods too: whom they like near counts for ours."""
    term = {"topologyKey": "t", "labelSelector": WEB}
    soft = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": term}]
    }

    info = pod(affinity={"podAffinity": soft, "podAntiAffinity": soft}, schedulerName=scheduler)

    wanted = PodTerm(PodSelector((IS_WEB,), ("ns",)), "t")
    assert info.requirements.preferred_affinity == (
        WeightedPodTerm(7, wanted),
        WeightedPodTerm(-7, wanted),
    )
    assert not info.requirements.required_affinity


def test_preferred_node_affinity() -> None:
    expression = {"key": "disk", "operator": "In", "values": ["ssd"]}
    soft = [{"weight": 5, "preference": {"matchExpressions": [expression]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": soft}}

    assert pod(affinity=affinity).requirements.preferred_node_affinity == (
        (5, Term((Expression("disk", "In", ("ssd",)),))),
    )


def test_selectors_affinity_and_tolerations() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    by_name = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    terms = [{"matchExpressions": [expression], "matchFields": [by_name]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}

    wants = pod(
        nodeSelector={"disk": "ssd"},
        affinity={"nodeAffinity": required},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
    ).requirements

    assert wants.selector == (("disk", "ssd"),)
    assert wants.affinity == (
        Term(
            (Expression("zone", "In", ("a",)),),
            (Expression("metadata.name", "In", ("n",)),),
        ),
    )
    assert wants.tolerations == (Toleration("gpu", "Exists", "", ""),)


@pytest.mark.parametrize(
    ("labels", "spec", "want"),
    [
        pytest.param({}, {}, None, id="none"),
        pytest.param({"scheduling.muster.dev/pod-group": "g"}, {}, "g", id="by label"),
        pytest.param(
            {"scheduling.muster.dev/pod-group": "g"},
            {"schedulingGroup": {"podGroupName": "f"}},
            "f",
            id="the field counts first",
        ),
        pytest.param({"scheduling.x-k8s.io/pod-group": "c"}, {}, "c", id="KEP-3370"),
    ],
)
def test_the_group_of_a_pod(labels: dict[str, str], spec: dict[str, Any], want: str | None) -> None:
    assert pod(labels, **spec).group == want


def test_a_pod_of_another_scheduler_only_takes_room() -> None:
    info = pod(schedulerName="default-scheduler", nodeName="n", nodeSelector={"a": "b"})

    assert (info.ours, info.requirements.selector) == (False, ())
    assert info.requirements.requests == (("cpu", 1000),)


def test_gates_and_deletion_are_seen() -> None:
    assert pod(schedulingGates=[{"name": "x"}]).gated


def test_a_node() -> None:
    document = {
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": "soft", "effect": "PreferNoSchedule"},
                {"key": "hard", "value": "v", "effect": "NoExecute"},
            ],
        },
        "status": {"allocatable": {"cpu": "3500m", "memory": "1Ki", "pods": "110"}},
    }

    assert decode.node_info(decode_node(msgspec.json.encode(document))) == NodeInfo(
        "n",
        {"cpu": 3500, "memory": 1024, "pods": 110},
        {"zone": "a"},
        (Taint("soft", "", "PreferNoSchedule"), Taint("hard", "v", "NoExecute")),
        unschedulable=True,
    )


META = {"name": "g", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("kind", "spec", "want"),
    [
        pytest.param(
            "PodGroup",
            {"schedulingPolicy": {"gang": {"minCount": 4}}, "priority": 7},
            {"minimum": 4, "priority": 7},
            id="a gang",
        ),
        pytest.param(
            "PodGroup",
            {"schedulingPolicy": {"basic": {}}},
            {"minimum": 1, "gang": False},
            id="basic",
        ),
        pytest.param(
            "PodGroup",
            {"workloadRef": {"workloadName": "w", "templateName": "t"}},
            {"minimum": None, "gang": False, "workload": "w"},
            id="no policy yet",
        ),
        pytest.param(
            "CompositePodGroup",
            {
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                "parentCompositePodGroupName": "root",
                "disruptionMode": {"all": {}},
                "schedulingConstraints": {"topology": [{"key": "rack", "preferred": True}]},
            },
            {
                "minimum": 2,
                "parent": "root",
                "disruption": "all",
                "topology": Topology("rack", preferred=True),
            },
            id="a composite with everything",
        ),
    ],
)
def test_a_group(kind: str, spec: dict[str, Any], want: dict[str, Any]) -> None:
    group = decode_group(msgspec.json.encode({"metadata": META, "spec": spec}))

    fields = {"minimum": 1, "created": META["creationTimestamp"], **want}
    assert decode.group_spec(kind, group) == GroupSpec((kind, "ns", "g"), **fields)
