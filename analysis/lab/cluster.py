"""The simulated cluster: node pools from a small YAML file, or the nodes of a snapshot.

pools:
  - name: gpu
    count: 64
    resources: {cpu: "96", memory: 768Gi, nvidia.com/gpu: "8"}
    domains: {example.com/block: 32, example.com/rack: 8}   # nodes in each domain of the key
    labels: {pool: gpu}
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import msgspec
import yaml
from msgspec import Meta

from analysis.lab.errors import LabError, input_of
from scheduler.core.values.model import NodeInfo
from scheduler.decoding.requests import amount
from scheduler.snapshot.snapshot import Snapshot

MOST_NODES: Final = 100_000
"""Nodes of a cluster in the lab. A file with more is an error."""

HOSTNAME: Final = "kubernetes.io/hostname"
_PODS: Final = 110
"""Pods that a node accepts if its pool does not state a number."""

_Count = Annotated[int, Meta(ge=1, le=MOST_NODES)]


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Equal nodes; `domains` maps a topology key to the number of nodes in each domain."""

    name: str
    count: _Count
    resources: dict[str, str | int]
    domains: dict[str, _Count] = {}
    labels: dict[str, str] = {}


class ClusterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file."""

    pools: Annotated[list[Pool], Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes that are simulated."""

    pools: tuple[Pool, ...] = ()
    others: tuple[NodeInfo, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The topology keys of the pools, sorted; none for the nodes of a snapshot."""
        return tuple(sorted({key for pool in self.pools for key in pool.domains}))

    def nodes(self) -> list[NodeInfo]:
        """Return all nodes, in the order of their rows. Raises LabError for an invalid quantity."""
        return [*self.others, *(node for pool in self.pools for node in nodes_of(pool))]

    def more(self, count: int) -> Cluster:
        """Return a cluster with `count` more nodes: the last pool grows.

        It grows by complete domains if `count` fills them. Without pools the last nodes are copied,
        and the copies join their domains.
        """
        if self.pools:
            last = self.pools[-1]
            grown = msgspec.structs.replace(last, count=last.count + count)
            return replace(self, pools=(*self.pools[:-1], grown))
        sources = [self.others[-1 - index % len(self.others)] for index in range(count)]
        copies = tuple(_copy(node, index) for index, node in enumerate(sources))
        return replace(self, others=(*self.others, *copies))


def read_cluster(file: Path) -> Cluster:
    """Read the cluster of the file. Raises LabError, which names the field."""
    with input_of(str(file)):
        written = msgspec.convert(yaml.safe_load(file.read_text("utf-8")), ClusterFile)
    names = [pool.name for pool in written.pools]
    if len(set(names)) != len(names):
        raise LabError(f"{file}: two pools have the same name: use unique names")
    if sum(pool.count for pool in written.pools) > MOST_NODES:
        raise LabError(f"{file}: must have at most {MOST_NODES} nodes")
    cluster = Cluster(tuple(written.pools))
    # Quantities are checked here, where an error can name the file.
    try:
        cluster.nodes()
    except LabError as error:
        raise LabError(f"{file}: {error}") from error
    return cluster


def cluster_of_snapshot(snapshot: Snapshot) -> Cluster:
    """Return the nodes of a real cluster, empty: its pods are not part of a trace."""
    return Cluster(others=tuple(node for node in snapshot.nodes if node is not None))


def nodes_of(pool: Pool) -> list[NodeInfo]:
    """Return the nodes of one pool. Raises LabError for an invalid quantity."""
    allocatable = {"pods": _PODS}
    for resource, quantity in pool.resources.items():
        with input_of(f"pool {pool.name}: {resource}"):
            allocatable[resource] = amount(resource, quantity)
    return [_node(pool, index, allocatable) for index in range(pool.count)]


def _node(pool: Pool, index: int, allocatable: dict[str, int]) -> NodeInfo:
    name = f"{pool.name}-{index:05}"
    domains = {key: f"{pool.name}-{index // size:04}" for key, size in pool.domains.items()}
    return NodeInfo(name, allocatable, pool.labels | domains | {HOSTNAME: name})


def _copy(node: NodeInfo, index: int) -> NodeInfo:
    name = f"{node.name}-more-{index}"
    return replace(node, name=name, labels={**node.labels, HOSTNAME: name})
