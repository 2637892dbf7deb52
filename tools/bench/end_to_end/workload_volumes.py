"""The volumes of the workloads from scheduler_perf, bound to their claims beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tools.bench.end_to_end.workload_objects import BLOCKERS, ONCE
from tools.bench.end_to_end.workloads import Content, Workload

Json = dict[str, Any]

DRIVER: Final = "ebs.csi.aws.com"
ATTACHABLE: Final = 39
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_IN_TREE: Final = ("in-tree-volume", "migrated-volume")


def volume(content: Content, name: str, own: str) -> tuple[Json, Json]:
    """Return the PersistentVolume of a pod and its claim, bound to each other."""
    source: Json = {"csi": {"driver": DRIVER, "volumeHandle": f"vol-{name}"}}
    if content in _IN_TREE:
        source = {"awsElasticBlockStore": {"volumeID": f"vol-{name}"}}
    modes = ["ReadWriteOncePod" if content == "once-blocker" else "ReadOnlyMany"]
    reference = {"kind": "PersistentVolumeClaim", "namespace": own, "name": f"pvc-{name}"}
    made = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{name}"},
        "spec": {
            "accessModes": modes,
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": reference,
            **source,
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"pvc-{name}",
            "annotations": {"pv.kubernetes.io/bind-completed": "true"},
        },
        "spec": {
            "accessModes": modes,
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": f"pv-{name}",
        },
    }
    return made, claim


def csi_node(name: str, content: Content = "csi-volume", count: int = ATTACHABLE) -> Json:
    """Return the CSINode with the number of volumes that a node can attach."""
    notes = {MIGRATED: "kubernetes.io/aws-ebs"} if content == "migrated-volume" else {}
    driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": count}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "annotations": notes},
        "spec": {"drivers": [driver]},
    }


def attachable(workload: Workload) -> int:
    """Return the number of attachable volumes of a node: that of the blockers if these fill it."""
    return 2 * BLOCKERS if workload.filled else ATTACHABLE


def of_stages(workload: Workload, nodes: int, pods: int, own: str) -> Iterator[tuple[Json, Json]]:
    """Yield the volumes of blockers and of pods that wait for a detachment, with claims.

    The pods' names are those of `workload_objects.staged`.
    """
    for index in range(nodes * BLOCKERS):
        yield volume("blocker", f"v-{index}", own)
        yield volume("once-blocker", f"{ONCE}-{index}", own)
    kinds = [kind for stage in workload.stages for kind in stage.pods]
    each = pods // workload.staged
    first = kinds.index("limit-blocked") * each
    for number in range(first, first + each):
        yield volume("limit-blocked", f"p-{number}", own)
