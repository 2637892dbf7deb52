"""The objects of a situation, from its steps."""

from collections.abc import Mapping, Sequence

from api.constants import NATIVE_COMPOSITE_POD_GROUP, NATIVE_POD_GROUP
from e2e.harness.devices import with_claims
from e2e.harness.environment import TAINT
from e2e.harness.objects import Json, pod, resource
from e2e.kubernetes.upstream.situations.model import Group, Pods
from kube.client.resources import PRIORITY_CLASSES, PVCS, PVS, Resource

GROUPS = resource(NATIVE_POD_GROUP)
COMPOSITES = resource(NATIVE_COMPOSITE_POD_GROUP)
SET = "set"
"""The label of pods that has the name of their set."""
LASTING = "example.com/lasting"
"""The finalizer of pods that keep their node until the situation releases them."""
HOST = "kubernetes.io/hostname"


def class_name(priority: int, *, never: bool = False) -> str:
    """Return the name of the priority class of this value; "" for the default."""
    return f"situation-{priority}{'-never' if never else ''}" if priority else ""


def priority_class(priority: int, *, never: bool) -> Json:
    policy = "Never" if never else "PreemptLowerPriority"
    meta = {"name": class_name(priority, never=never)}
    return _object(PRIORITY_CLASSES, meta, value=priority, preemptionPolicy=policy)


def group_object(group: Group, keys: Mapping[str, str]) -> Json:
    """Return the object of a group; `keys` are the node labels of the topology keys."""
    policy: Json = {"basic": {}}
    if group.minimum is not None:
        count = "minGroupCount" if group.composite else "minCount"
        policy = {"gang": {count: group.minimum}}
    spec: Json = {"schedulingPolicy": policy}
    if group.composite or group.parent:
        # Nobody reads the Workload: Kubernetes' tests create none either.
        spec["workloadRef"] = {"workloadName": "workload", "templateName": group.name}
    if group.parent:
        spec["parentCompositePodGroupName"] = group.parent
    if group.key:
        spec["schedulingConstraints"] = {"topology": [{"key": keys[group.key]}]}
    if group.mode:
        spec["disruptionMode"] = {group.mode: {}}
    if group.priority:
        spec["priorityClassName"] = class_name(group.priority, never=group.never)
    if group.never:
        # Its default is to preempt, and the API server rejects what the class contradicts.
        spec["preemptionPolicy"] = "Never"
    if group.claims:
        spec["resourceClaims"] = [{"name": it, "resourceClaimName": it} for it in group.claims]
    return _object(COMPOSITES if group.composite else GROUPS, {"name": group.name}, spec=spec)


def pod_name(of: Pods, index: int) -> str:
    return f"{of.name.replace('_', '-')}-{index}"


def pod_object(of: Pods, index: int, room: str, scheduler: str, names: Sequence[str]) -> Json:
    """Return one pod of a set; `names` are the nodes, and n1 is the first of them."""
    made = pod(pod_name(of, index), room, scheduler=scheduler)
    made["metadata"]["labels"] = {SET: of.name, **({"app": of.app} if of.app else {})}
    if of.lasting:
        made["metadata"]["finalizers"] = [LASTING]
    spec: Json = made["spec"]
    _containers(spec, of)
    if of.group:
        spec["schedulingGroup"] = {"podGroupName": of.group}
    if of.priority:
        spec["priorityClassName"] = class_name(of.priority, never=of.never)
    _placed(spec, of, index, names)
    if of.gated:
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    if of.volume:
        claim = {"persistentVolumeClaim": {"claimName": of.volume}}
        spec["volumes"] = [{"name": "data", **claim}]
    if of.claims:
        spec |= with_claims(spec, {it: {"resourceClaimName": it} for it in of.claims})
    return made | {"spec": {**spec, **of.spec}}


def _containers(spec: Json, of: Pods) -> None:
    (container,) = spec["containers"]
    container["resources"] = {"requests": {"cpu": of.cpu}} if of.cpu else {}
    if of.port:
        container["ports"] = [{"containerPort": of.port, "hostPort": of.port}]


def _placed(spec: Json, of: Pods, index: int, names: Sequence[str]) -> None:
    if of.node:
        bound = of.node.split()
        spec["nodeName"] = named(bound[index % len(bound)], names)
    if of.only:
        spec["nodeSelector"] = {**spec["nodeSelector"], HOST: named(of.only, names)}
    if of.prefers:
        terms = [{"key": HOST, "operator": "In", "values": [named(of.prefers, names)]}]
        preferred = [{"weight": 100, "preference": {"matchExpressions": terms}}]
        wish = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        spec["affinity"] = {"nodeAffinity": wish}
    if of.tolerates:
        spec["tolerations"] = [{"key": TAINT, "operator": "Exists"}]


def named(node: str, names: Sequence[str]) -> str:
    """Return the full name of a node that a situation calls n1, n2, ..."""
    return names[int(node.removeprefix("n")) - 1]


def budget_object(app: str, minimum: int) -> Json:
    selector = {"matchLabels": {"app": app}}
    return {"metadata": {"name": app}, "spec": {"minAvailable": minimum, "selector": selector}}


def volume_objects(name: str, room: str) -> tuple[Json, Json]:
    """Return a volume, and the claim that is bound to it; only one pod may use it."""
    common = {"accessModes": ["ReadWriteOncePod"], "storageClassName": ""}
    of = {"name": name, "namespace": room}
    volume = {
        "capacity": {"storage": "1Mi"}, "hostPath": {"path": "/mnt"}, "claimRef": of, **common
    }  # fmt: skip
    claim = {
        "resources": {"requests": {"storage": "1Mi"}}, "volumeName": f"{room}-{name}", **common
    }  # fmt: skip
    return (
        _object(PVS, {"name": f"{room}-{name}"}, spec=volume),
        _object(PVCS, {"name": name}, spec=claim),
    )


def _object(kind: Resource, metadata: Json, **fields: object) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
