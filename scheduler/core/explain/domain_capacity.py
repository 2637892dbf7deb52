"""Capacity of each topology domain for a group that does not fit: free, reclaimable, missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from scheduler.core.groups.forest import Group, Pod, topology_keys_around
from scheduler.core.preemption.candidates import NONE
from scheduler.core.preemption.plan import may_preempt
from scheduler.core.search.place import Refusal
from scheduler.core.state.state import State


@dataclass(frozen=True, slots=True)
class DomainCapacity:
    """Capacity of one domain, as numbers of pods. `value` includes the outer domains.

    `reclaimable` is what the eviction of all possible victims of the root would add to `free`.
    `missing` is what the group lacks even then. Capacity nominated for other roots of the same or a
    higher priority is not free. `excluded` are nodes by reason of the node filters.
    """

    key: str
    value: str
    free: int
    reclaimable: int
    missing: int
    excluded: tuple[tuple[str, int], ...]


def domains(state: State, root: Group | Pod, refusal: Refusal) -> list[DomainCapacity]:
    """Return the domains that the group at fault could use, best first.

    They are sorted by free plus reclaimable capacity. The result is empty if the group has no
    topology constraint, or if it lacks no capacity.
    """
    short = refusal.shortage
    if short.best is None or short.shape is None:
        return []
    nodes, shape, key = state.nodes, short.shape, short.best.key
    labels = state.topologies.of_groups(
        key, topology_keys_around(state.forest.groups.get(short.at), key)
    )
    # The table of units is updated only on demand.
    state.units.refresh()
    below = state.units.below(root.priority) if may_preempt(state, root) else NONE
    # In a trial: its end puts the released victims back.
    with nodes.trial(), state.nominations.respected(refusal.root, root.priority):
        free = labels.sums(state.framework.slots(shape), None)
        state.units.release(state.units.slots_of(below))
        emptied = labels.sums(state.framework.slots(shape), None)
    codes = state.framework.node_codes(shape)
    rows = []
    for code, value in enumerate(labels.paths):
        reasons = Counter(codes[labels.rows(code, None)].tolist())
        excluded = tuple((shape.reasons[c], n) for c, n in sorted(reasons.items()) if c)
        rows.append(
            DomainCapacity(
                key,
                value,
                int(free[code]),
                int(emptied[code] - free[code]),
                max(0, short.needed - int(emptied[code])),
                excluded,
            )
        )
    # lexsort sorts by its last key first.
    order = np.lexsort((-free, -emptied))
    return [rows[index] for index in order.tolist()]
