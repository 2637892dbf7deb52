"""Hostile but admissible pods: any field a scheduler reads, at its extremes.

Every part is a function that changes a pod. Large values come from a formula and not from draws, so
that an example is cheap to draw, to shrink and to read.
"""

from collections.abc import Callable, Sequence
from typing import Final

from hypothesis import strategies as st

from api.constants import (
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
    LABEL_REPLICA_KEY,
    LABEL_SUBSET,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    SCHEDULER_NAME,
)
from e2e.harness.objects import Json

NAMES: Final = ("a", "b", "c", "pg-a", "pg-job-a", "a-b", "x" * 63, "a.b")
"""Few names, so that collisions are likely."""

ODD_TEXTS: Final = (
    "",
    "x",
    "-1",
    "1e9999",
    "NaN",
    "inf",
    "∞ größer 🧨 \u202e\u0000"[:-1],
    "٣",
    "9" * 400,
    "1h" * 200,
    "10000000000h",
    "999999h",
    "90s",
    "0s",
    "-5s",
    "[" * 2000,
    '{"a":' * 500,
    "zlib:x",
    "batch/Job/a/u",
)

QUANTITIES: Final = (
    "0",
    "1",
    "1m",
    "1n",
    "1u",
    "0.000000001",
    "1e3",
    "1E18",
    "9223372036854775807",
    "9e18",
    "8Ei",
    "7999999999999999999m",
    "1e18",
    "4611686018427387904",
    "100",
    "1.5",
    "3e-9",
)
WHOLE: Final = ("1", "4611686018427387904", "9223372036854775807", "9e18", "1e3", "8Ei")
NATIVE: Final = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi")
NODES: Final = ("hostile-0", "hostile-1", "no-such-node", "kein.knoten")
TOPOLOGY_KEYS: Final = (
    "kubernetes.io/hostname",
    "hostile.example/zone",
    "hostile.example/none",
    "hostile.example/many",
)
CLASSES: Final = ("hostile-high", "hostile-low", "hostile-never")
MANY: Final = (0, 1, 2, 9, 40, 300)
"""Sizes of repeated parts."""

Draw = st.DrawFn
Part = Callable[[Draw, Json], None]


def many(draw: Draw, sizes: Sequence[int] = MANY) -> int:
    return draw(st.sampled_from(sizes))


def one(draw: Draw, values: Sequence[str]) -> str:
    return draw(st.sampled_from(values))


def requests(draw: Draw, pod: Json) -> None:
    for container in pod["spec"]["containers"]:
        names = draw(st.lists(st.sampled_from(NATIVE[:3]), max_size=3, unique=True))
        container["resources"] = {"requests": {name: one(draw, QUANTITIES) for name in names}}


def extended(draw: Draw, pod: Json) -> None:
    """Add resources that no node offers, or one that a node does."""
    names = {f"hostile.example/r{at}": one(draw, WHOLE[:2]) for at in range(many(draw))}
    if draw(st.booleans()):
        names["hostile.example/offered"] = one(draw, WHOLE)
    container = pod["spec"]["containers"][0]
    resources = container.setdefault("resources", {})
    for field in ("requests", "limits"):
        resources[field] = {**resources.get(field, {}), **names}


def containers(draw: Draw, pod: Json) -> None:
    first = pod["spec"]["containers"][0]
    pod["spec"]["containers"] = [
        {**first, "name": f"c{at}"} for at in range(max(1, many(draw, (2, 9, 60))))
    ]


def init_containers(draw: Draw, pod: Json) -> None:
    first = pod["spec"]["containers"][0]
    count = many(draw, (1, 2, 30))
    made = [{**first, "name": f"i{at}"} for at in range(count)]
    for at in range(0, count, draw(st.sampled_from((1, 2, 100)))):
        made[at]["restartPolicy"] = "Always"
    pod["spec"]["initContainers"] = made


def pod_level(draw: Draw, pod: Json) -> None:
    amounts = {"cpu": one(draw, QUANTITIES), "memory": one(draw, QUANTITIES)}
    pod["spec"]["resources"] = {"requests": amounts}


def ports(draw: Draw, pod: Json) -> None:
    protocol = one(draw, ("TCP", "UDP", "SCTP"))
    address = one(draw, ("", "0.0.0.0", "127.0.0.1", "::", "10.0.0.1"))
    start = draw(st.sampled_from((1, 80, 30000)))
    made = [
        {"containerPort": start + at, "hostPort": start + at, "protocol": protocol}
        | ({"hostIP": address} if address else {})
        for at in range(many(draw, (1, 3, 500)))
    ]
    pod["spec"]["containers"][0]["ports"] = made


def node_selector(draw: Draw, pod: Json) -> None:
    value = one(draw, ("", "x", "ssd"))
    pod["spec"]["nodeSelector"] = {f"hostile.example/k{at}": value for at in range(many(draw))}


def _expression(draw: Draw, at: int) -> Json:
    operator = one(draw, ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    key = one(draw, ("kubernetes.io/hostname", f"hostile.example/k{at}", "hostile.example/number"))
    made: Json = {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        numbers = (
            "0",
            "-9",
            "9223372036854775807",
            "99999999999999999999999",
            "x",
            "1_0",
            " 7",
            "٣",
        )
        made["values"] = [one(draw, numbers)]
    elif operator in ("In", "NotIn"):
        made["values"] = [f"v{n}" for n in range(many(draw, (1, 2, 500)))]
    return made


def node_affinity(draw: Draw, pod: Json) -> None:
    terms: list[Json] = [
        {"matchExpressions": [_expression(draw, at) for at in range(many(draw, (1, 2, 5)))]}
        for _ in range(many(draw, (1, 2, 4)))
    ]
    if draw(st.booleans()):
        operator, name = one(draw, ("In", "NotIn")), one(draw, NODES)
        terms[0]["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
    terms *= many(draw, (1, 1, 50))
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    if draw(st.booleans()):
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    else:
        weight = draw(st.sampled_from((1, 50, 100)))
        soft = [{"weight": weight, "preference": term} for term in terms]
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = soft


def _selector(draw: Draw, at: int) -> Json:
    return draw(
        st.sampled_from(
            (
                {},
                {"matchLabels": {f"hostile.example/l{at}": "x"}},
                {"matchLabels": {f"hostile.example/l{n}": "x" for n in range(60)}},
                {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]},
                {
                    "matchExpressions": [
                        {"key": "app", "operator": "In", "values": [f"v{n}" for n in range(300)]}
                    ]
                },
            )
        )
    )


def _pod_term(draw: Draw, at: int) -> Json:
    term: Json = {
        "topologyKey": one(draw, TOPOLOGY_KEYS),
        "labelSelector": _selector(draw, at),
    }
    where = draw(st.integers(0, 4))
    if where == 4:  # as admission writes it, for its own group if the names match
        term["labelSelector"] = {"matchLabels": {LABEL_POD_GROUP: one(draw, NAMES)}}
        term["matchLabelKeys"] = ["batch.kubernetes.io/controller-uid"]
    elif where == 1:
        term["namespaceSelector"] = draw(
            st.sampled_from(({}, {"matchLabels": {"team": "x"}}, {"matchLabels": {"a": "b"}}))
        )
    elif where == 2:
        term["namespaces"] = ["calm", "no-such", *(f"n{n}" for n in range(many(draw, (0, 200))))]
    elif where == 3:
        term[one(draw, ("matchLabelKeys", "mismatchLabelKeys"))] = ["app", "none"]
    return term


def pod_affinity(draw: Draw, pod: Json) -> None:
    kind = one(draw, ("podAffinity", "podAntiAffinity"))
    terms = [_pod_term(draw, at) for at in range(many(draw, (1, 2, 6)))]
    for at in range(many(draw, (0, 0, 80))):
        terms.append(
            {"topologyKey": TOPOLOGY_KEYS[0], "labelSelector": {"matchLabels": {f"t{at}": ""}}}
        )
    held = pod["spec"].setdefault("affinity", {}).setdefault(kind, {})
    if draw(st.booleans()):
        held["requiredDuringSchedulingIgnoredDuringExecution"] = terms
    else:
        weight = draw(st.sampled_from((1, 100)))
        soft = [{"weight": weight, "podAffinityTerm": term} for term in terms]
        held["preferredDuringSchedulingIgnoredDuringExecution"] = soft


def spread(draw: Draw, pod: Json) -> None:
    made = []
    for at, key in enumerate(
        draw(st.lists(st.sampled_from(TOPOLOGY_KEYS), unique=True, min_size=1))
    ):
        hard = draw(st.booleans())
        constraint: Json = {
            "topologyKey": key,
            "maxSkew": draw(st.sampled_from((1, 2, 2**31 - 1))),
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": _selector(draw, at),
        }
        if hard and draw(st.booleans()):
            constraint["minDomains"] = draw(st.sampled_from((1, 2**31 - 1)))
        if draw(st.booleans()):
            constraint["nodeTaintsPolicy"] = one(draw, ("Honor", "Ignore"))
        made.append(constraint)
    pod["spec"]["topologySpreadConstraints"] = made


def tolerations(draw: Draw, pod: Json) -> None:
    """Add tolerations, but never of the other tenant's taint."""
    made: list[Json] = [
        {"key": "hostile", "operator": "Exists"},
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2**62},
        {"key": "k", "operator": "Equal", "value": "v", "effect": "PreferNoSchedule"},
        *({"key": f"hostile.example/t{at}", "operator": "Exists"} for at in range(many(draw))),
    ]
    pod["spec"]["tolerations"] = made


def volumes(draw: Draw, pod: Json) -> None:
    kinds: list[Json] = [
        {"persistentVolumeClaim": {"claimName": one(draw, NAMES)}},
        {"emptyDir": {"sizeLimit": "8Ei"}},
        {"hostPath": {"path": "/"}},
        {"gcePersistentDisk": {"pdName": "x"}},
        {"gcePersistentDisk": {"pdName": "x", "readOnly": True}},
        {"awsElasticBlockStore": {"volumeID": "aws://%zz/vol-x"}},
        {"iscsi": {"iqn": "iqn.2026-01.example:x", "targetPortal": "p", "lun": 0}},
        {"rbd": {"image": "x", "monitors": ["a", "b", "a"]}},
        {"csi": {"driver": "hostile.example"}},
        {
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": one(draw, WHOLE)}},
                    }
                }
            }
        },
    ]
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    chosen *= many(draw, (1, 1, 60))
    pod["spec"]["volumes"] = [{"name": f"v{at}", **kind} for at, kind in enumerate(chosen)]


def claims(draw: Draw, pod: Json) -> None:
    pod["spec"]["resourceClaims"] = [
        {"name": f"c{at}", "resourceClaimName": one(draw, NAMES)}
        for at in range(many(draw, (1, 3)))
    ]


def gates(draw: Draw, pod: Json) -> None:
    pod["spec"]["schedulingGates"] = [
        {"name": f"hostile.example/g{at}"} for at in range(many(draw, (1, 2, 50)))
    ]


def group(draw: Draw, pod: Json) -> None:
    """Add one or more of the ways to name a group."""
    forms: list[Json] = [
        {LABEL_POD_GROUP: one(draw, NAMES)},
        {LABEL_COSCHEDULING: one(draw, NAMES), LABEL_SUBSET: one(draw, NAMES)},
        {LABEL_COSCHEDULING: one(draw, NAMES)},
        {LABEL_WORKLOAD: one(draw, NAMES), LABEL_TEMPLATE: "t"},
        {LABEL_WORKLOAD: one(draw, NAMES), LABEL_TEMPLATE: "t", LABEL_REPLICA_KEY: "1"},
        {"batch.kubernetes.io/job-name": one(draw, NAMES)},
        {"jobset.sigs.k8s.io/jobset-name": one(draw, NAMES)},
    ]
    for form in draw(st.lists(st.sampled_from(forms), min_size=1, max_size=2)):
        pod["metadata"].setdefault("labels", {}).update(form)


def labels(draw: Draw, pod: Json) -> None:
    made = {f"hostile.example/l{at}": "x" for at in range(many(draw))}
    pod["metadata"].setdefault("labels", {}).update(made, app=one(draw, ("a", "b", "v7", "")))


def marks(draw: Draw, pod: Json) -> None:
    """Add annotations that Muster, a node or another controller would write."""
    keys = draw(st.lists(st.sampled_from(ANNOTATIONS), min_size=1, max_size=4))
    made = {key: one(draw, ODD_TEXTS) for key in keys}
    pod["metadata"].setdefault("annotations", {}).update(made)


def owners(draw: Draw, pod: Json) -> None:
    """Add owner references that no controller checks: missing, foreign or of an odd kind."""
    kinds = (
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
        ("v1", "Node"),
        ("scheduling.muster.dev/v1alpha3", "PodGroup"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    )
    count = many(draw, (1, 1, 2, 40))
    version, kind = draw(st.sampled_from(kinds))
    pod["metadata"]["ownerReferences"] = [
        {
            "apiVersion": version,
            "kind": kind,
            "name": one(draw, NAMES),
            "uid": f"forged-{at}",
            "controller": at == 0,
        }
        for at in range(count)
    ]


def stays(draw: Draw, pod: Json) -> None:
    """Delay the pod's deletion."""
    if draw(st.booleans()):
        pod["metadata"]["finalizers"] = [
            f"hostile.example/f{at}" for at in range(many(draw, (1, 20)))
        ]
    pod["spec"]["terminationGracePeriodSeconds"] = draw(
        st.sampled_from((0, 1, 10**6, 2**31, 10**11))
    )


def elsewhere(draw: Draw, pod: Json) -> None:
    """Bind the pod at creation, or assign it to another scheduler."""
    pod["spec"]["schedulerName"] = one(draw, (SCHEDULER_NAME, "default-scheduler", "other", ""))
    if draw(st.booleans()) and "schedulingGates" not in pod["spec"]:
        pod["spec"]["nodeName"] = one(draw, NODES)


def priority(draw: Draw, pod: Json) -> None:
    pod["spec"]["priorityClassName"] = one(draw, CLASSES)


ANNOTATIONS: Final = (
    "scheduling.muster.dev/preemption-delay",
    "scheduling.muster.dev/min-run-time",
    "scheduling.muster.dev/eviction-cost",
    "scheduling.muster.dev/movable",
    "scheduling.muster.dev/last-checkpoint",
    "scheduling.muster.dev/provisioning-request",
    "scheduling.muster.dev/capacity-requested",
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "scheduling.muster.dev/schedule-timeout",
    "scheduling.muster.dev/start-timeout",
    "scheduling.muster.dev/made-for",
    "scheduling.muster.dev/managed-group",
    "scheduling.muster.dev/group-scope",
    "scheduling.muster.dev/conversion-data",
    "scheduling.muster.dev/waiting-for",
    "scheduling.muster.dev/gang-mode",
    "scheduling.muster.dev/min-count",
    "scheduling.muster.dev/topology",
    "scheduling.k8s.io/group-template-name",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
)

PARTS: Final[tuple[Part, ...]] = (
    requests,
    extended,
    containers,
    init_containers,
    pod_level,
    ports,
    node_selector,
    node_affinity,
    pod_affinity,
    spread,
    tolerations,
    volumes,
    claims,
    gates,
    group,
    group,
    labels,
    marks,
    owners,
    stays,
    elsewhere,
    priority,
)
"""The parts of a pod; a group is more likely than the others."""


@st.composite
def pod_bodies(draw: Draw, *, parts: int = 5) -> Json:
    """Draw a pod without kind and name: a plain pod of Muster's scheduler with odd parts.

    It has at most `parts` of them.
    """
    container = {"name": "c", "image": "registry.example/none:1"}
    spec: Json = {"schedulerName": SCHEDULER_NAME, "restartPolicy": "Never"}
    spec["containers"] = [container]
    if draw(st.integers(1, 4)) > 1:
        spec["tolerations"] = [{"key": "hostile", "operator": "Exists"}]
    pod: Json = {"metadata": {}, "spec": spec}
    for at in draw(st.lists(st.integers(0, len(PARTS) - 1), max_size=parts, unique=True)):
        PARTS[at](draw, pod)
    return pod
