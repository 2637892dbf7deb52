"""Decoding from the bytes of a watch to the values of the decision core."""

from typing import Any

import msgspec
import pytest

from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_MANAGED_GROUP,
    LABEL_MANAGED_BY,
    LABEL_POD_GROUP,
    MANAGED_BY,
    NATIVE_POD_GROUP,
)
from api.features import USUAL, Feature
from api.scheduler_names import SchedulerNames
from scheduler.core.values.model import (
    Expression,
    GroupSpec,
    HostPort,
    NodeInfo,
    NodeTerm,
    PodInfo,
    PodSelector,
    PodTerm,
    Spread,
    Taint,
    Toleration,
    Topology,
    WeightedPodTerm,
)
from scheduler.decoding import decode
from scheduler.decoding.images import MOST_IMAGES
from scheduler.decoding.objects import decode_group, decode_node, decode_pod


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


RESTARTS = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, (), id="a plain pod"),
        pytest.param(
            {"containers": [container("1", restartPolicyRules=[RESTARTS])]},
            ("RestartAllContainersOnContainerExits",),
            id="a container restarts all",
        ),
        pytest.param(
            {"initContainers": [container("1", restartPolicyRules=[RESTARTS])]},
            ("RestartAllContainersOnContainerExits",),
            id="an init container restarts all",
        ),
        pytest.param(
            {"containers": [container("1", restartPolicyRules=[{"action": "Restart"}])]},
            (),
            id="a container restarts itself",
        ),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False},
            ("UserNamespacesHostNetworkSupport",),
            id="the host's network in a user namespace",
        ),
        pytest.param({"hostNetwork": True}, (), id="the host's network and users"),
        pytest.param({"hostUsers": False}, (), id="a user namespace"),
    ],
)
def test_the_features_that_a_node_must_declare(spec: dict[str, Any], want: tuple[str, ...]) -> None:
    """As `InferForScheduling` of k8s.io/component-helpers/nodedeclaredfeatures."""
    assert pod(**spec).requirements.declared_features == want


def test_a_node_declares_its_features_in_any_order() -> None:
    document = {"metadata": {"name": "n"}, "status": {"declaredFeatures": ["b", "a"]}}

    node = decode.node_info(decode_node(msgspec.json.encode(document)))

    assert node.declared_features == ("a", "b")


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
    """A user may set the generation of a pod if the API server does not count it."""
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


def test_requests_that_add_up_to_more_than_63_bits_are_cut_off() -> None:
    info = pod(containers=[container("9E"), container("9E")])

    assert dict(info.requirements.requests) == {"cpu": 2**63 - 1}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(
            {"volumes": [{"name": "v", "holographic": {}}, {"name": "w", "quantum": {}}]},
            ("volumes of an unknown kind (holographic)",),
            id="a volume of a kind that came later",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "flexVolume": {}}]},
            (),
            id="volumes that no filter concerns",
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


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"labelSelector": {}}, None, id="empty"),
        pytest.param(
            {"labelSelector": {}, "matchLabelKeys": ["rev"]},
            (Expression("rev", "In", ("7",)),),
            id="of the keys alone",
        ),
    ],
)
def test_a_spread_by_an_empty_selector_counts_no_pods(fields: dict[str, Any], want: Any) -> None:
    constraint = {"topologyKey": "t", "whenUnsatisfiable": "DoNotSchedule", **fields}

    (spread,) = pod({"rev": "7"}, topologySpreadConstraints=[constraint]).requirements.spread

    assert spread.selector == PodSelector(want, ("ns",))


@pytest.mark.parametrize("scheduler", ["muster-scheduler", "default-scheduler"])
def test_preferred_terms_about_other_pods(scheduler: str) -> None:
    """Those of other schedulers' pods too: their preferred peers count for ours."""
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
        (5, NodeTerm((Expression("disk", "In", ("ssd",)),))),
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
        NodeTerm(
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
        pytest.param(
            {"scheduling.x-k8s.io/pod-group": "c"},
            {"schedulerName": "default-scheduler"},
            None,
            id="KEP-3370, a pod of another scheduler",
        ),
        pytest.param(
            {},
            {"schedulerName": "default-scheduler", "schedulingGroup": {"podGroupName": "f"}},
            None,
            id="the field, a pod of another scheduler",
        ),
        pytest.param(
            {"scheduling.muster.dev/pod-group": "g"},
            {"schedulerName": "default-scheduler"},
            "g",
            id="by label, a pod of another scheduler",
        ),
    ],
)
def test_the_group_of_a_pod(labels: dict[str, str], spec: dict[str, Any], want: str | None) -> None:
    assert pod(labels, **spec).group == want


@pytest.mark.parametrize(
    ("words", "group"),
    [
        pytest.param({"schedulingGroup": {"podGroupName": "f"}}, "f", id="the field of 1.36"),
        pytest.param({"workloadRef": {"name": "w", "podGroup": "t"}}, "w-t", id="that of 1.35"),
        pytest.param({"labels": {"scheduling.x-k8s.io/pod-group": "c"}}, "c", id="plugins' label"),
    ],
)
@pytest.mark.parametrize(
    ("scheduler", "ours"),
    [("packs", True), ("spreads", True), ("muster-scheduler", False), ("default-scheduler", False)],
)
def test_the_foreign_forms_of_pods_with_several_schedulers(
    words: dict[str, Any], group: str, scheduler: str, ours: bool
) -> None:
    """Names that are not configured are other schedulers', even the default one."""
    labels = words.get("labels") or {}
    fields = {key: value for key, value in words.items() if key != "labels"}
    spec = {"schedulerName": scheduler, "containers": [container("1")], **fields}
    meta = {"name": "p", "namespace": "ns", "uid": "u", "labels": labels}
    document = msgspec.json.encode({"metadata": meta, "spec": spec})

    info = decode.pod_info(decode_pod(document), None, SchedulerNames(("packs", "spreads")))

    assert (info.ours, info.scheduler, info.group) == (
        (True, scheduler, group) if ours else (False, "", None)
    )


def test_a_pod_that_kubernetes_gave_a_group_stays_in_the_one_that_muster_named() -> None:
    """The Job controller of 1.36 sets it on a Job of Muster's."""
    spec = {
        "schedulerName": "muster-scheduler",
        "schedulingGroup": {"podGroupName": "f"},
        "containers": [container("1")],
    }
    said = {"labels": {LABEL_POD_GROUP: "g"}, "annotations": {ANNOTATION_MANAGED_GROUP: "g"}}
    document = {"metadata": {"name": "p", "namespace": "ns", "uid": "u", **said}, "spec": spec}

    info = decode.pod_info(decode_pod(msgspec.json.encode(document)))

    assert (info.group, info.membership.managed) == ("g", True)


def test_a_pod_of_another_scheduler_only_takes_room() -> None:
    info = pod(schedulerName="default-scheduler", nodeName="n", nodeSelector={"a": "b"})

    assert (info.ours, info.requirements.selector) == (False, ())
    assert info.requirements.requests == (("cpu", 1000),)


def test_gates_and_deletion_are_seen() -> None:
    assert pod(schedulingGates=[{"name": "x"}]).gated


BOUND = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}


@pytest.mark.parametrize(
    ("phase", "conditions", "want"),
    [
        ("Failed", [BOUND], "2026-01-01T00:00:09Z"),
        ("Failed", [BOUND | {"status": "False"}], "2026-01-01T00:00:01Z"),
        ("Failed", [], "2026-01-01T00:00:01Z"),
        ("Running", [BOUND], ""),
    ],
)
def test_when_a_failed_pod_was_bound(phase: str, conditions: list[Any], want: str) -> None:
    """A kubelet that rejects a pod leaves only the creation time."""
    meta: dict[str, Any] = {"name": "p", "uid": "u", "labels": {LABEL_POD_GROUP: "g"}}
    meta |= {"creationTimestamp": "2026-01-01T00:00:01Z"}
    document = {"metadata": meta, "status": {"phase": phase, "conditions": conditions}}

    info = decode.pod_info(decode_pod(msgspec.json.encode(document)))

    assert info.membership.bound_at == want


@pytest.mark.parametrize(
    ("labels", "annotations", "want"),
    [
        ({}, {}, ("", False)),
        ({LABEL_POD_GROUP: "g"}, {}, ('Job "t"', False)),
        ({LABEL_POD_GROUP: "g"}, {ANNOTATION_MANAGED_GROUP: "other"}, ('Job "t"', False)),
        ({LABEL_POD_GROUP: "g"}, {ANNOTATION_MANAGED_GROUP: "g"}, ('Job "t"', True)),
    ],
)
def test_who_makes_a_member_and_whether_admission_named_its_group(
    labels: dict[str, str], annotations: dict[str, str], want: tuple[str, bool]
) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "t", "uid": "j", "controller": True}
    meta = {"name": "p", "uid": "u", "labels": labels, "annotations": annotations}
    document = {"metadata": meta | {"ownerReferences": [owner]}}

    info = decode.pod_info(decode_pod(msgspec.json.encode(document)))

    assert (info.membership.maker, info.membership.managed) == want


def test_pods_without_a_group_share_one_membership() -> None:
    assert pod().membership is pod(nodeName="n").membership


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


RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
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
            {"minimum": None, "gang": False, "workload": "w", "template": "t"},
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


@pytest.mark.parametrize(
    ("labels", "made_for", "want"),
    [
        ({LABEL_MANAGED_BY: MANAGED_BY}, "batch/Job/t/u", ("Job", "t")),
        ({}, "batch/Job/t/u", None),
        ({LABEL_MANAGED_BY: MANAGED_BY}, "", None),
        pytest.param({LABEL_MANAGED_BY: MANAGED_BY}, f"batch/Job/{'t' * 254}/u", None, id="forged"),
    ],
)
def test_what_a_group_was_made_for(
    labels: dict[str, str], made_for: str, want: tuple[str, str] | None
) -> None:
    meta = META | {"labels": labels, "annotations": {ANNOTATION_MADE_FOR: made_for}}
    group = decode_group(msgspec.json.encode({"metadata": meta}))

    assert decode.group_spec("PodGroup", group).owner == want
    assert decode.group_spec(NATIVE_POD_GROUP.full_kind, group).owner == want


GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
CONDITION = {"type": "PodGroupInitiallyScheduled", "status": "True"}
NATIVE = NATIVE_POD_GROUP.full_kind


@pytest.mark.parametrize(
    ("off", "kind", "spec", "want"),
    [
        pytest.param(Feature.TOPOLOGY, "PodGroup", {}, "", id="not used"),
        pytest.param(Feature.TOPOLOGY, "PodGroup", RACK, Feature.TOPOLOGY, id="a topology"),
        pytest.param(Feature.COMPOSITE_POD_GROUP, "PodGroup", RACK, "", id="another is off"),
        pytest.param(
            Feature.COMPOSITE_POD_GROUP,
            "PodGroup",
            {"parentCompositePodGroupName": "top"},
            Feature.COMPOSITE_POD_GROUP,
            id="a leaf of a tree",
        ),
        pytest.param(
            Feature.COMPOSITE_POD_GROUP,
            "CompositePodGroup",
            {},
            Feature.COMPOSITE_POD_GROUP,
            id="a root",
        ),
        pytest.param(Feature.GANG, "PodGroup", GANG, Feature.GANG, id="a gang"),
        pytest.param(Feature.GANG, NATIVE, GANG, Feature.GANG, id="a native gang"),
        pytest.param(Feature.GANG, "CompositePodGroup", GANG, Feature.GANG, id="a tree's gang"),
        pytest.param(Feature.GANG, "PodGroup", {}, "", id="no gang"),
        pytest.param(Feature.POD_GROUP, "PodGroup", GANG, Feature.POD_GROUP, id="a PodGroup"),
        pytest.param(Feature.WORKLOAD, "PodGroup", {}, Feature.WORKLOAD, id="what it requires"),
        pytest.param(Feature.POD_GROUP, NATIVE, {}, "", id="no PodGroup of Muster's"),
    ],
)
def test_the_gate_that_is_off_of_what_a_group_uses(
    off: Feature, kind: str, spec: dict[str, Any], want: str
) -> None:
    group = decode_group(msgspec.json.encode({"metadata": META, "spec": spec}))

    assert decode.group_spec(kind, group, USUAL.without(off)).gate_off == want
    assert decode.group_spec(kind, group).gate_off == ""


@pytest.mark.parametrize(
    ("off", "spec", "want"),
    [
        (Feature.GANG, {}, ""),
        (Feature.POD_GROUP, {}, ""),
        (Feature.TOPOLOGY, RACK, Feature.TOPOLOGY),
        (Feature.POD_GROUP, RACK, Feature.POD_GROUP),
    ],
)
def test_a_gang_that_was_scheduled_may_replace_lost_pods(
    off: Feature, spec: dict[str, Any], want: str
) -> None:
    status = {"conditions": [CONDITION]}
    group = decode_group(
        msgspec.json.encode({"metadata": META, "spec": GANG | spec, "status": status})
    )

    assert decode.group_spec("PodGroup", group, USUAL.without(off)).gate_off == want


@pytest.mark.parametrize(
    ("off", "want"),
    [
        (Feature.JOB, "WorkloadWithJob"),
        (Feature.WORKLOAD, "GenericWorkload"),
        (Feature.JOBSET, ""),
        (None, ""),
    ],
)
def test_the_gate_that_is_off_of_what_made_a_group(off: Feature | None, want: str) -> None:
    made = {LABEL_MANAGED_BY: MANAGED_BY}
    meta = META | {"labels": made, "annotations": {ANNOTATION_MADE_FOR: "batch/Job/t/u"}}
    group = decode_group(msgspec.json.encode({"metadata": meta}))
    gates = USUAL.without(off) if off else USUAL

    assert decode.group_spec("PodGroup", group, gates).maker_off == want


@pytest.mark.parametrize(
    ("status", "want"),
    [
        (None, False),
        ({"conditions": [CONDITION]}, True),
        ({"conditions": [CONDITION | {"type": "CompositePodGroupInitiallyScheduled"}]}, True),
        ({"conditions": [CONDITION | {"status": "False"}]}, False),
        ({"conditions": [CONDITION | {"type": "DisruptionTarget"}]}, False),
        ({"conditions": "by hand"}, False),
        ({"conditions": ["by hand", {}]}, False),
    ],
)
def test_whether_a_status_says_that_it_was_scheduled(status: Any, *, want: bool) -> None:
    group = decode_group(msgspec.json.encode({"metadata": META, "status": status}))

    assert decode.initially_scheduled(group) is want


# What only kube-scheduler's default scores read.


def owned(api_version: str, kind: str, *, controller: bool = True) -> PodInfo:
    owner = {"apiVersion": api_version, "kind": kind, "name": "o", "uid": "owner-uid"}
    meta = {"name": "p", "uid": "u", "ownerReferences": [owner | {"controller": controller}]}
    return decode.pod_info(decode_pod(msgspec.json.encode({"metadata": meta})))


@pytest.mark.parametrize(
    ("api_version", "kind", "want"),
    [
        pytest.param("apps/v1", "ReplicaSet", "owner-uid", id="ReplicaSet"),
        pytest.param("apps/v1", "StatefulSet", "owner-uid", id="StatefulSet"),
        pytest.param("v1", "ReplicationController", "owner-uid", id="ReplicationController"),
        pytest.param("apps/v1", "DaemonSet", "", id="pods of a DaemonSet are no replicas"),
        pytest.param("batch/v1", "Job", "", id="nor those of a Job"),
        pytest.param("example.com/v1", "ReplicaSet", "", id="nor of another API's kind"),
    ],
)
def test_controllers_whose_replicas_spread(api_version: str, kind: str, want: str) -> None:
    assert owned(api_version, kind).controller == want
    assert owned(api_version, kind, controller=False).controller == ""


@pytest.mark.parametrize(
    ("image", "want"),
    [
        pytest.param("web", "web:latest", id="no tag"),
        pytest.param("web:1", "web:1", id="a tag"),
        pytest.param("host:5000/web", "host:5000/web:latest", id="a port is no tag"),
        pytest.param("host:5000/web:1", "host:5000/web:1", id="a port and a tag"),
        pytest.param("web@sha256:12", "web@sha256:12", id="a digest"),
    ],
)
def test_images_have_tags(image: str, want: str) -> None:
    assert pod(containers=[container("1", image=image)]).images == (want,)


def test_all_images_of_a_waiting_pod_are_read() -> None:
    spec: dict[str, Any] = {
        "initContainers": [container("1", image="init:1")],
        "containers": [container("1", image="web:1"), container("1", image="web:1")],
        "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "image": {"reference": "data"}}],
    }

    assert pod(**spec).images == ("init:1", "web:1", "web:1", "data:latest")
    assert pod(**spec, nodeName="n").images == ()
    assert pod(**spec, schedulerName="other").images == ()


def test_a_pod_with_thousands_of_images_counts_some() -> None:
    many = [container(image=f"i{number}:1") for number in range(5_000)]

    assert len(pod(containers=many).images) == MOST_IMAGES
    assert pod(containers=[container(image="x" * 5_000)]).images == ()


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [container()]}, (100, 200 << 20), id="nothing requested"),
        pytest.param({"containers": [container("1")]}, (0, 200 << 20), id="no memory"),
        pytest.param({"containers": [container("0")]}, (0, 200 << 20), id="an explicit 0"),
        pytest.param(
            {"containers": [container(), container()]}, (200, 400 << 20), id="each container"
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container()]},
            (0, 200 << 20),
            id="an init container that the others exceed",
        ),
        pytest.param(
            {"containers": [container()], "resources": {"requests": {"cpu": "2"}}},
            (0, 200 << 20),
            id="the pod requests cpu itself",
        ),
    ],
)
def test_requests_that_least_allocated_assumes(spec: dict[str, Any], want: tuple[int, int]) -> None:
    assert pod(**spec).requirements.assumed == want


def test_images_of_a_node() -> None:
    images = [{"names": ["web@sha256:1", "web:1"], "sizeBytes": 7}, {"names": ["db:1"]}]
    node = {"metadata": {"name": "n"}, "status": {"images": images}}

    found = list(decode.node_images(decode_node(msgspec.json.encode(node))))

    assert found == [("web@sha256:1", 7), ("web:1", 7), ("db:1", 0)]
