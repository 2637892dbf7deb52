"""Objects of a workload that are created before it begins, and the check of its pods at the end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from tools.bench.end_to_end import constraints, workload_objects, workload_volumes
from tools.bench.end_to_end.cases import Case
from tools.bench.end_to_end.objects import NAMESPACE, PODS, Flavour, Json
from tools.bench.end_to_end.stage_changes import GIVEN
from tools.bench.end_to_end.wire import Wire, request
from tools.bench.end_to_end.workloads import Content, Workload

_CLAIMS = "/api/v1/namespaces/{}/persistentvolumeclaims"
_SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
_VOLUMES = "/api/v1/persistentvolumes"
_CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"


async def create(wire: Wire, case: Case, flavour: Flavour) -> None:
    """Create pods that run or are blocked, and the case's volumes. Raises WireError."""
    workload = case.workload
    if workload is None:
        return
    there = workload_objects.running(workload, NAMESPACE, case.nodes)
    await wire.send(
        request(wire.access, "POST", f"/api/v1/namespaces/{space}/pods", pod)
        for space, pod in there
    )
    await wire.post(PODS, flavour.blocked(workload))
    if workload.filled:
        await _give(wire, workload_volumes.of_stages(workload, case.nodes, case.size, NAMESPACE))
        await _csi_nodes(wire, case, workload)
        await wire.post(PODS, workload_objects.blockers(case.nodes, NAMESPACE))
    if workload.content == "served":
        await wire.post(_SERVICES, [workload_objects.service("all")])
    if workload.blocks == "finalizer":
        await _delete(wire, workload)
    if workload.content.endswith("-volume"):
        await _volumes(wire, case, workload)


async def _delete(wire: Wire, workload: Workload) -> None:
    """Delete the pods, which their finalizer keeps."""
    names = [f"v-{index}" for index in range(workload.blocked)]
    await wire.send(request(wire.access, "DELETE", f"{PODS}/{name}") for name in names)


async def give_volumes(wire: Wire, case: Case, content: Content) -> None:
    """Create a volume and a claim, bound to each other, for each pod. Raises WireError."""
    names = [f"p-{index}" for index in range(case.size)]
    await _give(wire, (workload_volumes.volume(content, name, NAMESPACE) for name in names))


async def _give(wire: Wire, both: Iterable[tuple[Json, Json]]) -> None:
    made = list(both)
    await wire.post(_CLAIMS.format(NAMESPACE), [claim for _, claim in made])
    await wire.post(_VOLUMES, [volume for volume, _ in made])


async def _volumes(wire: Wire, case: Case, workload: Workload) -> None:
    await give_volumes(wire, case, workload.content)
    if workload.content in ("csi-volume", "migrated-volume"):
        await _csi_nodes(wire, case, workload)


async def _csi_nodes(wire: Wire, case: Case, workload: Workload) -> None:
    nodes = [workload_objects.node(workload, index)["name"] for index in range(case.nodes)]
    count = workload_volumes.attachable(workload)
    made = [workload_volumes.csi_node(name, workload.content, count) for name in nodes]
    await wire.post(_CSI_NODES, made)


async def complaints(
    wire: Wire, case: Case, flavour: Flavour, came: Sequence[Json] = ()
) -> list[str]:
    """Return the faults of where the pods are. Raises WireError.

    `came` are nodes that came while pods were scheduled: those may be deleted with pods on them.
    """
    nodes = await _items(wire, "/api/v1/nodes")
    there = {node["metadata"]["name"] for node in nodes}
    found = constraints.Outcome(
        pods=await _items(wire, "/api/v1/pods"),
        nodes=nodes + [node for node in came if node["metadata"]["name"] not in there],
        namespaces=await _items(wire, "/api/v1/namespaces"),
        groups=await _items(wire, flavour.groups_path) if case.gangs else [],
        csi_nodes=await _items(wire, _CSI_NODES),
        volumes=await _items(wire, _VOLUMES),
        claims=await _items(wire, _CLAIMS.format(NAMESPACE)),
    )
    wrong = constraints.complaints(found, flavour.group_of)
    return wrong + unexpected(case, found.pods)


def unexpected(case: Case, pods: list[Json]) -> list[str]:
    """Return the pods that are bound and must not be, and the number of missing ones."""
    if case.workload is None:
        return []
    own = [pod for pod in pods if pod["metadata"].get("namespace") == NAMESPACE]
    names = {pod["metadata"]["name"] for pod in own if pod["spec"].get("nodeName")}
    names = {name for name in names if not name.startswith(GIVEN)}
    waiting = case.size - len([name for name in names if name[0] != "v"])
    return [
        *(f"{name} is bound, and cannot be" for name in sorted(names) if name[0] == "v"),
        *([f"{waiting} pods that fit are not bound"] if waiting else []),
    ]


async def _items(wire: Wire, path: str) -> list[Json]:
    found: list[Json] = json.loads(await wire.get(path))["items"]
    return found
