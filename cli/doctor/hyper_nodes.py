"""Volcano's HyperNodes: whether the labels of the nodes say the same, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from api.wording import count
from cli.doctor.findings import About, Check, Finding, Limited
from cli.doctor.topology_levels import CHECK
from cli.topology import hyper_nodes
from cli.topology.label_nodes import changes
from kube.base.errors import ConfigError
from kube.client.meta import Json

_WRITE = "run muster label-nodes, and with --apply if its list is right"


class Tiers:
    """The labels of nodes beside those that HyperNodes ask for."""

    def __init__(self, objects: Sequence[Json]) -> None:
        self._objects = objects
        self._relevant = hyper_nodes.Relevant(objects)
        self._nodes: dict[str, dict[str, str]] = {}

    def see(self, node: Json) -> None:
        """Keep what HyperNodes need of one node, if there are any."""
        if self._objects:
            self._nodes.update([self._relevant.of(node)])

    def findings(self) -> Iterator[Finding]:
        """Yield the tiers, the nodes whose labels differ, and problems of HyperNodes."""
        if not self._objects:
            return
        all_of_them = Check(CHECK, About("HyperNode", "all"))
        try:
            labels = hyper_nodes.labels_by(self._objects, self._nodes)
        except ConfigError as error:
            yield all_of_them.warning(str(error), "see docs/topology.md")
            return
        problems = Limited(CHECK)
        for problem in labels.problems:
            problems.add(all_of_them.warning(problem, "correct the HyperNode"))
        yield from problems.findings()
        keys = ", ".join(labels.keys) or "none"
        tiers = f"topology by {count(len(self._objects), 'HyperNode')}, the widest tier first:"
        differ = {change.node for change in changes(labels, self._nodes)}
        if differ:
            yield all_of_them.warning(
                f"{tiers} {keys}. Muster reads labels of nodes, and those of"
                f" {count(len(differ), 'node')} ({min(differ)}) differ",
                _WRITE,
            )
        else:
            yield all_of_them.info(f"{tiers} {keys}, as the labels of the nodes")
