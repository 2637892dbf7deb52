"""Why no domain fits, domain by domain: what is free, reclaimable, missing and excluded."""

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
    """One domain, in pods of the shape that is short; `value` includes the outer domains.

    `reclaimable` is what evicting all that the root may preempt would add to `free`; `missing` is
    what is short even then. Places nominated for others of the same or a higher priority are not
    free. `excluded` are nodes per reason of the node filters.
    """

    key: str
    value: str
    free: int
    reclaimable: int
    missing: int
    excluded: tuple[tuple[str, int], ...]


def domains(state: State, root: Group | Pod, refusal: Refusal) -> list[DomainCapacity]:
    """The domains that the group at fault could use, those with most free and reclaimable first.

    Empty if the shortage is not one of a domain: no topology constraint, or no capacity is short.
    """
    short = refusal.shortage
    if short.best is None or short.shape is None:
        return []
    nodes, shape, key = state.nodes, short.shape, short.best.key
    labels = state.topologies.of_groups(
        key, topology_keys_around(state.forest.groups.get(short.at), key)
    )
    state.units.refresh()
    below = state.units.below(root.priority) if may_preempt(state, root) else NONE
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
    order = np.lexsort((-free, -emptied))
    return [rows[index] for index in order.tolist()]
