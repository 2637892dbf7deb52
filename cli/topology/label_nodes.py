"""`muster label-nodes`: the labels that HyperNodes ask for, compared with those of the nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cli.topology.hyper_nodes import (
    HYPER_NODES,
    Labels,
    Nodes,
    Relevant,
    is_of_tier,
    labels_by,
)
from kube.base.errors import Invalid, NotFound
from kube.client.client import Client
from kube.client.paging import pages
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import NODES

PARALLEL: Final = 16
"""Patches of nodes that are sent at the same time."""


class Change(NamedTuple):
    """One label of one node. None is no label."""

    node: str
    key: str
    before: str | None
    after: str | None


class Comparison(NamedTuple):
    """What must change on the nodes. Applied, it makes their labels as HyperNodes describe them."""

    labels: Labels
    nodes: int
    changes: Sequence[Change]


async def compare(client: Client) -> Comparison:
    """Read HyperNodes and nodes. Raises kube errors, and ConfigError as `labels_by`."""
    found = [obj async for page in pages(client, HYPER_NODES) for obj in page]
    relevant = Relevant(found)
    nodes: dict[str, dict[str, str]] = {}
    async for page in pages(client, NODES, metadata_only=True):
        nodes.update(map(relevant.of, page))
    labels = labels_by(found, nodes)
    return Comparison(labels, len(nodes), [*changes(labels, nodes)])


def changes(labels: Labels, nodes: Nodes) -> Iterator[Change]:
    """Yield what differs. Only keys of tiers are compared."""
    for node, now in sorted(nodes.items()):
        wanted = labels.wanted.get(node, {})
        ours = {key for key in now if is_of_tier(key)}
        for key in sorted(ours | wanted.keys()):
            if now.get(key) != wanted.get(key):
                yield Change(node, key, now.get(key), wanted.get(key))


async def apply(client: Client, changes: Sequence[Change]) -> list[str]:
    """Write the changes; return the nodes whose labels have changed since, which are left alone.

    Raises kube errors.
    """
    by_node: dict[str, list[Change]] = {}
    for change in changes:
        by_node.setdefault(change.node, []).append(change)
    skipped: list[str] = []

    async def write(node: str) -> None:
        try:
            await client.patch(NODES, node, _patch(by_node[node]))
        except (Invalid, NotFound):
            skipped.append(node)

    nodes = [*by_node]
    for start in range(0, len(nodes), PARALLEL):
        await asyncio.gather(*map(write, nodes[start : start + PARALLEL]))
    return skipped


def _patch(changes: Sequence[Change]) -> PatchBuilder:
    patch = PatchBuilder()
    for change in changes:
        path = pointer("metadata", "labels", change.key)
        if change.before is not None:
            patch.test(path, change.before)
        if change.after is None:
            patch.remove(path)
        else:
            patch.add(path, change.after)
    return patch
