"""Topology domains: the nodes that share the value of a topology key.

For pods, a key is a node label. For groups, it is a node label or an attribute of the nodes'
devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.core.devices.table import DeviceTable
from scheduler.core.nodes.node_labels import LabelColumn
from scheduler.core.nodes.node_table import Bools, Floats, Ints, NodeTable, Region

UNLABELLED = -1

_KEPT: Final = 256
"""Limit of cached entries; the oldest is dropped first."""

_MOST = float(1 << 62)
"""Limit of sums, which are cut off here because larger ones would not fit into an int64."""


@dataclass(frozen=True, slots=True)
class Domains:
    """All D domains of one topology key: `codes` (N,) is each node's domain, -1 without the label.

    `values` (D,) are the label values, indexed by code. Inside different outer domains, equal
    values are different domains; `paths` (D,) join all values with `/`, the outermost first.
    `mixed` is the number of nodes whose devices have several values of a key; they are in no
    domain.
    """

    key: str
    codes: npt.NDArray[np.int64]
    values: tuple[str, ...]
    paths: tuple[str, ...]
    mixed: int = 0

    def sums(self, amounts: Ints | Floats, region: Ints | None) -> Ints:
        """Return the sums (D,) of amounts (len(region),), or (N,) if the region is None."""
        codes = self.codes if region is None else self.codes[region]
        # Index 0 is for nodes without the label.
        totals = np.bincount(codes + 1, weights=amounts, minlength=len(self.values) + 1)
        sums: Ints = np.clip(totals[1:], -_MOST, _MOST).astype(np.int64)
        return sums

    def rows(self, code: int, region: Region | None) -> Region:
        """Return the rows of the domain's nodes, only those in the region unless that is None."""
        if region is None:
            return Region(np.flatnonzero(self.codes == code))
        return Region(region[self.codes[region] == code])

    def union(self, codes: Sequence[int], region: Region | None) -> Region:
        """Return the rows of several domains together, as `rows` does."""
        # One mask instead of joined lists: the rows of a region must ascend.
        chosen = np.zeros(len(self.values) + 1, np.bool_)  # the last is for UNLABELLED
        chosen[list(codes)] = True
        if region is None:
            return Region(np.flatnonzero(chosen[self.codes]))
        return Region(region[chosen[self.codes[region]]])

    def of(self, rows: list[int]) -> set[int]:
        """Return the codes of these nodes' domains, including UNLABELLED for nodes without one."""
        return {int(self.codes[row]) for row in rows}


class Topologies:
    """Domains by topology key, cached until a node, a label or an attribute changes.

    Pods and groups may name any keys: the cache is bounded, and a key that no node has costs
    nothing per node.
    """

    def __init__(self, nodes: NodeTable, devices: DeviceTable) -> None:
        self._nodes = nodes
        self._devices = devices
        self._generation = -1
        self._known: dict[tuple[str, ...], Domains] = {}
        self._attributes_version = -1
        self._of_groups: dict[tuple[str, ...], Domains] = {}
        self._unlabelled = np.zeros(0, np.int64)

    def __len__(self) -> int:
        """Return the number of cached entries."""
        return len(self._known) + len(self._of_groups)

    @property
    def version(self) -> tuple[int, int]:
        """Version that changes with any domain in use."""
        return (self._nodes.generation, self._devices.attributes_version)

    def domains(self, key: str, outer: tuple[str, ...] = ()) -> Domains:
        """Return the domains of the label `key` inside those of the labels `outer`.

        `outer` has the outermost label first.

        These are the domains of pods' terms: as in kube-scheduler, only labels count.
        """
        self._refresh()
        # Pods may name any key: without an entry in the cache, such keys cannot displace others.
        if self._nodes.labels.column(key) is None:
            return Domains(key, self._unlabelled, (), ())
        return _cached(self._known, (*outer, key), self._labels)

    def build(self, key: str) -> Iterator[None]:
        """Build the domains of the label `key` in steps: the first time, all nodes are read."""
        self._nodes.labels.column(key)
        yield
        self.domains(key)
        yield

    def of_groups(self, key: str, outer: tuple[str, ...] = ()) -> Domains:
        """Return the domains of keys that groups name: labels, or attributes of the nodes' devices.

        A node's label has precedence. Without it, the node has the value that its devices agree on.
        """
        devices, keys = self._devices, (*outer, key)
        # Labels alone decide: share the cached domains with pods.
        if not any(map(devices.attribute, keys)):
            return self.domains(key, outer)
        self._refresh()
        if self._attributes_version != devices.attributes_version:
            self._of_groups.clear()
            self._attributes_version = devices.attributes_version
        return _cached(self._of_groups, keys, self._labels_and_attributes)

    def _refresh(self) -> None:
        if self._generation != self._nodes.generation:
            self._known.clear()
            self._of_groups.clear()
            self._generation = self._nodes.generation
            self._unlabelled = np.full(self._nodes.size, UNLABELLED, np.int64)

    def _labels(self, keys: tuple[str, ...]) -> Domains:
        return _build(keys, [_Values.of(self._nodes, [self._label(key)]) for key in keys])

    def _labels_and_attributes(self, keys: tuple[str, ...]) -> Domains:
        """Build domains in which a node whose devices have several values has none."""
        values = []
        mixed: set[int] = set()
        for key in keys:
            label, attribute = self._label(key), self._devices.attribute(key)
            column = attribute.column if attribute else None
            values.append(_Values.of(self._nodes, [label, column]))
            for row in attribute.mixed if attribute else ():
                # For each node alone: a kubelet's own label must not change others' domains.
                if label is None or label.codes[row] < 0:
                    mixed.add(row)
        return replace(_build(keys, values), mixed=len(mixed))

    def _label(self, key: str) -> LabelColumn | None:
        return self._nodes.labels.column(key)


def _cached(
    known: dict[tuple[str, ...], Domains],
    keys: tuple[str, ...],
    build: Callable[[tuple[str, ...]], Domains],
) -> Domains:
    domains = known.get(keys)
    if domains is None:
        if len(known) == _KEPT:
            del known[next(iter(known))]
        domains = known[keys] = build(keys)
    return domains


@dataclass(frozen=True, slots=True)
class _Values:
    """Values of one key: `ranks` (N,) are indices into `texts`, `there` (N,) nodes with one."""

    texts: list[str]
    ranks: Ints
    there: Bools

    @classmethod
    def of(cls, nodes: NodeTable, columns: Iterable[LabelColumn | None]) -> _Values:
        """Return the values of the first column that has one for each node, else an empty value."""
        given = [column for column in columns if column is not None]
        if len(given) == 1 and len(given[0]):
            return cls._of_one(given[0], nodes.size)
        # Sorted, so that codes ascend with the values: the order of domains must not depend on the
        # order in which labels were seen.
        texts = sorted({"", *(value or "" for column in given for value in column.values)})
        place = {text: number for number, text in enumerate(texts)}
        ranks = np.zeros(nodes.size, np.int64)
        there = np.zeros(nodes.size, np.bool_)
        # In reverse, so that the first column overwrites the others.
        for column in reversed(given):
            codes = column.codes[: nodes.size]
            numbers = np.array([*(place[value or ""] for value in column.values), 0], np.int64)
            ranks = np.where(codes >= 0, numbers[codes], ranks)
            there |= codes >= 0
        return cls(texts, ranks, there)

    @classmethod
    def _of_one(cls, column: LabelColumn, size: int) -> _Values:
        """Return the same for one column, by the order of its values, which it keeps."""
        texts, places = column.ordered
        codes = column.codes[:size]
        there = codes >= 0
        # A missing value counts as empty, whether a node has the empty value or not.
        names = texts if texts[0] == "" else ["", *texts]
        ranks = np.where(there, places[codes] + (len(names) - len(texts)), 0)
        return cls(names, ranks, there)


def _build(keys: tuple[str, ...], values: list[_Values]) -> Domains:
    """Build domains from the values of all keys, outermost first.

    A node needs only the innermost value; a missing outer one counts as empty.
    """
    there = values[-1].there
    # Only nodes with the innermost value are in a domain: the others need no number.
    inside = np.flatnonzero(there)
    combined = np.zeros(len(inside), np.int64)
    first = combined
    for each in values:
        ranks = each.ranks[inside]
        combined = combined * (int(ranks.max(initial=0)) + 1) + ranks
        # Renumbered each time, so that the product of many keys fits into an int64.
        _, first, combined = np.unique(combined, return_index=True, return_inverse=True)
    codes = np.full(len(there), UNLABELLED, np.int64)
    codes[inside] = combined
    rows = inside[first]
    parts = [[each.texts[rank] for rank in each.ranks[rows].tolist()] for each in values]
    names = tuple(parts[-1])
    paths = names if len(parts) == 1 else tuple(map("/".join, zip(*parts, strict=True)))
    return Domains(keys[-1], codes, names, paths)
