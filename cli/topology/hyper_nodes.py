"""Volcano's HyperNodes (`topology.volcano.sh/v1alpha1`) as labels of nodes.

A HyperNode is a domain with a tier, 1 for the narrowest, and its members are nodes, or HyperNodes
of narrower tiers. https://volcano.sh/en/docs/network_topology_aware_scheduling
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from api.names import hashed, is_label_value
from api.reading import dig, integer, labels_of, mapping, mappings, text, texts
from api.wording import count
from cli.topology.label_selectors import selects
from kube.base.errors import ConfigError
from kube.client.meta import Json
from kube.client.resources import Resource
from scheduler.cel.errors import EvaluationError
from scheduler.cel.patterns import Pattern

HYPER_NODES: Final = Resource(
    "topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", namespaced=False
)
PREFIX: Final = "topology.muster.dev/tier-"
"""The label of a tier is this and its number. No other label is written or removed."""
MOST_MATCHES: Final = 50_000_000
"""Nodes times members that are patterns or label selectors. More are rejected."""
_WIDEST: Final = 99
"""Tiers beyond this are a problem of the HyperNode; real networks have less than ten."""

Nodes = Mapping[str, Mapping[str, str]]
"""Node -> its labels."""


class HyperNode(NamedTuple):
    """One domain: its tier, and its members by type, `Node` and `HyperNode`."""

    name: str
    tier: int
    nodes: Sequence[Mapping[str, Any]]
    parts: Sequence[Mapping[str, Any]]


class Labels(NamedTuple):
    """Node -> its labels by key, and what is wrong with the HyperNodes, a sentence each."""

    wanted: Mapping[str, Mapping[str, str]]
    problems: Sequence[str]

    @property
    def keys(self) -> list[str]:
        """The keys, the widest tier first."""
        found = {key for labels in self.wanted.values() for key in labels}
        return sorted(found, key=tier_of, reverse=True)


def tier_of(key: str) -> int:
    """Return the tier of one of the keys."""
    return int(key.removeprefix(PREFIX))


def is_of_tier(key: str) -> bool:
    """Return True for the key of a tier."""
    return key.startswith(PREFIX) and key.removeprefix(PREFIX).isdecimal()


def labels_by(objects: Iterable[Json], nodes: Nodes) -> Labels:
    """Return the labels that these HyperNodes give to these nodes.

    A node that is in two HyperNodes of one tier gets no label of it. Raises ConfigError if that
    takes more than `MOST_MATCHES`.
    """
    problems: list[str] = []
    known = {one.name: one for one in _read(objects, problems)}
    _check_work(known.values(), len(nodes))
    members = _Members(known, nodes, problems)
    domains: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in sorted(known):
        for node in members.of(name):
            domains[node][f"{PREFIX}{known[name].tier}"].append(name)
    wanted: dict[str, dict[str, str]] = {}
    for node, found in sorted(domains.items()):
        wanted[node] = {key: _value(names[0]) for key, names in found.items() if len(names) == 1}
        problems += _twice(node, found)
    return Labels(wanted, problems)


def _twice(node: str, found: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for key, names in found.items():
        if len(names) > 1:
            yield (
                f"node {node} is in {count(len(names), 'HyperNode')} of tier {tier_of(key)},"
                f" {names[0]} and {names[1]}: it gets no label of that tier"
            )


def _value(name: str) -> str:
    # A name may be longer than a label.
    return name if is_label_value(name) else hashed(name, HYPER_NODES.kind, "")


def _read(objects: Iterable[Json], problems: list[str]) -> Iterator[HyperNode]:
    for obj in objects:
        name, tier = text(dig(obj, "metadata", "name")), integer(dig(obj, "spec", "tier"))
        if tier is None or not 1 <= tier <= _WIDEST:
            problems.append(f"HyperNode {name}: spec.tier is {tier}; it must be 1 to {_WIDEST}")
            continue
        members = mappings(dig(obj, "spec"), "members")
        by_type = {
            kind: [mapping(each.get("selector")) for each in members if each.get("type") == kind]
            for kind in ("Node", "HyperNode")
        }
        yield HyperNode(name, tier, by_type["Node"], by_type["HyperNode"])


def _check_work(known: Iterable[HyperNode], nodes: int) -> None:
    searching = sum(
        1 for one in known for each in one.nodes if not text(dig(each, "exactMatch", "name"))
    )
    if searching * nodes > MOST_MATCHES:
        raise ConfigError(
            f"{searching} members of HyperNodes are patterns or label selectors, and there are"
            f" {nodes} nodes: the limit is {MOST_MATCHES} comparisons. Name nodes by exactMatch"
        )


class _Members:
    """The nodes of each HyperNode, those of its parts included."""

    def __init__(self, known: Mapping[str, HyperNode], nodes: Nodes, problems: list[str]) -> None:
        self._known, self._nodes, self._problems = known, nodes, problems
        self._found: dict[str, frozenset[str]] = {}

    def of(self, name: str) -> frozenset[str]:
        """Return the nodes. A part of the same or a wider tier is a problem, and has no effect."""
        if (done := self._found.get(name)) is not None:
            return done
        one = self._known[name]
        found = {node for each in one.nodes for node in self._matching(each, self._nodes, name)}
        names = {part: {"name": part} for part in self._known}
        parts = {part for each in one.parts for part in self._matching(each, names, name)}
        for part in sorted(parts):
            # Tiers fall with each step, so there is no cycle, and the depth is bounded.
            if self._known[part].tier < one.tier:
                found |= self.of(part)
            else:
                self._problems.append(
                    f"HyperNode {name}: its member {part} has tier {self._known[part].tier}, not"
                    f" below {one.tier}"
                )
        self._found[name] = frozenset(found)
        return self._found[name]

    def _matching(self, selector: Mapping[str, Any], among: Nodes, name: str) -> Iterable[str]:
        if exact := text(dig(selector, "exactMatch", "name")):
            if exact not in among:
                self._problems.append(f"HyperNode {name}: its member {exact} does not exist")
            return [exact] if exact in among else []
        if pattern := text(dig(selector, "regexMatch", "pattern")):
            try:
                regex = Pattern(pattern).regex
            except EvaluationError as error:
                self._problems.append(f"HyperNode {name}: {error}")
                return []
            return [each for each in among if regex.search(each)]
        wanted = mapping(selector.get("labelMatch"))
        return [each for each, labels in among.items() if wanted and selects(wanted, labels)]


class Relevant:
    """The labels of nodes that HyperNodes select by, or that state a tier; others are not kept."""

    def __init__(self, objects: Iterable[Json]) -> None:
        members = [each for obj in objects for each in mappings(dig(obj, "spec"), "members")]
        selectors = [mapping(dig(each, "selector", "labelMatch")) for each in members]
        self._keys = {key for each in selectors for key in mapping(each.get("matchLabels"))} | {
            text(one.get("key")) for each in selectors for one in mappings(each, "matchExpressions")
        }

    def of(self, node: Json) -> tuple[str, dict[str, str]]:
        """Return the node's name, and these labels of it."""
        labels = texts(labels_of(node))
        kept = {key: labels[key] for key in labels if key in self._keys or is_of_tier(key)}
        return text(dig(node, "metadata", "name")), kept
