"""Domains within domains: the topology keys that the map nests, and the domain of each node."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

import numpy as np

from scheduler.core.nodes.node_table import Ints
from scheduler.core.state.state import State
from scheduler.core.topology.topology import UNLABELLED, Domains

WELL_KNOWN: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
"""Keys that are shown if nodes differ in them, even if no group names them."""

HOSTNAME: Final = "kubernetes.io/hostname"
"""The key whose domains are the nodes themselves."""

MOST_LEVELS: Final = 4
"""Levels of the map. Further keys are not nested."""

MOST_DOMAINS: Final = 4096
"""Domains of a key. A key with more is not drawn as boxes: any user may name any key that nodes
have."""

_MOST: Final = float(1 << 62)
_NUMBERS: Final = re.compile(r"([0-9]+)")

ELSEWHERE: Final = "*"
"""The ID of the box for nodes that are in no domain. No escaped value contains this character."""


@dataclass(frozen=True, slots=True)
class Box:
    """A domain as it is drawn: `parent` and `children` are indices of boxes."""

    id: str
    key: str
    value: str
    level: int
    parent: int
    children: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MapLayout:
    """All boxes, the outermost first, then by value. `home` (N,) is each node's innermost box.

    `names` are the nodes by row, empty for unused rows. `parents` (boxes,) are indices, -1 for
    none; `levels` are the first box of each level and the one after its last.
    """

    keys: tuple[str, ...]
    boxes: tuple[Box, ...]
    home: Ints
    names: tuple[str, ...]
    parents: Ints
    levels: tuple[tuple[int, int], ...]

    def sums(self, amounts: Ints) -> Ints:
        """Return the sums (boxes,) of amounts (N,), including the boxes inside.

        The sums are floats: beyond 2**53, which is petabytes, they are rounded.
        """
        inside = self.home >= 0
        totals = np.bincount(self.home[inside], weights=amounts[inside], minlength=len(self.boxes))
        # The innermost level first: a box includes its children before its parent adds it.
        for start, end in reversed(self.levels):
            within = self.parents[start:end] >= 0
            np.add.at(totals, self.parents[start:end][within], totals[start:end][within])
        whole: Ints = np.clip(totals, 0, _MOST).astype(np.int64)
        return whole

    def same_places(self, other: MapLayout | None) -> bool:
        """Return true if every node has the same name and box in the other layout."""
        if other is None or self.names != other.names:
            return False
        ids = [box.id for box in self.boxes]
        return ids == [box.id for box in other.boxes] and bool((self.home == other.home).all())


def keys_of(state: State, used: Mapping[str, int], chosen: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the keys to nest, the outermost first: the one with the fewest domains.

    `chosen` are an administrator's own, in their order. Otherwise these are the keys that groups
    name (`used`), most used first, if nodes have them.
    """
    if chosen:
        return tuple(key for key in dict.fromkeys(chosen) if _domains(state, key))[:MOST_LEVELS]
    named = sorted((key for key in used if key), key=lambda key: (-used[key], key))
    found: dict[str, int] = {}
    for key in named:
        count = _domains(state, key)
        if key != HOSTNAME and 0 < count <= MOST_DOMAINS and len(found) < MOST_LEVELS:
            found[key] = count
    for key in WELL_KNOWN:
        count = _domains(state, key)
        if key not in found and 1 < count <= MOST_DOMAINS and len(found) < MOST_LEVELS:
            found[key] = count
    return tuple(sorted(found, key=lambda key: (found[key], key)))


def _domains(state: State, key: str) -> int:
    return len(state.topologies.of_groups(key).paths)


def layout(state: State, keys: tuple[str, ...]) -> MapLayout:
    """Return the boxes for these keys. Costs O(nodes)."""
    nodes = state.nodes
    levels = [state.topologies.of_groups(key, keys[:at]) for at, key in enumerate(keys)]
    names = tuple("" if info is None else info.name for info in nodes.infos)
    home = np.full(nodes.size, -1, np.int64)
    boxes: list[Box] = []
    spans: list[tuple[int, int]] = []
    for at, domains in enumerate(levels):
        there = domains.codes != UNLABELLED
        made = list(_level(at, domains, home, boxes))
        home[there] = domains.codes[there] + len(boxes)
        spans.append((len(boxes), len(boxes) + len(made)))
        boxes += made
    # Nodes without any of the keys get a box, too: the map must show all capacity.
    lost = [row for row, name in enumerate(names) if name and home[row] < 0]
    if lost:
        home[lost] = len(boxes)
        value = "other nodes" if boxes else "all nodes"
        boxes.append(Box(ELSEWHERE, "", value, level=-1, parent=-1))
    parents = np.array([box.parent for box in boxes], np.int64)
    return MapLayout(keys, _linked(boxes, home, names), home, names, parents, tuple(spans))


def _level(at: int, domains: Domains, parents: Ints, above: Sequence[Box]) -> Iterable[Box]:
    """Return the boxes of one level, by value; each domain lies in one outer domain or in none.

    A domain of nodes without the outer label is not inside another.
    """
    codes, first = np.unique(domains.codes, return_index=True)
    for code, row in zip(codes.tolist(), first.tolist(), strict=True):
        if code == UNLABELLED:
            continue
        value, parent = domains.values[code], int(parents[row])
        own = quote(value, safe="")
        if at > 0 and (parent < 0 or above[parent].level < at - 1):
            # A domain of the missing level may have an equal value: the key makes the ID unique.
            own = f"{quote(domains.key, safe='')}={own}"
        outer = f"{above[parent].id}/" if parent >= 0 else ""
        yield Box(outer + own, domains.key, value, at, parent)


def _linked(boxes: Sequence[Box], home: Ints, names: Sequence[str]) -> tuple[Box, ...]:
    children: list[list[int]] = [[] for _ in boxes]
    rows: list[list[int]] = [[] for _ in boxes]
    for index, box in enumerate(boxes):
        if box.parent >= 0:
            children[box.parent].append(index)
    for row, index in enumerate(home.tolist()):
        if index >= 0 and names[row]:
            rows[index].append(row)
    return tuple(
        replace(
            box,
            children=tuple(sorted(children[index], key=lambda at: _natural(boxes[at].value))),
            rows=tuple(sorted(rows[index], key=lambda row: _natural(names[row]))),
        )
        for index, box in enumerate(boxes)
    )


def _natural(text: str) -> list[str | int]:
    """Return a sort key by which `node-9` precedes `node-10`: every second part is a number."""
    parts: list[str | int] = list(_NUMBERS.split(text))
    parts[1::2] = [int(str(part)[:18]) for part in parts[1::2]]
    return parts
