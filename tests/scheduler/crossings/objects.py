"""An instance as API objects."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from api.constants import (
    ANNOTATION_MOVABLE,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_SLICE_TOPOLOGY,
    NATIVE_COMPOSITE_POD_GROUP,
    NATIVE_POD_GROUP,
)
from kube.client.meta import Json
from kube.client.resources import (
    CSI_NODES,
    DAEMON_SETS,
    DEVICE_CLASSES,
    NODES,
    PDBS,
    PODS,
    PVCS,
    PVS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    Resource,
)
from scheduler.support.kinds import GROUPS

DRIVER: Final = "gpu.example.com"
CSI: Final = "csi.example.com"
NETWORK: Final = "net"
EXTRA: Final = "example.com/extra"
NAMESPACE: Final = "ns"
OTHER: Final = "other"
"""The namespace of objects named NAME@b."""
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The creation time of the objects, and the deletion time of pods."""

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TAINT: Final = {"key": "old", "value": ""}
_DAEMONS: Final = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "uid-d"}
_JOB: Final = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j"}

Object = tuple[Resource, Json]


def at(name: str) -> tuple[str, str]:
    """Return the name and the namespace of an object of an instance."""
    short, other, _ = name.partition("@")
    return short, OTHER if other else NAMESPACE


def key_of(name: str) -> tuple[str, str]:
    """Return the namespace and the name."""
    short, namespace = at(name)
    return namespace, short


def named(name: str, namespace: str) -> str:
    """Return an instance's name of an object."""
    return f"{name}@b" if namespace == OTHER else name


def objects(instance: Mapping[str, Any]) -> Iterator[Object]:
    """Yield all objects in a valid order of creation."""
    yield DEVICE_CLASSES, _meta("gpu", "") | {"spec": {}}
    yield DAEMON_SETS, _meta("d")
    yield DAEMON_SETS, _meta("d@b")
    for kind in ("hand", "later"):
        provisioner = CSI if kind == "later" else "kubernetes.io/no-provisioner"
        spec: Json = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        yield STORAGE_CLASSES, _meta(kind, "") | spec
    for node in instance.get("nodes", ()):
        yield from node_objects(node)
    if "network" in instance:
        yield RESOURCE_SLICES, _slice(NETWORK, {"allNodes": True}, instance["network"], 0)
    for volume in instance.get("volumes", ()):
        yield PVS, _volume(volume, instance)
    for claim in instance.get("pvcs", ()):
        yield PVCS, _pvc(claim)
    for budget in instance.get("budgets", ()):
        app, space = at(budget["app"])
        spec = {"selector": {"matchLabels": {"app": app}}}
        status = {"disruptionsAllowed": budget["allowed"]}
        yield PDBS, _meta(named(f"pdb-{app}", space)) | {"spec": spec, "status": status}
    for age, group in enumerate(instance.get("groups", ())):
        yield from group_objects(group, instance, age)
    for claim in instance.get("claims", ()):
        yield RESOURCE_CLAIMS, claim_object(claim, instance)
    for age, pod in enumerate(instance.get("pods", ())):
        yield PODS, pod_object(pod, age)


def node_objects(node: Json) -> Iterator[Object]:
    """Yield a node with its CSINode and its ResourceSlice."""
    name = node["name"]
    labels = {"host": name} | {it: node[it] for it in ("rack", "block", "zone") if it in node}
    amounts = {"cpu": str(node["cpu"]), "memory": f"{node.get('memory') or 64}Gi"}
    amounts["pods"] = str(node.get("pods") or 110)
    amounts |= {EXTRA: str(node["extra"])} if "extra" in node else {}
    spec = {
        "taints": [_TAINT | {"effect": node["taint"]}] if node.get("taint") else [],
        "unschedulable": bool(node.get("cordoned")),
    }
    obj = _meta(name, "") | {"spec": spec, "status": {"allocatable": amounts}}
    obj["metadata"]["labels"] = labels
    yield NODES, obj
    if "attach" in node:
        driver = {"name": CSI, "nodeID": name, "allocatable": {"count": node["attach"]}}
        yield CSI_NODES, _meta(name, "") | {"spec": {"drivers": [driver]}}
    if node.get("devices"):
        counter = node.get("counter", 0)
        count = 2 if counter else 1
        yield RESOURCE_SLICES, _slice(name, {"nodeName": name}, node["devices"], 0, count)
        if counter:
            yield RESOURCE_SLICES, _slice(name, {"nodeName": name}, [], counter, count)


def kind_of_group(group: Json) -> Resource:
    native = NATIVE_COMPOSITE_POD_GROUP if group.get("composite") else NATIVE_POD_GROUP
    return native if group.get("native") else GROUPS[native.kind]


def group_objects(group: Json, instance: Mapping[str, Any], age: int) -> Iterator[Object]:
    """Yield a group, with the ResourceClaimTemplates of its expected pods."""
    spec: Json = {"disruptionMode": {"all" if group.get("all") else "single": {}}}
    count = "minGroupCount" if group.get("composite") else "minCount"
    gang = {"gang": {count: group.get("min", 1)}}
    spec["schedulingPolicy"] = {"basic": {}} if group.get("basic") else gang
    spec["priority"] = group.get("priority", 0)
    if group.get("never"):
        spec["preemptionPolicy"] = "Never"
    if group.get("parent"):
        spec["parentCompositePodGroupName"] = at(group["parent"])[0]
    in_spec = not (group.get("native") and group.get("preferred"))
    if group.get("key") and in_spec:
        topology = {"key": group["key"], "preferred": bool(group.get("preferred"))}
        spec["schedulingConstraints"] = {"topology": [topology]}
    claims = [it["name"] for it in instance.get("claims", ()) if it.get("group") == group["name"]]
    status: Json = {}
    if claims:
        claims = [at(it)[0] for it in claims]
        entries = [{"name": it, "resourceClaimTemplateName": "of-group"} for it in claims]
        spec["resourceClaims"] = entries
        made_claims = [{"name": it, "resourceClaimName": it} for it in claims]
        status["resourceClaimStatuses"] = made_claims
    expects: list[Json] = []
    short, space = at(group["name"])
    for kind in group.get("expects", ()):
        pod = pod_object({**kind, "kind": kind["name"], "group": group["name"]}, 0)
        entries = [
            {
                "name": f"own{number}",
                "resourceClaimTemplateName": f"{short}-{kind['name']}-{number}",
            }
            for number in range(len(kind.get("asks", ())))
        ]
        template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
        template["spec"]["resourceClaims"] = entries
        fields = {"name": kind["name"], "count": kind["count"], "stage": kind.get("stage", 0)}
        expects.append(fields | {"template": template})
        for number, ask in enumerate(kind.get("asks", ())):
            body = _meta(named(f"{short}-{kind['name']}-{number}", space))
            yield RESOURCE_CLAIM_TEMPLATES, body | {"spec": {"spec": _ask(ask)}}
    if expects:
        spec["expectedPods"] = expects
    made = _meta(group["name"]) | {"spec": spec, "status": status}
    made["metadata"]["creationTimestamp"] = _time(age)
    made["metadata"]["annotations"] = _annotations(group)
    yield kind_of_group(group), made


def _annotations(group: Json) -> Json:
    made = {}
    if group.get("movable"):
        made[ANNOTATION_MOVABLE] = "true"
    if group.get("slices"):
        size, key = group["slices"]
        made[ANNOTATION_SLICE_SIZE] = str(size)
        made[ANNOTATION_SLICE_TOPOLOGY] = key
    if group.get("native") and group.get("preferred"):
        made[ANNOTATION_PREFERRED_TOPOLOGY] = group["key"]
    return made


def pod_object(pod: Json, age: int) -> Json:
    """Return a pod; `age` is its number, which determines its creation time."""
    made = _meta(pod["name"])
    meta, labels = made["metadata"], {key: pod[key] for key in ("app", "kind") if pod.get(key)}
    meta["creationTimestamp"] = _time(age)
    if "index" in pod:
        labels["batch.kubernetes.io/job-completion-index"] = str(pod["index"])
    if pod.get("group") and not pod.get("native"):
        labels["scheduling.muster.dev/pod-group"] = at(pod["group"])[0]
    meta["labels"] = labels
    if pod.get("deleted"):
        meta["deletionTimestamp"] = _time(0)
    if pod.get("daemon"):
        meta["ownerReferences"] = [_DAEMONS | {"controller": True}]
    if pod.get("made"):
        meta["ownerReferences"] = [_JOB | {"controller": True}]
    status: Json = {"phase": pod.get("phase", "Pending")}
    if pod.get("nominated"):
        status["nominatedNodeName"] = pod["nominated"]
    if pod.get("node"):
        status["startTime"] = _time(age)
    return made | {"spec": _pod_spec(pod), "status": status}


def _pod_spec(pod: Json) -> Json:
    requests = {"cpu": str(pod["cpu"])}
    if pod.get("memory"):
        requests["memory"] = f"{pod['memory']}Gi"
    if pod.get("extra"):
        requests[EXTRA] = str(pod["extra"])
    container: Json = {"name": "main", "resources": {"requests": requests}}
    if pod.get("port"):
        container["ports"] = [{"hostPort": pod["port"], "containerPort": 80}]
    volumes = [
        {"name": it, "persistentVolumeClaim": {"claimName": it}}
        for it in (at(name)[0] for name in pod.get("volumes", ()))
    ]
    claims = [
        {"name": it, "resourceClaimName": it}
        for it in (at(name)[0] for name in pod.get("claims", ()))
    ]
    spec: Json = {
        "schedulerName": "default-scheduler" if pod.get("foreign") else "muster-scheduler",
        "priority": pod.get("priority", 0),
        "containers": [container],
        "volumes": volumes,
        "resourceClaims": claims,
        "nodeName": pod.get("node", ""),
        "affinity": _affinity(pod),
        "topologySpreadConstraints": [*map(_spread, pod.get("spread", ()))],
    }
    if pod.get("group") and pod.get("native"):
        spec["schedulingGroup"] = {"podGroupName": at(pod["group"])[0]}
    if pod.get("never"):
        spec["preemptionPolicy"] = "Never"
    if pod.get("rack"):
        spec["nodeSelector"] = {"rack": pod["rack"]}
    if pod.get("tolerates"):
        effect = {} if pod["tolerates"] is True else {"effect": pod["tolerates"]}
        spec["tolerations"] = [{"key": "old", "operator": "Exists"} | effect]
    if pod.get("gated"):
        spec["schedulingGates"] = [{"name": "wait"}]
    return {key: value for key, value in spec.items() if value not in ([], {}, "")}


def _spread(term: Json) -> Json:
    made = _term(term["app"], term["key"])
    made |= {"maxSkew": term.get("skew", 1), "whenUnsatisfiable": "DoNotSchedule"}
    if term.get("domains"):
        made["minDomains"] = term["domains"]
    if term.get("taints"):
        made["nodeTaintsPolicy"] = "Honor"
    if term.get("everywhere"):
        made["nodeAffinityPolicy"] = "Ignore"
    return made


def _affinity(pod: Json) -> Json:
    return {
        kind: {_REQUIRED: [_term(app, key) for app, key in pod[field]]}
        for kind, field in (("podAffinity", "affinity"), ("podAntiAffinity", "anti"))
        if pod.get(field)
    }


def claim_object(claim: Json, instance: Mapping[str, Any]) -> Json:
    """Return a ResourceClaim with its allocation and its consumers."""
    made = _meta(claim["name"]) | {"spec": _ask(claim.get("ask", {}))}
    owner, group = claim.get("owner", ""), claim.get("group", "")
    if owner or group:
        kind = {"apiVersion": "v1", "kind": "Pod"} if owner else _POD_GROUP
        name = owner or group
        reference = {"name": at(name)[0], "uid": f"uid-{name}", "controller": True}
        made["metadata"]["ownerReferences"] = [kind | reference]
    if claim.get("given"):
        results, nodes = [], set()
        for pool, device, option, amount in claim["given"]:
            request = f"r/o{option}" if claim.get("ask", {}).get("any") else "r"
            result: Json = {"request": request, "driver": DRIVER, "pool": pool, "device": device}
            if amount:
                shared = {
                    "shareID": f"share-{claim['name']}",
                    "consumedCapacity": {"memory": amount},
                }
                result |= shared
            results.append(result)
            nodes |= {pool} - {NETWORK}
        allocation: Json = {"devices": {"results": results}}
        if nodes:
            term = {"key": "metadata.name", "operator": "In", "values": sorted(nodes)}
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [term]}]}
        users = [
            {"resource": "pods", "name": at(it["name"])[0], "uid": f"uid-{it['name']}"}
            for it in instance.get("pods", ())
            if claim["name"] in it.get("claims", ()) and it.get("node")
        ]
        made["status"] = {"allocation": allocation, "reservedFor": users}
    return made


_POD_GROUP: Final = {"apiVersion": GROUPS["PodGroup"].api_version, "kind": "PodGroup"}


def _ask(ask: Json) -> Json:
    if ask.get("any"):
        options = [{"name": f"o{it}", **_exactly(option)} for it, option in enumerate(ask["any"])]
        return {"devices": {"requests": [{"name": "r", "firstAvailable": options}]}}
    devices: Json = {"requests": [{"name": "r", "exactly": _exactly(ask)}]}
    if ask.get("constraint"):
        field = "matchAttribute" if ask["constraint"] == "same" else "distinctAttribute"
        devices["constraints"] = [{"requests": ["r"], field: f"{DRIVER}/rail"}]
    return {"devices": devices}


def _exactly(ask: Json) -> Json:
    count = ask.get("count", 1)
    made: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    if ask.get("size"):
        text = f'device.attributes["{DRIVER}"].size == "{ask["size"]}"'
        made["selectors"] = [{"cel": {"expression": text}}]
    if ask.get("amount"):
        made["capacity"] = {"requests": {"memory": ask["amount"]}}
    return made


def _slice(pool: str, where: Json, devices: list[Json], counter: int, count: int = 1) -> Json:
    spec: Json = {"driver": DRIVER, **where}
    spec["pool"] = {"name": pool, "generation": 1, "resourceSliceCount": count}
    if counter:
        spec["sharedCounters"] = [{"name": "card", "counters": {"units": {"value": str(counter)}}}]
    else:
        spec["devices"] = [_device(it) for it in devices]
    return _meta(f"{pool}-{'counters' if counter else 'devices'}", "") | {"spec": spec}


def _device(device: Json) -> Json:
    size, rail = {"string": device.get("size", "small")}, {"int": device.get("rail", 0)}
    made: Json = {"name": device["name"], "attributes": {"size": size, "rail": rail}}
    if device.get("uses"):
        units = {"units": {"value": str(device["uses"])}}
        made["consumesCounters"] = [{"counterSet": "card", "counters": units}]
    if device.get("shared"):
        made["allowMultipleAllocations"] = True
        policy = {"default": "1", "validRange": {"min": "1"}}
        made["capacity"] = {"memory": {"value": str(device["shared"]), "requestPolicy": policy}}
    if device.get("taint"):
        made["taints"] = [{"key": "bad", "effect": "NoSchedule"}]
    return made


def _volume(volume: Json, instance: Mapping[str, Any]) -> Json:
    size = f"{volume.get('size', 1)}Gi"
    spec: Json = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    spec["csi"] = {"driver": CSI, "volumeHandle": volume["name"]}
    phase = "Available"
    if volume.get("claim"):
        phase = "Bound"
        name, space = at(volume["claim"])
        ref = {"namespace": space, "name": name, "uid": f"uid-{volume['claim']}"}
        spec["claimRef"] = ref
        one_pod = any(
            it["name"] == volume["claim"] and it.get("one_pod") for it in instance.get("pvcs", ())
        )
        spec["accessModes"] = ["ReadWriteOncePod"] if one_pod else spec["accessModes"]
    else:
        spec["storageClassName"] = "hand"
        spec["accessModes"] = ["ReadWriteOnce", "ReadWriteOncePod"]
    if volume.get("zone"):
        term = {"key": "zone", "operator": "In", "values": [volume["zone"]]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    return _meta(volume["name"], "") | {"spec": spec, "status": {"phase": phase}}


def _pvc(claim: Json) -> Json:
    spec: Json = {"accessModes": ["ReadWriteOncePod" if claim.get("one_pod") else "ReadWriteOnce"]}
    spec["resources"] = {"requests": {"storage": f"{claim.get('size', 1)}Gi"}}
    spec["storageClassName"] = claim.get("kind", "")
    made = _meta(claim["name"])
    if claim.get("volume"):
        spec["volumeName"] = claim["volume"]
        made["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        spec["resources"]["requests"]["storage"] = "1Gi"
    phase = "Bound" if claim.get("volume") else "Pending"
    return made | {"spec": spec, "status": {"phase": phase}}


def _term(app: str, key: str) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def _meta(name: str, namespace: str = NAMESPACE) -> Json:
    short, of = at(name)
    meta: Json = {"name": short, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "1"}
    if namespace:
        meta["namespace"] = of
    return {"metadata": meta | {"creationTimestamp": _time(0)}}


def _time(age: int) -> str:
    return f"{BEGIN + timedelta(seconds=age):%FT%TZ}"
