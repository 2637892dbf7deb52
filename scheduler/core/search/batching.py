"""Decisions for many roots with equal signatures: the opportunistic batching of KEP-5598.

With the profile pack, the next pod goes to the last pod's node until that is full. The next gang
goes to the last gang's domain until no other fits there. So one fill for many roots gives the same
placements as one decision for each, at the cost of one decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.core.groups.forest import Group, Pod, in_order, outer_topology_keys
from scheduler.core.nodes.node_table import Region
from scheduler.core.pods.never_fits import never_fits
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.place import Placement, group_of, place
from scheduler.core.search.scored_pods import place_by_score
from scheduler.core.search.spread_batching import place_spread, spreads_alone
from scheduler.core.state.state import State
from scheduler.core.values.devices import Allocation
from scheduler.core.values.model import ClaimKey, Topology
from scheduler.core.values.search_budget import SearchBudget


@dataclass(frozen=True, slots=True)
class Signature:
    """The common properties of a batch: each root has `size` pods of `shape`, all or nothing.

    `single` means that the roots are pods without a group.
    """

    shape: Shape
    size: int
    priority: int
    topology: Topology | None = None
    scheduler: str = ""
    single: bool = False


def signature(root: Group | Pod) -> Signature | None:
    """Return the signature of a root that may be batched; None if it must be decided alone.

    Single pods have one. So do valid gangs of one leaf that need all their pods, none of them
    running, of one shape whose order does not matter, without slices, and without a preferred
    topology constraint.
    The signature does not change while the root waits unchanged.
    """
    if isinstance(root, Pod):
        return Signature(root.shape, 1, root.info.priority, None, root.info.scheduler, single=True)
    spec = root.spec
    if spec is None or root.composite or root.parent is not None or len(root.pending) != 1:
        return None
    if not root.pending_total == root.available == spec.minimum:
        return None
    if root.expected_waiting or root.slicing is not None:
        return None
    shape = next(iter(root.pending))
    preferred = spec.topology is not None and spec.topology.preferred
    if preferred or shape.order_sensitive or root.faulty:
        return None
    return Signature(shape, root.pending_total, root.priority, spec.topology, root.scheduler)


def alike(state: State, kind: Signature, other: Signature) -> bool:
    """Return True if roots of both fit the same nodes.

    Their volumes may differ if all nodes can use these.
    """
    same = replace(other, shape=kind.shape) == kind
    return same and state.framework.plugins.volume_binding.alike(kind.shape, other.shape)


def by_score(kind: Signature, budget: SearchBudget) -> bool:
    """Return True if kube-scheduler's default scores decide for roots of this kind."""
    return kind.single and budget.of(kind.scheduler, single=True).by_score


def batchable_by_score(state: State, shape: Shape) -> bool:
    """Return True if single pods may be batched that are placed by score: see `scored_pods`."""
    # Volumes are assumed for the pods of one placement, which here is one pod.
    return not (shape.volumes or never_fits(shape, state.nodes) or _closed(state))


def batchable(state: State, shape: Shape) -> bool:
    """Return True if roots of the shape may be batched: only free resources decide.

    The starvation gate must be open, and no root of the batch may have a nomination. Nominations of
    others count for none of the roots, or for all if the roots' priority is lower.
    """
    alone = not state.framework.independent(shape)
    return not (alone or never_fits(shape, state.nodes) or _closed(state))


def batchable_by_affinity(state: State, kind: Signature, budget: SearchBudget) -> bool:
    """Return True if single pods with required affinity or anti-affinity may be batched, packed.

    Their nodes depend on each other, but waves of them give the same result as one after the other.
    That is not so for spread constraints and preferences, nor with the profile spread.
    """
    shape, wants = kind.shape, kind.shape.requirements
    single = kind.size == 1 and kind.topology is None
    others = wants.spread or wants.volumes or wants.needs_devices or shape.score_match_ids
    if not single or others or budget.of(kind.scheduler, single=kind.single).profile != "pack":
        return False
    return not (never_fits(shape, state.nodes) or _closed(state))


def batchable_by_spread(state: State, kind: Signature, budget: SearchBudget) -> bool:
    """Return True if single pods with spread constraints may be batched: see `spread_batching`."""
    shape = kind.shape
    if kind.size > 1 or kind.topology is not None or not shape.requirements.spread:
        return False
    if budget.of(kind.scheduler, single=kind.single).profile != "pack" or never_fits(
        shape, state.nodes
    ):
        return False
    return not _closed(state) and spreads_alone(state.framework, shape)


def _closed(state: State) -> bool:
    """Return True if the starvation gate is closed, so that each root must be checked."""
    return state.starvation.closed_for is not None


def place_batch(
    state: State, roots: Sequence[Group | Pod], budget: SearchBudget
) -> list[Placement]:
    """Decide waiting roots of one signature, in this order. Changes nothing.

    Returns placements for the first roots that fit. With a topology constraint, all go to the
    domain of the first root. The others have to be decided again. If there are no placements,
    decide the first root alone to get its refusal.
    """
    singles = [root for root in roots if isinstance(root, Pod)]
    if singles and budget.of(singles[0].info.scheduler, single=True).by_score:
        return place_by_score(state, singles, budget)
    if singles and singles[0].shape.requirements.spread:
        return place_spread(state, singles)
    region: Region | None = None
    if isinstance(first := roots[0], Group) and first.topology is not None:
        # The first gang chooses the domain, as if decided alone. The others fill the same one.
        alone = place(state, first, budget)
        if not isinstance(alone, Placement):
            return []
        region = _domain(state, first, first.topology, alone.rows[0])
    pods = [list(_pods(root)) for root in roots]
    size = len(pods[0])
    members_of_all = [pod for members in pods for pod in members]
    joined = group_of(members_of_all, minimum=size, priority=first.priority)
    placement = place(state, joined, budget, region=region)
    if not isinstance(placement, Placement):
        return []
    rows, chosen = placement.rows, placement.pods
    return [
        Placement(
            root.key,
            tuple(members),
            rows[at : at + size],
            size,
            0,
            devices=_devices_of(members, chosen[at : at + size], placement.devices),
        )
        # The extras of the joined group may end within a root. That root is decided again.
        for root, members, at in zip(
            roots, pods, range(0, len(rows) - size + 1, size), strict=False
        )
    ]


def _devices_of(
    pods: Sequence[Pod], chosen: Sequence[Pod], devices: Mapping[ClaimKey, Allocation] | None
) -> Mapping[ClaimKey, Allocation] | None:
    """Return the allocations for `pods`, which go where the equal pods of `chosen` were placed.

    The roots are in the queue's order, but all their pods together are sorted: only the nodes
    agree.
    """
    if devices is None:
        return None
    return {
        key: devices[there]
        for pod, other in zip(pods, chosen, strict=True)
        for key, there in zip(pod.info.device_claims, other.info.device_claims, strict=True)
        if there in devices
    }


def _pods(root: Group | Pod) -> Iterator[Pod]:
    if isinstance(root, Pod):
        yield root
        return
    for pods in root.pending.values():
        yield from in_order(pods.values())


def _domain(state: State, group: Group, topology: Topology, row: int) -> Region:
    """Return the nodes of the group's topology domain that contains the row."""
    domains = state.topologies.of_groups(topology.key, outer_topology_keys(group, topology.key))
    return domains.rows(next(iter(domains.of([row]))), None)
