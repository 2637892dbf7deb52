"""Hostile but admissible objects of an `edit` account, and subsequent changes of them.

`campaigns` draws a list of steps: a few objects of any kind, or a structure of many (a chain, a
ring, a fan of groups, hundreds of pods), then updates and deletions of those.
"""

from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

from e2e.faults.hostile.grammar_pods import (
    ANNOTATIONS,
    CLASSES,
    NAMES,
    ODD_TEXTS,
    TOPOLOGY_KEYS,
    WHOLE,
    Draw,
    one,
    owners,
    pod_bodies,
    stays,
)
from e2e.faults.hostile.steps import COMPOSITES, COSCHEDULINGS, GROUPS, WORKLOADS, Step, create
from e2e.harness.objects import Json
from kube.client.resources import JOBS, JOBSETS, PDBS, PODS, PVCS

COUNTS: Final = (1, 1, 2, 4, 1000, 2**31 - 1)
"""Values of minCount, minGroupCount, minMember; most are reachable."""


def _maybe(draw: Draw, holder: Json, field: str, values: Sequence[Any], share: int = 3) -> None:
    """Set a field in one of `share` cases."""
    if draw(st.integers(1, share)) == 1:
        holder[field] = draw(st.sampled_from(values))


def _metadata(draw: Draw) -> Json:
    """Draw metadata with occasional forged annotations, owners and finalizers."""
    obj: Json = {"metadata": {}, "spec": {}}
    if draw(st.integers(1, 4)) == 1:
        keys = draw(st.lists(st.sampled_from(ANNOTATIONS), min_size=1, max_size=3))
        obj["metadata"]["annotations"] = {key: one(draw, ODD_TEXTS) for key in keys}
    if draw(st.integers(1, 6)) == 1:
        owners(draw, obj)
    if draw(st.integers(1, 6)) == 1:
        stays(draw, obj)
    metadata: Json = obj["metadata"]
    return metadata


def _placing(draw: Draw, spec: Json) -> None:
    """Draw the fields that groups and templates share, except the policy."""
    topology: list[Json] = [{"key": key} for key in (*TOPOLOGY_KEYS, "a/b", "x")]
    topology.append({"key": TOPOLOGY_KEYS[1], "preferred": True})
    constraints = [{"topology": [entry]} for entry in topology]
    _maybe(draw, spec, "schedulingConstraints", constraints)
    _maybe(draw, spec, "disruptionMode", ({"all": {}}, {"single": {}}))
    _maybe(draw, spec, "priorityClassName", CLASSES)
    _maybe(draw, spec, "preemptionPolicy", ("Never", "PreemptLowerPriority"), share=5)


def _policy(draw: Draw, count: str) -> Json:
    number = draw(st.sampled_from(COUNTS))
    policies: tuple[Json, ...] = ({"basic": {}}, {"gang": {count: number}}, {"gang": {count: 1}})
    return draw(st.sampled_from(policies))


@st.composite
def group_bodies(draw: Draw, *, composite: bool) -> Json:
    """Draw a PodGroup or CompositePodGroup, possibly below another of the same few names."""
    spec: Json = {"schedulingPolicy": _policy(draw, "minGroupCount" if composite else "minCount")}
    _placing(draw, spec)
    _maybe(draw, spec, "parentCompositePodGroupName", NAMES, share=2)
    if composite or "parentCompositePodGroupName" in spec or draw(st.booleans()):
        reference = {"workloadName": one(draw, NAMES), "templateName": one(draw, ("t", "u"))}
        spec["workloadRef"] = reference
        if not composite and "parentCompositePodGroupName" not in spec and draw(st.booleans()):
            del spec["schedulingPolicy"]
    return {"metadata": _metadata(draw), "spec": spec}


def _template(draw: Draw, name: str, depth: int) -> Json:
    made: Json = {"name": name, "schedulingPolicy": _policy(draw, "minCount")}
    _placing(draw, made)
    made.pop("priorityClassName", None)
    if depth > 1:
        made["schedulingPolicy"] = {"gang": {"minGroupCount": draw(st.sampled_from(COUNTS))}}
        count = draw(st.sampled_from((1, 2, 8)))
        children = [_template(draw, f"{name}{at}", depth - 1) for at in range(count)]
        field = "compositePodGroupTemplates" if depth > 2 else "podGroupTemplates"
        made[field] = children
    return made


@st.composite
def workload_bodies(draw: Draw) -> Json:
    """Draw a Workload of one to four levels, for an owner that may exist."""
    depth = draw(st.sampled_from((1, 1, 2, 3)))
    field = "podGroupTemplates" if depth == 1 else "compositePodGroupTemplates"
    spec: Json = {field: [_template(draw, "t", depth)]}
    kinds = (
        {"apiGroup": "batch", "kind": "Job"},
        {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet"},
    )
    if draw(st.booleans()):
        spec["controllerRef"] = draw(st.sampled_from(kinds)) | {"name": one(draw, NAMES)}
    return {"metadata": _metadata(draw), "spec": spec}


@st.composite
def coscheduling_bodies(draw: Draw) -> Json:
    """Draw a PodGroup of KEP-3370."""
    count = draw(st.sampled_from((1, 1, 2, 8)))
    subsets: list[Json] = [
        {"name": f"s{at}", "minMember": draw(st.sampled_from(COUNTS))} for at in range(count)
    ]
    if count == 1 and draw(st.booleans()):
        subsets = [{"minMember": 2}]
    spec: Json = {"subsets": subsets}
    _maybe(draw, spec, "scheduleTimeoutSeconds", (1, 2**31 - 1))
    return {"metadata": _metadata(draw), "spec": spec}


def _template_of(draw: Draw) -> Json:
    pod: Json = draw(pod_bodies())
    pod["metadata"] = {
        key: value for key, value in pod["metadata"].items() if key in ("labels", "annotations")
    }
    pod["spec"].pop("nodeName", None)
    labels = pod["metadata"].get("labels", {})
    labels.pop("batch.kubernetes.io/job-name", None)
    return pod


def _job_spec(draw: Draw) -> Json:
    spec: Json = {"template": _template_of(draw), "backoffLimit": 0}
    _maybe(draw, spec, "parallelism", (0, 1, 2, 12))
    _maybe(draw, spec, "completions", (1, 3, 2**31 - 1))
    _maybe(draw, spec, "suspend", (True, False))
    return spec


def _options(draw: Draw) -> Json:
    """Draw the annotations by which users request gangs."""
    prefix = "scheduling.muster.dev"
    choices: tuple[tuple[str, Sequence[str]], ...] = (
        ("gang-mode", ("Gang", "Composite", "Basic", "None", "x")),
        ("min-count", ("1", "2", "1000", "x", "9" * 30)),
        ("topology", TOPOLOGY_KEYS),
        ("preferred-topology", TOPOLOGY_KEYS),
        ("disruption-mode", ("All", "Single", "x")),
        ("group-scope", ("Job", "ReplicatedJob", "x")),
        ("shared-claims", ("gpu", "gpu, shared", ",", "a,b,c,d,e", "x" * 4096)),
        ("claim-templates", ("gpu=x", "=,=", "gpu", "gpu=x," * 1000)),
        (
            "jobset-options",
            (
                "mode=Composite,topology=rack",
                "provisioning-request=check-capacity",
                "topology=,=,x",
                "shared-claims=a+b+,mode=Gang",
                "x" * 4096,
            ),
        ),
    )
    made = {}
    for name, values in choices:
        if draw(st.integers(1, 3)) == 1:
            made[f"{prefix}/{name}"] = one(draw, values)
    return made


@st.composite
def job_bodies(draw: Draw) -> Json:
    """Draw a Job, mostly with a gang mode."""
    metadata = _metadata(draw)
    metadata.setdefault("annotations", {}).update(_options(draw))
    return {"metadata": metadata, "spec": _job_spec(draw)}


@st.composite
def jobset_bodies(draw: Draw) -> Json:
    """Draw a JobSet of one to five replicatedJobs."""
    metadata = _metadata(draw)
    metadata.setdefault("annotations", {}).update(_options(draw))
    count = draw(st.sampled_from((1, 2, 5)))
    made = [
        {
            "name": f"r{at}",
            "replicas": draw(st.sampled_from((0, 1, 2, 9))),
            "template": {"metadata": {"annotations": _options(draw)}, "spec": _job_spec(draw)},
        }
        for at in range(count)
    ]
    return {"metadata": metadata, "spec": {"replicatedJobs": made}}


@st.composite
def budget_bodies(draw: Draw) -> Json:
    """Draw a PodDisruptionBudget over some or all of the tenant's pods."""
    selectors: tuple[Json, ...] = ({}, {"matchLabels": {"app": "a"}})
    spec: Json = {"selector": draw(st.sampled_from(selectors))}
    spec["minAvailable"] = draw(st.sampled_from((0, 2**31 - 1, "100%", "0%")))
    return {"metadata": _metadata(draw), "spec": spec}


@st.composite
def claim_bodies(draw: Draw) -> Json:
    """Draw a PersistentVolumeClaim, possibly with a forged annotation of the selected node."""
    metadata: Json = {}
    if draw(st.booleans()):
        keys = ("volume.kubernetes.io/selected-node", "pv.kubernetes.io/bind-completed")
        metadata["annotations"] = {key: one(draw, ("", "hostile-0", "x")) for key in keys}
    spec: Json = {
        "accessModes": draw(st.sampled_from((["ReadWriteOnce"], ["ReadWriteOncePod"]))),
        "resources": {"requests": {"storage": one(draw, WHOLE)}},
    }
    _maybe(draw, spec, "storageClassName", ("", "hostile-later", "none"), share=2)
    _maybe(draw, spec, "volumeName", NAMES)
    return {"metadata": metadata, "spec": spec}


_BODIES: Final = (
    (PODS, pod_bodies()),
    (PODS, pod_bodies()),
    (PODS, pod_bodies()),
    (GROUPS, group_bodies(composite=False)),
    (GROUPS, group_bodies(composite=False)),
    (COMPOSITES, group_bodies(composite=True)),
    (WORKLOADS, workload_bodies()),
    (COSCHEDULINGS, coscheduling_bodies()),
    (JOBS, job_bodies()),
    (JOBSETS, jobset_bodies()),
    (PDBS, budget_bodies()),
    (PVCS, claim_bodies()),
)


@st.composite
def objects(draw: Draw) -> Step:
    """Draw the creation of one object of any kind."""
    resource, bodies = _BODIES[draw(st.integers(0, len(_BODIES) - 1))]
    return create(resource, one(draw, NAMES[:-2]), draw(bodies))


_LONG: Final = 1200
"""A length above the interpreter's recursion limit."""


def _below(name: str, parent: str | None, count: int = 1) -> Step:
    spec: Json = {
        "schedulingPolicy": {"gang": {"minGroupCount": count}},
        "workloadRef": {"workloadName": "w", "templateName": "t"},
    }
    if parent is not None:
        spec["parentCompositePodGroupName"] = parent
    return create(COMPOSITES, name, {"spec": spec})


def chain(length: int, *, closed: bool = False) -> list[Step]:
    """Return a chain of composites; if closed, the first is below the last."""
    first = f"chain-{length - 1}" if closed else None
    return [_below(f"chain-{at}", f"chain-{at - 1}" if at else first) for at in range(length)]


def fan(width: int) -> list[Step]:
    """Return one composite with that many PodGroups."""
    policy = {"gang": {"minCount": 1}}
    reference = {"workloadName": "w", "templateName": "t"}
    spec = {
        "schedulingPolicy": policy,
        "workloadRef": reference,
        "parentCompositePodGroupName": "fan",
    }
    children = [create(GROUPS, f"fan-{at}", {"spec": {**spec}}) for at in range(width)]
    return [_below("fan", None, width), *children]


@st.composite
def structures(draw: Draw) -> list[Step]:
    """Draw many connected groups, in any order, with a few pods in one of them."""
    size = draw(st.sampled_from((2, 3, 5, 12, 40)))
    if draw(st.integers(1, 25)) == 25:
        size = _LONG
    kind = draw(st.integers(0, 2))
    made = fan(size) if kind == 2 else chain(size, closed=kind == 1)
    if draw(st.booleans()):
        made.reverse()
    pod: Json = draw(pod_bodies())
    label = made[draw(st.integers(0, size - 1))].name
    pod["metadata"].setdefault("labels", {})["scheduling.muster.dev/pod-group"] = label
    return [*made, create(PODS, "member", pod)]


@st.composite
def crowds(draw: Draw) -> list[Step]:
    """Draw one pod and repeat it many times, in one group or none."""
    pod: Json = draw(pod_bodies())
    count = draw(st.sampled_from((5, 12, 40)))
    made = [create(PODS, f"crowd-{at}", pod) for at in range(count)]
    if draw(st.booleans()):
        group: Json = draw(group_bodies(composite=False))
        pod["metadata"].setdefault("labels", {})["scheduling.muster.dev/pod-group"] = "crowd"
        made.insert(draw(st.sampled_from((0, count))), create(GROUPS, "crowd", group))
    return made


def _plain(draw: Draw, cpu: str, group: str | None) -> Json:
    """Draw a pod that fits a hostile node, with at most two odd parts."""
    pod: Json = draw(pod_bodies(parts=2))
    container = pod["spec"]["containers"][0]
    asked = container.setdefault("resources", {}).setdefault("requests", {})
    asked["cpu"] = cpu
    pod["spec"].setdefault("tolerations", [{"key": "hostile", "operator": "Exists"}])
    if group is not None:
        pod["metadata"].setdefault("labels", {})["scheduling.muster.dev/pod-group"] = group
    return pod


@st.composite
def mixes(draw: Draw) -> list[Step]:
    """Draw a gang of unequal pods that may just fit, possibly in one domain."""
    group: Json = draw(group_bodies(composite=False))
    group["spec"].pop("parentCompositePodGroupName", None)
    kinds = draw(st.sampled_from((2, 3, 5)))
    made = []
    for kind in range(kinds):
        pod = _plain(draw, one(draw, ("300m", "1", "1500m", "2", "3")), "mix")
        count = draw(st.sampled_from((1, 2, 4)))
        made += [create(PODS, f"mix-{kind}-{at}", pod) for at in range(count)]
    least = draw(st.sampled_from((1, kinds, len(made))))
    group["spec"]["schedulingPolicy"] = {"gang": {"minCount": least}}
    return [create(GROUPS, "mix", group), *made]


@st.composite
def fights(draw: Draw) -> list[Step]:
    """Draw low-priority pods that fill the hostile nodes, then an important workload."""
    count = draw(st.sampled_from((4, 8, 9)))
    low = _plain(draw, "1", draw(st.sampled_from((None, "low"))))
    low["spec"]["priorityClassName"] = one(draw, CLASSES)
    group: Json = draw(group_bodies(composite=False))
    budget: Json = draw(budget_bodies())
    made = [create(GROUPS, "low", group), create(PDBS, "low", budget)]
    made += [create(PODS, f"low-{at}", low) for at in range(count)]
    high = draw(mixes())
    for step in high:
        step.body["spec"]["priorityClassName"] = "hostile-high"
    return [*made, *high]


def _change(draw: Draw, step: Step) -> Step:
    """Draw an update or a deletion of the object."""
    metadata: tuple[Json, ...] = (
        {"labels": {"app": "b", "scheduling.muster.dev/pod-group": "a"}},
        {"labels": {"app": None, "scheduling.muster.dev/pod-group": None}},
        {"annotations": dict.fromkeys(ANNOTATIONS, "1e9999")},
        {"finalizers": None},
        {"finalizers": ["hostile.example/late"]},
        {"ownerReferences": None},
    )
    patches: tuple[Json, ...] = (
        *({"metadata": meta} for meta in metadata),
        {"spec": {"schedulingGates": None}},
        {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}},
        {"spec": {"suspend": False}},
        {"spec": {"parallelism": 3}},
    )
    if draw(st.booleans()):
        return Step("patch", step.resource, step.name, draw(st.sampled_from(patches)))
    grace: tuple[Json, ...] = ({}, {"gracePeriodSeconds": 0}, {"gracePeriodSeconds": 10**9})
    return Step("delete", step.resource, step.name, draw(st.sampled_from(grace)))


@st.composite
def campaigns(draw: Draw) -> list[Step]:
    """Draw creations, then up to four changes of these objects, some of them recreated."""
    special = draw(st.sampled_from((None, None, None, structures, crowds, mixes, fights)))
    made = draw(special() if special else st.lists(objects(), min_size=1, max_size=6))
    changes = []
    for at in draw(st.lists(st.integers(0, len(made) - 1), max_size=4)):
        changes.append(_change(draw, made[at]))
        if changes[-1].verb == "delete" and draw(st.booleans()):
            changes.append(made[at])
    return [*made, *changes]
