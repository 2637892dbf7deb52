"""Attacks of a tenant with `edit` in one namespace: each is a list of steps, by name."""

from collections.abc import Callable, Sequence
from typing import Final

from api.constants import ANNOTATION_MADE_FOR, LABEL_POD_GROUP, SCHEDULER_NAME
from e2e.faults.hostile.grammar import chain, fan
from e2e.faults.hostile.steps import COSCHEDULINGS, GROUPS, WORKLOADS, Step, create
from e2e.harness.objects import Json
from kube.client.resources import JOBSETS, PODS

Attack = Callable[..., Sequence[Step]]
"""A function from a size to steps; the size scales the hostile part."""


def pod_step(
    name: str, *, of: Json | None = None, container: Json | None = None, **meta: object
) -> Step:
    """Return a pod of Muster's scheduler; `of` extends its spec, `meta` is its metadata."""
    made = {"name": "main", "image": "registry.example/none:1", **(container or {})}
    spec = {"schedulerName": SCHEDULER_NAME, "restartPolicy": "Never", "containers": [made]}
    return create(PODS, name, {"metadata": meta, "spec": {**spec, **(of or {})}})


def _asking(amounts: Json) -> Json:
    return {"resources": {"requests": amounts, "limits": amounts}}


def sums_beyond_int64(size: int = 10) -> Sequence[Step]:
    """Return pods of both schedulers, bound and unbound, whose requests overflow 63 bits."""
    huge = {"memory": "9e18", "ephemeral-storage": "9e18", "cpu": "9e15"}
    first = {"name": "one", "image": "registry.example/none:1", **_asking(huge)}
    both = {"containers": [first, {**first, "name": "two"}]}
    return [
        pod_step("ours", of=both),
        pod_step("theirs", of=both | {"schedulerName": "other"}),
        *(pod_step(f"set-{at}", of=both | {"nodeName": "hostile-0"}) for at in range(size // 2)),
        *(
            pod_step(f"alone-{at}", of={"nodeName": "hostile-1"}, container=_asking(huge))
            for at in range(5)
        ),
    ]


def deep_chain(size: int = 1100) -> Sequence[Step]:
    """Return a deep chain of composites, and a PodGroup with a pod at the end."""
    steps = chain(size)
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 1}},
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "parentCompositePodGroupName": steps[-1].name,
    }
    return [*steps, create(GROUPS, "leaf", {"spec": spec}), _grouped("member", "leaf")]


def ring(size: int = 300) -> Sequence[Step]:
    """Return composites in a circle, and more below it."""
    return [*chain(size, closed=True), *fan(size)]


def _grouped(name: str, group: str, **spec: object) -> Step:
    return pod_step(name, of=spec, labels={LABEL_POD_GROUP: group})


def resource_names(size: int = 600) -> Sequence[Step]:
    """Return pods with hundreds of extended resources that no node has."""
    return [
        pod_step(
            f"names-{at}",
            container=_asking({f"hostile.example/r{at}-{n}": "1" for n in range(size)}),
        )
        for at in range(8)
    ]


def selector_keys(size: int = 3000) -> Sequence[Step]:
    """Return pods with thousands of node-selector keys."""
    return [
        pod_step(
            f"keys-{at}",
            of={"nodeSelector": {f"hostile.example/k{at}-{n}": "v" for n in range(size)}},
        )
        for at in range(3)
    ]


def affinity_keys(size: int = 2000) -> Sequence[Step]:
    """Return pods with node affinity, required and preferred, in many terms."""
    terms = [
        {"matchExpressions": [{"key": f"hostile.example/a{n}", "operator": "Exists"}]}
        for n in range(size)
    ]
    soft = [{"weight": 1, "preference": term} for term in terms]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        "preferredDuringSchedulingIgnoredDuringExecution": soft,
    }
    return [pod_step(f"terms-{at}", of={"affinity": {"nodeAffinity": affinity}}) for at in range(2)]


def host_ports(size: int = 4000) -> Sequence[Step]:
    """Return pods with thousands of host ports, pending and bound."""
    return [
        pod_step(
            f"ports-{at}",
            of={"nodeName": "hostile-1"} if at == 2 else {},
            container={
                "ports": [
                    {"containerPort": 1000 + at * 5000 + n, "hostPort": 1000 + at * 5000 + n}
                    for n in range(size)
                ]
            },
        )
        for at in range(3)
    ]


def disks(size: int = 2000) -> Sequence[Step]:
    """Return pods, pending and bound, with thousands of disks or a disk with many monitors."""
    monitors = [f"10.0.{n // 250}.{n % 250}:6789" for n in range(size)]
    volumes = [{"name": f"d{n}", "gcePersistentDisk": {"pdName": f"d{n}"}} for n in range(size)]
    image = {"name": "image", "rbd": {"image": "x", "monitors": monitors, "readOnly": True}}
    return [
        pod_step(
            f"disks-{kind}-{at}",
            of={"volumes": those} | ({"nodeName": "hostile-1"} if at == 2 else {}),
        )
        for kind, those in (("many", volumes), ("monitors", [image]))
        for at in range(3)
    ]


def own_shapes(size: int = 400) -> Sequence[Step]:
    """Return hundreds of different pods, each with its own selector and terms."""
    steps = []
    for at in range(size):
        selector = {"matchLabels": {f"hostile.example/only-{at}": "x"}}
        term = {
            "topologyKey": f"hostile.example/t{at}",
            "labelSelector": selector,
            "namespaceSelector": {},
        }
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        of = {"affinity": {"podAntiAffinity": required}, "nodeSelector": {f"k{at}": "v"}}
        if at % 2:
            of = {"affinity": {"podAntiAffinity": required}, "nodeName": "hostile-0"}
        steps.append(pod_step(f"odd-{at}", of=of, container=_asking({"cpu": f"{at + 1}m"})))
    return steps


def long_lists(size: int = 1000) -> Sequence[Step]:
    """Return pods with thousands of entries in every list."""
    tolerations = [{"key": f"hostile.example/t{n}", "operator": "Exists"} for n in range(3 * size)]
    values = [f"v{n}" for n in range(5 * size)]
    term = {"matchExpressions": [{"key": "a", "operator": "In", "values": values}]}
    node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spread = [
        {
            "topologyKey": f"hostile.example/t{n}",
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {},
        }
        for n in range(size)
    ]
    terms = [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {f"l{n}": ""}}}
        for n in range(size)
    ]
    peers = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    gates = [{"name": f"hostile.example/g{n}"} for n in range(size)]
    return [
        pod_step("tolerant", of={"tolerations": tolerations, "affinity": {"nodeAffinity": node}}),
        pod_step("spread", of={"topologySpreadConstraints": spread}),
        pod_step("peers", of={"affinity": {"podAffinity": peers}}),
        pod_step("apart", of={"affinity": {"podAntiAffinity": peers}, "nodeName": "hostile-1"}),
        pod_step("gated", of={"schedulingGates": gates}),
        pod_step("labelled", labels={f"hostile.example/l{n}": "x" for n in range(size)}),
    ]


def flood_of_groups(size: int = 150) -> Sequence[Step]:
    """Return hundreds of gangs that can never run, each retried whenever something changes."""
    steps: list[Step] = []
    for at in range(size):
        policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        steps.append(create(GROUPS, f"flood-{at}", {"spec": policy}))
        amounts = _asking({"cpu": f"{1000 + at}"})
        steps += [
            pod_step(f"flood-{at}-{n}", container=amounts, labels={LABEL_POD_GROUP: f"flood-{at}"})
            for n in range(2)
        ]
    return steps


def odd_numbers(size: int = 60) -> Sequence[Step]:
    """Return selectors that compare with a non-number, or with a number of hundreds of digits."""
    steps = []
    for at, value in enumerate(("9" * size, "-9223372036854775809", "x", "1_0", "٣", " 7")):
        for operator in ("Gt", "Lt"):
            term = {
                "matchExpressions": [
                    {"key": "hostile.example/number", "operator": operator, "values": [value]}
                ]
            }
            node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            name = f"number-{at}-{operator.lower()}"
            steps.append(pod_step(name, of={"affinity": {"nodeAffinity": node}}))
    return steps


def forged_marks(size: int = 20_000) -> Sequence[Step]:
    """Return forged annotations, owners and finalizers of Muster and the cluster.

    Their content is odd.
    """
    odd = ("1e9999", "NaN", "inf", "9" * (size // 5), "-1s", "∞", "[" * size, '{"a":' * (size // 4))
    steps: list[Step] = []
    prefix = "scheduling.muster.dev"
    for at, text in enumerate(odd):
        keys = (
            "preemption-delay",
            "min-run-time",
            "eviction-cost",
            "movable",
            "defragment-until",
            "last-checkpoint",
            "schedule-timeout",
            "start-timeout",
            "made-for",
            "managed-group",
            "waiting-for",
        )
        asked = (
            "provisioning-request",
            "jobset-options",
            "capacity-requested",
            "shared-claims",
            "claim-templates",
        )
        noted = (*keys, *asked, "conversion-data", "group-scope")
        marks = {f"{prefix}/{key}": text for key in noted}
        policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
        meta = {"annotations": marks, "finalizers": ["hostile.example/mine"]}
        steps.append(create(GROUPS, f"mark-{at}", {"metadata": meta, "spec": policy}))
        steps.append(
            pod_step(f"mark-{at}", annotations=marks, labels={LABEL_POD_GROUP: f"mark-{at}"})
        )
        template = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 1}}}
        spec = {"podGroupTemplates": [template]}
        steps.append(create(WORKLOADS, f"mark-{at}", {"metadata": meta, "spec": spec}))
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "none", "uid": "none"}
    owners = [{**owner, "controller": True}]
    steps.append(pod_step("mirror", ownerReferences=owners, of={"nodeName": "hostile-0"}))
    made_for = {ANNOTATION_MADE_FOR: "batch/Job/none/none"}
    steps.append(create(GROUPS, "made", {"metadata": {"annotations": made_for}, "spec": policy}))
    return steps


def many_subsets(size: int = 8) -> Sequence[Step]:
    """Return JobSets and coscheduling groups whose parts are empty, huge or have the same name."""
    subsets = [{"name": f"s{at}", "minMember": 2**31 - 1} for at in range(size)]
    container = {"name": "c", "image": "registry.example/none:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"template": template, "parallelism": 2, "completions": 2}
    gang = {"scheduling.muster.dev/gang-mode": "Composite"}
    replicated = [
        {"name": "none", "replicas": 0, "template": {"spec": job}},
        {"name": "some", "replicas": 3, "template": {"spec": job}},
    ]
    return [
        create(COSCHEDULINGS, "huge", {"spec": {"subsets": subsets}}),
        create(COSCHEDULINGS, "one", {"spec": {"subsets": [{"name": "only", "minMember": 1}]}}),
        create(
            JOBSETS,
            "set",
            {"metadata": {"annotations": gang}, "spec": {"replicatedJobs": replicated}},
        ),
    ]


def years_of_grace(size: int = 20) -> Sequence[Step]:
    """Return pods on a node, deleted with a grace period of years, some with finalizers."""
    steps = [
        pod_step(
            f"years-{at}",
            of={"nodeName": "hostile-0", "terminationGracePeriodSeconds": 10**9},
            finalizers=["hostile.example/stay"] if at % 2 else [],
        )
        for at in range(size)
    ]
    return [*steps, *(Step("delete", PODS, step.name) for step in steps)]


def churn(size: int = 10) -> Sequence[Step]:
    """Return pods whose labels, and groups whose sizes, change repeatedly."""
    policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    steps = [create(GROUPS, name, {"spec": policy}) for name in ("left", "right")]
    steps += [_grouped(f"churn-{at}", "left") for at in range(size)]
    for turn in range(20):
        label = {LABEL_POD_GROUP: ("left", "right")[turn % 2]}
        steps += [
            Step("patch", PODS, f"churn-{at}", {"metadata": {"labels": label}})
            for at in range(size)
        ]
        lower = {"spec": {"schedulingPolicy": {"gang": {"minCount": 1 + turn % 9}}}}
        steps.append(Step("patch", GROUPS, "left", lower))
    return steps


def groups_from_pods(size: int = 200) -> Sequence[Step]:
    """Return pods that request groups: each its own, or all the same with different minimums.

    Their owners are forged: of nonexistent kinds, with names that are paths, or of one another.
    """
    key = "scheduling.muster.dev"
    forged = (
        {"apiVersion": "v1", "kind": "Secret", "name": "token"},
        {"apiVersion": "v1", "kind": "Pod", "name": "asks-2"},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "../../../../api"},
        {"apiVersion": "none.example/v1", "kind": "None", "name": "x"},
        {"apiVersion": "../../v1", "kind": "None", "name": "x"},
        {"apiVersion": f"{key}/v1alpha3", "kind": "PodGroup", "name": "asks-0"},
    )
    steps = []
    for at in range(size):
        owner = {**forged[at % len(forged)], "uid": f"forged-{at}", "controller": True}
        notes = {f"{key}/min-count": "2", f"{key}/group-by": "part"}
        labels = {LABEL_POD_GROUP: "many", "part": str(at)}
        steps.append(
            pod_step(f"asks-{at}", annotations=notes, labels=labels, ownerReferences=[owner])
        )
        notes = {f"{key}/min-count": str(at + 1), f"{key}/topology": f"hostile.example/t{at}"}
        steps.append(pod_step(f"differs-{at}", annotations=notes, labels={LABEL_POD_GROUP: "one"}))
    return steps


ATTACKS: Final[tuple[Attack, ...]] = (
    sums_beyond_int64,
    deep_chain,
    ring,
    resource_names,
    selector_keys,
    affinity_keys,
    host_ports,
    disks,
    own_shapes,
    long_lists,
    flood_of_groups,
    odd_numbers,
    forged_marks,
    groups_from_pods,
    many_subsets,
    years_of_grace,
    churn,
)
