"""The topology levels that the nodes' labels describe, by who writes them, and what is missing.

Pages of the vendors name the labels; docs/topology.md lists the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from api.reading import dig, labels_of, mappings, text, texts
from api.wording import count
from cli.doctor.findings import About, Check, Finding, Limited
from kube.client.meta import Json
from kube.client.resources import Resource

CHECK: Final = "topology"


class Source(NamedTuple):
    """Who writes topology labels, and their keys, the widest level first."""

    name: str
    keys: tuple[str, ...]


SOURCES: Final = (
    Source("Kubernetes", ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")),
    Source(
        "GKE",
        (
            "cloud.google.com/gce-topology-block",
            "cloud.google.com/gce-topology-subblock",
            "cloud.google.com/gce-topology-host",
        ),
    ),
    Source(
        "EKS",
        (
            "topology.k8s.aws/network-node-layer-1",
            "topology.k8s.aws/network-node-layer-2",
            "topology.k8s.aws/network-node-layer-3",
        ),
    ),
    Source("EKS UltraServers", ("topology.k8s.aws/ultraserver-id",)),
    Source(
        "OKE",
        (
            "oci.oraclecloud.com/rdma.hpc_island_id",
            "oci.oraclecloud.com/rdma.network_block_id",
            "oci.oraclecloud.com/rdma.local_block_id",
        ),
    ),
    Source(
        "CoreWeave",
        (
            "backend.coreweave.cloud/fabric",
            "backend.coreweave.cloud/superpod",
            "backend.coreweave.cloud/leafgroup",
        ),
    ),
    Source("CoreWeave NVLink", ("ds.coreweave.com/nvlink.domain",)),
    Source("NVIDIA GPU operator", ("nvidia.com/gpu.clique",)),
    Source(
        "NVIDIA Topograph",
        (
            "network.topology.nvidia.com/core",
            "network.topology.nvidia.com/spine",
            "network.topology.nvidia.com/leaf",
        ),
    ),
    Source("NVIDIA Topograph, NVLink", ("network.topology.nvidia.com/accelerator",)),
    Source(
        "Topograph 1",
        (
            "fabric.topograph.run/tier-3",
            "fabric.topograph.run/tier-2",
            "fabric.topograph.run/tier-1",
            "fabric.topograph.run/tier-0",
        ),
    ),
    Source(
        "Topograph 1, NVLink",
        ("accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain"),
    ),
)
"""Known writers of topology labels. A cluster may have several of them."""

TOPOLOGIES: Final = Resource(
    "kueue.x-k8s.io", "v1beta2", "topologies", "Topology", namespaced=False
)
"""Kueue's kind, whose levels are labels of nodes."""
HOSTNAME: Final = "kubernetes.io/hostname"
"""The narrowest level of many Topologies: every node is a domain of its own."""
_DEEPEST: Final = 16
"""Levels of a Topology, as in Kueue's definition."""


@dataclass(slots=True)
class _Levels:
    """The labels of one source on the nodes that have any of them."""

    keys: tuple[str, ...]
    nodes: dict[tuple[str, ...], tuple[int, str]] = field(default_factory=dict)
    """By the keys that a node has: the number of such nodes, and the first of them."""
    domains: dict[str, set[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(set))
    above: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """By key and value, the key and value of the next wider level of the first such node."""

    @property
    def used(self) -> list[str]:
        """The levels that any node has, the widest first."""
        return [key for key in self.keys if key in self.domains]


def sources_of(topologies: Iterable[Json]) -> Iterator[Source]:
    """Yield a source for each Topology of Kueue whose levels are not those of a known one."""
    known = {source.keys for source in SOURCES}
    for obj in topologies:
        levels = mappings(dig(obj, "spec"), "levels")
        named = (text(each.get("nodeLabel")) for each in levels)
        keys = tuple(key for key in named if key and key != HOSTNAME)
        if keys and keys not in known and len(keys) <= _DEEPEST:
            known.add(keys)
            yield Source(f"Kueue's Topology {About.of('Topology', obj).name}", keys)


class TopologyLevels:
    """A summary of the topology labels of all nodes, collected while they are read."""

    def __init__(self, more: Iterable[Source] = ()) -> None:
        self.nodes = 0
        self._sources = (*SOURCES, *more)
        self._found = {source.name: _Levels(source.keys) for source in self._sources}
        self._apart = Limited(CHECK)

    def see(self, node: Json) -> None:
        """Add the labels of one node."""
        self.nodes += 1
        labels = texts(labels_of(node))
        for source in self._sources:
            here = tuple(key for key in source.keys if labels.get(key))
            if here:
                self._add(source, here, labels, About.of("Node", node).name)

    def _add(
        self, source: Source, here: tuple[str, ...], labels: Mapping[str, str], node: str
    ) -> None:
        levels = self._found[source.name]
        number, first = levels.nodes.get(here, (0, node))
        levels.nodes[here] = (number + 1, first)
        for at, key in enumerate(here):
            levels.domains[key].add(tuple(labels[each] for each in here[: at + 1]))
        for wide, narrow in pairwise(here):
            known = levels.above.setdefault((narrow, labels[narrow]), {}).setdefault(
                wide, labels[wide]
            )
            if known != labels[wide]:
                self._apart.add(
                    Check(CHECK, About("Node", node)).info(
                        f"{narrow}={labels[narrow]} is in {wide}={known} and in"
                        f" {wide}={labels[wide]}: a group whose topology is {narrow} may be spread"
                        " over both",
                        f"correct the label, or give the group the topology {wide}, too",
                    )
                )

    def findings(self) -> Iterator[Finding]:
        """Yield the levels that there are, and the nodes that lack some of them."""
        for name, levels in self._found.items():
            if not levels.nodes:
                continue
            shown = ", ".join(
                f"{key} ({count(len(levels.domains[key]), 'domain')})" for key in levels.used
            )
            yield Check(CHECK, About("Cluster", "all")).info(
                f"topology by labels of {name}, on {sum(n for n, _ in levels.nodes.values())} of"
                f" {count(self.nodes, 'node')}, the widest level first: {shown}"
            )
            yield from _incomplete(name, levels)
        yield from self._apart.findings()


def _incomplete(name: str, levels: _Levels) -> Iterator[Finding]:
    """Yield the nodes that lack a level which others have."""
    used = levels.used
    for here, (number, first) in levels.nodes.items():
        missing = [key for key in used if key not in here]
        if not missing:
            continue
        which = f"{first} and {number - 1} more" if number > 1 else first
        check = Check(CHECK, About("Node", first))
        # Instance types of one cloud may have fewer levels, but none has a gap in the middle.
        first_key, last_key = used.index(here[0]), used.index(here[-1])
        gap = any(key in missing for key in used[first_key:last_key])
        yield (check.warning if gap else check.info)(
            f"{count(number, 'node')} ({which}) with labels of {name}"
            f" {'lacks' if number == 1 else 'lack'} {' and '.join(missing)}: groups that"
            " require that topology are never placed there",
            "find out why the label is missing, or label the nodes",
        )
