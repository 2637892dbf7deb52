"""The slices of a PodGroup: how many of their pods run, and where."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from scheduler.core.groups.forest import Group
from scheduler.core.groups.groups import slice_topology_keys
from scheduler.core.groups.slices import Slice, slices_of
from scheduler.core.state.state import State
from scheduler.core.topology.topology import UNLABELLED, Domains
from scheduler.core.values.wording import count

_MOST_SLICES: Final = 20
"""Slices that `muster explain` lists. Further ones are counted."""


def slice_lines(state: State, group: Group) -> Iterator[str]:
    """Yield a line for each slice of a PodGroup, those that lack pods first; none without any."""
    slicing = group.slicing
    if slicing is None or slicing.flaw:
        return
    domains = state.topologies.of_groups(slicing.key, slice_topology_keys(group, slicing.key))
    found = slices_of(group, domains.codes)
    ordered = sorted(found.all, key=lambda part: part.complete)
    for part in islice(ordered, _MOST_SLICES):
        yield f"{found.title(part)}: {_standing(part, domains)}"
    if len(ordered) > _MOST_SLICES:
        yield f"and {count(len(ordered) - _MOST_SLICES, 'more slice')}"


def _standing(part: Slice, domains: Domains) -> str:
    names = (domains.paths[code] for code in sorted(domains.of(list(part.rows)) - {UNLABELLED}))
    there = ", ".join(names)
    where = f" in {there}" if there else ""
    said = f"{part.present} of {count(part.size, 'pod')} run{where}"
    return f"{said}, {count(len(part.waiting), 'pod')} waiting" if part.waiting else said
