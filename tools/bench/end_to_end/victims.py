"""Pods of the lowest priority that fill the nodes, and the pods that evict them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tools.bench.end_to_end.cases import ANCHOR_CPU, Case, Victims

Json = dict[str, Any]

URGENT: Final = "bench-urgent"
ANCHOR: Final = "bench-anchor"
GANG: Final = 10
"""Victims of one gang, and gangs of one composite group, in cases with gangs."""

_BESIDE: Final = {"app": "blue", "label1": "value1", "label2": "value2"}
_HOST: Final = "kubernetes.io/hostname"


def classes() -> list[Json]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in ((URGENT, 1_000), (ANCHOR, 10_000))
    ]


def pod(name: str, cpu: int, node: str = "") -> Json:
    """Return a pod that requests so many millicores; with a node it runs there."""
    requests = {"cpu": f"{cpu}m", "memory": "100Mi"}
    container = {
        "name": "main",
        "image": "registry.example/none:1",
        "resources": {"requests": requests},
    }
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


SMALL_CPU: Final = 100
"""Millicores of a pod that needs no eviction."""


def asking(victims: Victims, name: str) -> Json:
    """Return a pod of the case."""
    if victims.urgent:
        return pod(name, SMALL_CPU)
    made = preemptor(victims, name)
    if victims.volumes:
        made["spec"]["volumes"] = [
            {"name": "data", "persistentVolumeClaim": {"claimName": f"pvc-{name}"}}
        ]
    return made


def preemptor(victims: Victims, name: str) -> Json:
    """Return a pod that evicts others."""
    made = pod(name, victims.wanted)
    made["spec"]["priorityClassName"] = URGENT
    if victims.anchored:
        term = {"labelSelector": {"matchLabels": _BESIDE}, "topologyKey": _HOST}
        wanted = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        made["spec"]["affinity"] = {"podAffinity": wanted}
    return made


def anchors(case: Case) -> Iterator[Json]:
    """Yield one for each node, if the case has any."""
    if case.victims is None or not case.victims.anchored:
        return
    for index in range(case.nodes):
        made = pod(f"va{index}", ANCHOR_CPU, f"n{index}")
        made["metadata"]["labels"] = dict(_BESIDE)
        made["spec"]["priorityClassName"] = ANCHOR
        yield made


def names(case: Case) -> list[str]:
    """Return the names of all victims, those of one node consecutively."""
    if case.victims is None:
        return []
    count = case.nodes * case.victims.each
    return [f"v{index // GANG}-{index % GANG}" for index in range(count)]


def of(case: Case, name: str) -> Json:
    """Return the victim of this name, on its node."""
    victims = case.victims
    assert victims is not None
    gang, _, member = name[1:].partition("-")
    index = int(gang) * GANG + int(member)
    made = pod(name, victims.taken, f"n{index // victims.each}")
    if victims.anchored:
        made["metadata"]["labels"] = dict(_BESIDE)
    return made
