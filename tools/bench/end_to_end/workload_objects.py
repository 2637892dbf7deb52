"""The objects of the workloads from scheduler_perf, by its templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tools.bench.end_to_end.victims import URGENT
from tools.bench.end_to_end.victims import pod as requesting
from tools.bench.end_to_end.workloads import Coming, Content, Workload

Json = dict[str, Any]

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
ONE_NODE: Final = "scheduler-perf-node"
SERVED: Final = "foo"
"""The label of pods that a service selects."""
ONCE: Final = "v-once"
"""Prefix of the names of pods whose claims only one pod may use at a time."""
BLOCKERS: Final = 10
"""Blockers of each of both kinds on each node."""
DEVICE: Final = "example.com/device"
_TEAM: Final = {"team": "devops"}
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_LABELS: Final[dict[str, str]] = {
    "affinity": "blue",
    "anti-affinity": "green",
    "matching-anti-affinity": "green",
    "preferred-affinity": "red",
    "preferred-anti-affinity": "yellow",
    "spreading": "blue",
    "preferred-spreading": "blue",
    "namespaces": "green",
    "preferred-namespaces": "green",
    "near-alike": "green",
    "inclusion": "orange",
    "domains": "blue",
    "blocker": "purple",
    "once-blocker": "black",
    "spread-blocked": "purple",
    "near-namespaces": "blue",
    "preferred-near-namespaces": "red",
    "labelled-alone": "white",
    "gated-near": "white",
    "served": "foo",
    "added": "brown",
    "ahead": "teal",
    "behind": "teal",
}


_WITHOUT: Final = (
    "spreading", "preferred-spreading", "matching-anti-affinity", "inclusion", "domains",
    "blocker", "once-blocker", "spread-blocked", "labelled-alone", "served", "added", "ahead",
    "behind",
)  # fmt: skip
"""Pods with a label but without terms about others."""
_SPREAD: Final = (
    "spreading", "preferred-spreading", "inclusion", "domains", "spread-blocked", "behind",
)  # fmt: skip
_NEAR: Final = ("affinity", "near-alike", "near-namespaces")
"""Pods that must be in one zone with others."""
_IN_STAGES: Final = ("cordoned", "roomy", "near-alike", "labelled", "domains", "tolerating", "wide")


def node(workload: Workload, index: int) -> Json:
    """Return the name, labels, resources and spec of a node."""
    only = workload.one_node and index == 0
    name = ONE_NODE if only else f"n{index}"
    labels = {HOST: name}
    if workload.zones:
        labels[ZONE] = f"zone{index % workload.zones + 1}"
    resources = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    if only:
        resources = {"cpu": "90000", "memory": "90000Gi", "pods": "90000"}
    if workload.filled:
        # Some pods fit any node, others need as many slots on every one of them. Packed, the first
        # would use up the slots that the others need.
        resources["pods"] = "1000"
    if workload.content == "extended":
        resources[DEVICE] = "1"
    spec: Json = {"taints": [_taint("foo")]} if workload.tainted(index) else {}
    if workload.grows:
        spec = {"unschedulable": True}
    return {"name": name, "labels": labels, "resources": resources, "spec": spec}


def _taint(key: str) -> Json:
    return {"key": key, "effect": "NoSchedule"}


def ready_node(name: str, labels: dict[str, str], resources: dict[str, str], spec: Json) -> Json:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]},
    }


_COMING: Final[dict[Coming, tuple[str, str, str, str]]] = {
    "default": ("4", "32Gi", "110", ""),
    "small": ("100m", "100Mi", "3000", "allow"),
    "large": ("200", "200Gi", "3000", "allow"),
    "labelled": ("4", "32Gi", "3000", "allow"),
    "tainted": ("4", "32Gi", "3000", "toleration"),
    "cordoned": ("4", "32Gi", "3000", "allow"),
    "open": ("4", "32Gi", "3000", "allow"),
    "tight": ("1m", "1Mi", "3000", "allow-room"),
    "wide": ("4", "32Gi", "3000", "allow-room"),
    "kept": ("4", "32Gi", "3000", "toleration"),
}
"""Processors, memory, pods, and the key of the taint."""


def coming(name: str, kind: Coming = "default") -> Json:
    """Return a node that comes while pods are scheduled."""
    cpu, memory, pods, taint = _COMING[kind]
    labels = {HOST: name}
    if kind == "labelled":
        labels |= {ZONE: "zone1", "affinity": "allow", "topology": "allow"}
    if kind == "kept":
        labels["affinity"] = "allow"
    resources = {"cpu": cpu, "memory": memory, "pods": pods}
    spec: Json = {"taints": [_taint(taint)]} if taint else {}
    if kind == "cordoned":
        spec["unschedulable"] = True
    return ready_node(name, labels, resources, spec)


def changed(node: Json) -> tuple[Json, Json]:
    """Return the merge patches that turn a node into this one: of the node, and of its status."""
    spec = {"unschedulable": None} | node["spec"]
    resources = {name: node["status"][name] for name in ("capacity", "allocatable")}
    return {"metadata": {"labels": node["metadata"]["labels"]}, "spec": spec}, {"status": resources}


def staged(workload: Workload, pods: int, own: str) -> Iterator[list[Json]]:
    """Yield the pods of each stage, equally many of each kind."""
    each, number = pods // workload.staged, 0
    for stage in workload.stages:
        lot = list[Json]()
        for kind in stage.pods:
            lot += [pod(kind, f"p-{number + at}", own, at) for at in range(each)]
            number += each
        yield lot


def urgent(name: str) -> Json:
    """Return a pod of a high priority that fits no node."""
    made = requesting(name, 9_000)
    made["spec"]["priorityClassName"] = URGENT
    return made


def service(name: str) -> Json:
    spec = {"selector": {"app": SERVED}, "ports": [{"port": 8080, "targetPort": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def others(workload: Workload, own: str) -> list[str]:
    """Return the namespaces of the pods that exist before."""
    return [f"{own}-{index}" for index in range(workload.namespaces)] if workload.running else []


def namespaces(workload: Workload, own: str) -> list[Json]:
    made = [{"name": name, "labels": dict(_TEAM)} for name in (own, *others(workload, own))]
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": meta} for meta in made]


def running(workload: Workload, own: str, nodes: int) -> Iterator[tuple[str, Json]]:
    """Yield the pods that run before, with their namespace, one on each node in turn."""
    number = 0
    for space in others(workload, own):
        for kind in workload.kinds:
            for _ in range(workload.there):
                made = pod(kind, f"v-{number}", own)
                made["spec"]["nodeName"] = node(workload, number % nodes)["name"]
                number += 1
                yield space, made


def blocked(workload: Workload, own: str) -> list[Json]:
    return [pod(workload.blocks, f"v-{index}", own) for index in range(workload.blocked)]


_CPU: Final[dict[str, int]] = {
    "large": 9_000,
    "bulky": 3_950,
    **dict.fromkeys(("daemon", "labelled-alone", "added", "unlabelled", "ahead"), 1),
}
"""Millicores; others request 100."""


def pod(content: Content, name: str, own: str, number: int = 0) -> Json:
    """Return a pod of this kind, with terms about its own namespace and the first of the others.

    It has this number among those of its kind: each may wait for a pod of its own.
    """
    made = requesting(name, _CPU.get(content, 100))
    if content in _LABELS:
        made["metadata"]["labels"] = {"color": _LABELS[content]}
    affinity = _affinity(content, own)
    if affinity:
        made["spec"]["affinity"] = affinity
    if content in _IN_STAGES:
        _in_stages(content, made)
    if "block" in content:
        _among_blockers(content, made)
    if content in _SPREAD:
        made["spec"]["topologySpreadConstraints"] = [_spread(content)]
    _add_own(content, made)
    volume = _volume(content, name, number)
    if volume:
        made["spec"]["volumes"] = [{"name": "data", **volume}]
    return made


def _add_own(content: Content, made: Json) -> None:
    """Add what only pods of this one kind have."""
    if content == "extended":
        asked = made["spec"]["containers"][0]["resources"]
        asked["requests"][DEVICE] = "1"
        asked["limits"] = {DEVICE: "1"}
    elif content == "host-port":
        made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    elif content in ("gated", "gated-near"):
        made["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
    elif content == "served":
        made["metadata"]["labels"]["app"] = SERVED
    elif content == "finalizer":
        made["metadata"]["finalizers"] = ["example.com/finalizer"]
    elif content == "large":
        made["spec"]["priorityClassName"] = URGENT


def _in_stages(content: Content, made: Json) -> None:
    """Set the requests: only pods whose kind needs capacity request any."""
    requests = {
        "roomy": {"cpu": "200m", "memory": "200Mi"},
        "wide": {"cpu": "350m", "memory": "3Gi"},
    }.get(content, {})
    made["spec"]["containers"][0]["resources"] = {"requests": requests}
    key = {"tolerating": "toleration", "wide": "allow-room"}.get(content, "allow")
    made["spec"]["tolerations"] = [{"key": key, "operator": "Exists", "effect": "NoSchedule"}]


def _among_blockers(content: Content, made: Json) -> None:
    """Set what blockers have, and what pods request that wait for their end."""
    cpu = {"blocker": "390m", "room-blocked": "350m"}.get(content)
    container = made["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": cpu} if cpu else {}}
    if content in ("blocker", "port-blocked"):
        port = 8_000 + int(made["metadata"]["name"].rpartition("-")[2]) % BLOCKERS
        container["ports"] = [{"containerPort": port, "hostPort": port}]


def blockers(nodes: int, own: str) -> list[Json]:
    """Return the blockers, which on each node use up capacity, ports, skew and attachable volumes.

    Those of the second kind match the anti-affinity of waiting pods, or use the claim they need.
    """
    found = list[Json]()
    for index in range(nodes * BLOCKERS):
        both = (pod("blocker", f"v-{index}", own), pod("once-blocker", f"{ONCE}-{index}", own))
        for each in both:
            each["spec"]["nodeName"] = f"n{index // BLOCKERS}"
        found += both
    return found


def _spread(content: Content) -> Json:
    soft = content == "preferred-spreading"
    rule: Json = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "ScheduleAnyway" if soft else "DoNotSchedule",
        "labelSelector": {"matchLabels": {"color": _LABELS[content]}},
    }
    if content == "inclusion":
        rule |= {"maxSkew": 1, "topologyKey": HOST, "nodeTaintsPolicy": "Honor"}
    if content == "spread-blocked":
        rule |= {"maxSkew": BLOCKERS, "topologyKey": HOST, "minDomains": 10_000}
    if content == "behind":
        rule |= {"maxSkew": 1, "nodeAffinityPolicy": "Ignore"}
    if content == "domains":
        rule |= {"maxSkew": 1_000, "topologyKey": "topology", "minDomains": 10_000}
    return rule


def _affinity(content: Content, own: str) -> Json:
    if content == "node-affinity":
        return _nodes("matchExpressions", ZONE, ["zone1", "zone2"])
    if content in ("labelled", "intolerant"):
        return _nodes("matchExpressions", "affinity", ["allow"])
    if content == "behind":
        return _nodes("matchExpressions", ZONE, ["zone1"])
    if content == "near-added":
        selector = {"matchLabels": {"color": _LABELS["added"]}}
        return {"podAffinity": {_REQUIRED: [{"labelSelector": selector, "topologyKey": HOST}]}}
    if content == "daemon":
        return _nodes("matchFields", "metadata.name", [ONE_NODE])
    if content == "anti-blocked":
        selector = {"matchLabels": {"color": _LABELS["once-blocker"]}}
        return {"podAntiAffinity": {_REQUIRED: [{"labelSelector": selector, "topologyKey": HOST}]}}
    apart = "anti" in content or ("namespaces" in content and "near" not in content)
    kind = "podAntiAffinity" if apart else "podAffinity"
    if content not in _LABELS or content in _WITHOUT:
        return {}
    term: Json = {
        "labelSelector": {"matchLabels": {"color": _LABELS[content]}},
        "topologyKey": ZONE if content in _NEAR else HOST,
    }
    if "namespaces" in content:
        term["namespaceSelector"] = {"matchLabels": _TEAM}
    else:
        term["namespaces"] = [own, f"{own}-0"]
    if content.startswith("preferred"):
        return {kind: {_PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}
    return {kind: {_REQUIRED: [term]}}


def _nodes(field: str, key: str, values: list[str]) -> Json:
    term = {field: [{"key": key, "operator": "In", "values": values}]}
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}}}


def _volume(content: Content, name: str, number: int) -> Json:
    if content == "secret":
        return {"secret": {"secretName": "secret"}}
    if content == "once-blocked":
        return {"persistentVolumeClaim": {"claimName": f"pvc-{ONCE}-{number}"}}
    if content.endswith("-volume") or content in ("blocker", "once-blocker", "limit-blocked"):
        return {"persistentVolumeClaim": {"claimName": f"pvc-{name}"}}
    return {}
