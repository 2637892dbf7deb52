"""The objects of the cases, for Kubernetes' groups and for Muster's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from api.constants import (
    COMPOSITE_POD_GROUP,
    LABEL_POD_GROUP,
    NATIVE_GROUP,
    POD_GROUP,
    SCHEDULER_NAME,
)
from tools.bench.end_to_end import claims, victims, workload_objects
from tools.bench.end_to_end.cases import Case
from tools.bench.end_to_end.victims import URGENT
from tools.bench.end_to_end.workloads import Workload

NAMESPACE = "bench"
RACK = "example.com/rack"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
# Capacity for many gangs, or for two pods if all nodes must be full.
CPU, FULL_CPU = 32, 2

Json = dict[str, Any]


def node(case: Case, index: int) -> Json:
    millicores = 1_000 * (FULL_CPU if case.preemption else CPU)
    if case.victims is not None:
        millicores = case.victims.cpu
    name = f"n{index}"
    labels = {"kubernetes.io/hostname": name}
    if case.racks:
        labels[RACK] = f"r{index % case.racks}"
    spec: Json = {}
    resources = {"cpu": f"{millicores}m", "memory": f"{millicores // 250}Gi", "pods": "110"}
    if case.workload is not None:
        own = workload_objects.node(case.workload, index)
        name, labels, resources = own["name"], own["labels"], own["resources"]
        spec = own["spec"]
    return workload_objects.ready_node(name, labels, resources, spec)


def namespaces(case: Case) -> list[Json]:
    """Return the namespaces, that of the case's pods first."""
    if case.workload is not None:
        return workload_objects.namespaces(case.workload, NAMESPACE)
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]


def binding(pod: str, node_name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
    }


def _pod(name: str, urgent_pod: bool, node_name: str | None) -> Json:
    container = {
        "name": "main",
        "image": "registry.example/none:1",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if urgent_pod:
        spec["priorityClassName"] = URGENT
    if node_name:
        spec["nodeName"] = node_name
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _group(version: str, name: str, case: Case, *, lower: bool) -> Json:
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": case.size}}}
    if case.racks:
        spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    if case.preemption:
        spec["disruptionMode"] = {"all": {}}
    if case.evicts and not lower:
        spec["priorityClassName"] = URGENT
    if case.composite:
        spec["parentCompositePodGroupName"] = _root(name, case.composite)
        spec["workloadRef"] = _reference("worker")
    return {"apiVersion": version, "kind": POD_GROUP.kind, "metadata": {"name": name}, "spec": spec}


def _root(gang: str, size: int) -> str:
    """Return the composite group of a gang: `size` consecutive gangs share one."""
    return f"{gang[0]}r{int(gang[1:]) // size}"


def _reference(template: str) -> Json:
    """Return the workload reference of a group in a tree; the workload need not exist."""
    return {"workloadName": "by-hand", "templateName": template}


@dataclass(frozen=True, slots=True)
class Flavour:
    """The form of a scheduler's pods and groups: the API of these, and the name that pods give.

    Without a `scheduler` the pods name none, and are kube-scheduler's.
    """

    version: str
    scheduler: str = ""

    @property
    def native(self) -> bool:
        return self.version.startswith(f"{NATIVE_GROUP}/")

    @property
    def groups_path(self) -> str:
        return f"/apis/{self.version}/namespaces/{NAMESPACE}/podgroups"

    @property
    def composites_path(self) -> str:
        return f"/apis/{self.version}/namespaces/{NAMESPACE}/compositepodgroups"

    def pod(self, case: Case, gang: str | None, name: str, node_name: str | None = None) -> Json:
        """Return a pod; with `node_name` it runs already, and has a low priority."""
        if case.victims is not None:
            made = victims.asking(case.victims, name)
        elif case.workload is not None:
            made = workload_objects.pod(case.workload.content, name, NAMESPACE)
        else:
            made = _pod(name, case.preemption and node_name is None, node_name)
        self.ours(made)
        if case.claims is not None:
            spec = made["spec"]
            spec["resourceClaims"] = [claims.entry(case.claims, name)]
            spec["containers"][0]["resources"]["claims"] = [{"name": claims.ENTRY}]
        if gang:
            self._join(made, gang)
        return made

    def group(self, case: Case, name: str, *, lower: bool = False) -> Json:
        return _group(self.version, name, case, lower=lower)

    def composite(self, case: Case, gangs: list[str], *, lower: bool = False) -> Json:
        """Return the composite gang of these gangs."""
        policy = {"gang": {"minGroupCount": len(gangs)}}
        spec: Json = {"schedulingPolicy": policy, "workloadRef": _reference("tree")}
        if case.evicts and not lower:
            spec["priorityClassName"] = URGENT
        return {
            "apiVersion": self.version,
            "kind": COMPOSITE_POD_GROUP.kind,
            "metadata": {"name": _root(gangs[0], case.composite)},
            "spec": spec,
        }

    def waiting(self, case: Case) -> Iterator[tuple[str | None, list[Json]]]:
        """Yield each gang with its pods; plain pods are one lot, or one for each stage."""
        if case.workload is not None and case.workload.stages:
            for lot in workload_objects.staged(case.workload, case.size, NAMESPACE):
                yield None, [self.ours(made) for made in lot]
            return
        if not case.gangs:
            yield None, [self.pod(case, None, f"p-{index}") for index in range(case.size)]
        for number in range(case.gangs):
            gang = f"g{number}"
            yield gang, [self.pod(case, gang, f"{gang}-{index}") for index in range(case.size)]

    def victims(self, case: Case) -> Iterator[Json]:
        """Yield the pods that are evicted one by one."""
        for name in victims.names(case):
            made = victims.of(case, name)
            assert case.victims is not None
            if case.victims.composite:
                self._join(self.ours(made), name.partition("-")[0])
            yield made

    def blocked(self, workload: Workload) -> list[Json]:
        """Return the pods that must not be bound."""
        return [self.ours(made) for made in workload_objects.blocked(workload, NAMESPACE)]

    def ours(self, pod: Json) -> Json:
        """Return this pod, to be scheduled by this scheduler."""
        if self.scheduler:
            pod["spec"]["schedulerName"] = self.scheduler
        return pod

    def _join(self, pod: Json, gang: str) -> None:
        if self.native:
            pod["spec"]["schedulingGroup"] = {"podGroupName": gang}
        else:
            pod["metadata"]["labels"] = {LABEL_POD_GROUP: gang}

    def group_of(self, pod: Json) -> str | None:
        """Return the group of a pod."""
        if self.native:
            name: str | None = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
        else:
            name = (pod["metadata"].get("labels") or {}).get(LABEL_POD_GROUP)
        return name

    def running(self, case: Case) -> Iterator[tuple[str, list[Json]]]:
        """Yield the lower gangs that fill every node."""
        for number in range(case.nodes * FULL_CPU // case.size):
            gang = f"v{number}"
            first = number * case.size
            yield (
                gang,
                [
                    self.pod(case, gang, f"{gang}-{i}", f"n{(first + i) // FULL_CPU}")
                    for i in range(case.size)
                ],
            )


_NATIVE_VERSION = f"{NATIVE_GROUP}/v1alpha3"
"""The version that has CompositePodGroups."""

NATIVE = Flavour(_NATIVE_VERSION)
NATIVE_OF_MUSTER = Flavour(_NATIVE_VERSION, SCHEDULER_NAME)
OURS = Flavour(POD_GROUP.api_version, SCHEDULER_NAME)
