"""VolumeBinding: nodes on which a pod's claims can be bound, and the volumes for them.

As in kube-scheduler, the unbound claims of a pod choose volumes one after another, the smallest
first. A claim that finds none is provisioned if its class has a provisioner. This plugin calls the
other volume plugins, because they read the same claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Final, NamedTuple

import numpy as np

from scheduler.core.framework import node_volume_limits, volume_restrictions
from scheduler.core.framework.events import USE_EVENTS, Event, Events, Reach
from scheduler.core.framework.node_volume_limits import AttachableVolumes, NodeVolumeLimits
from scheduler.core.framework.plugin import Plugin, PreFilter
from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.pods.pod_selectors import PodMatches, PodSelectors
from scheduler.core.pods.shapes import ButVolumes, Codes, Shape
from scheduler.core.values.model import ClaimInfo, ClaimKey, Requirements
from scheduler.core.volumes import volume_node_affinity, volume_zone
from scheduler.core.volumes.assumed_volumes import AssumedVolume
from scheduler.core.volumes.volume_table import VolumeTable

UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"
LOST: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NODE_AFFINITY: Final = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
NO_SPACE: Final = "node(s) did not have enough free storage"
"""The prefix of reasons about one claim."""

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_PLENTY: Final = 1 << 40
_UNITS: Final = (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


class _ClaimFlaw(NamedTuple):
    """The reason why a claim makes every node infeasible, and the change that helps."""

    reason: str
    advice: str


_UNBOUND_ADVICE: Final = (
    "bind the claims, or set a storageClassName whose provisioner creates volumes"
)
_LOST_ADVICE: Final = (
    "the claims name PersistentVolumes that do not exist. Restore these, or create new claims"
)
_IN_USE_ADVICE: Final = (
    "delete the pod that uses the claim, or use a claim that several pods can share"
)
_ADVICE: Final = {
    NODE_AFFINITY: (
        "the PersistentVolumes can be used on other nodes only. Free capacity there, or use other"
        " claims"
    ),
    volume_zone.REASON: (
        "the PersistentVolumes are in other zones. Free capacity there, or use other claims"
    ),
    node_volume_limits.REASON: "add nodes, or use fewer volumes in each pod",
    NO_SPACE: "free storage, or request smaller volumes",
}


class VolumeBinding(Plugin):
    """Filter and reserve for shapes with claims."""

    name = "VolumeBinding"
    events: ClassVar[Events] = {
        **USE_EVENTS,
        Event.DOMAINS: Reach.CLUSTER,
        Event.CLAIM_RELEASE: Reach.READERS,
        Event.VOLUME_RELEASE: Reach.CLUSTER,
        Event.CLAIM: Reach.CLUSTER,
        Event.VOLUME: Reach.CLUSTER,
        Event.STORAGE_CLASS: Reach.CLUSTER,
        Event.CSI_DRIVER: Reach.CLUSTER,
        Event.CSI_NODE: Reach.CLUSTER,
        Event.STORAGE_CAPACITY: Reach.CLUSTER,
    }

    def __init__(self, nodes: NodeTable, selectors: PodSelectors, volumes: VolumeTable) -> None:
        self._nodes = nodes
        self._selectors = selectors
        self._volumes = volumes
        self._limits = NodeVolumeLimits(nodes, selectors, volumes)

    def pre_filter(self, wants: Requirements, matches: PodMatches) -> PreFilter:
        """Return the counts of the volumes' users, which the filter reads."""
        return PreFilter([self._selectors.users(use) for use in wants.volumes])

    def rejects(self, shape: Shape) -> str:
        return next((flaw.reason for flaw in self._flaws(shape)), "")

    def filter_pods(self, shape: Shape, codes: Codes) -> None:
        reason = self.rejects(shape)
        if reason:
            # Such a claim excludes every node, so the other claims change nothing.
            shape.rule_out(codes, np.ones(len(codes), np.bool_), reason)
            return
        # A claim that is missing is a reason, so all of them exist.
        claims = [self._volumes.claims[key] for key in shape.requirements.claims]
        for claim in claims:
            if claim.volume:
                self._rule_out_for(claim.volume, shape, codes)
        self._rule_out_for_unbound([c for c in claims if not c.volume], shape, codes)
        if shape.volumes:
            self._limits.rule_out(shape, codes)

    def may_fit(self, shapes: Sequence[Shape], rows: Ints) -> list[Shape]:
        """Return the shapes whose volumes may be used on one of the rows (n,), by cheap checks."""
        most = AttachableVolumes(self._limits, rows)
        return [s for s in shapes if not s.volumes or self._may_fit(s, most)]

    def _may_fit(self, shape: Shape, most: AttachableVolumes) -> bool:
        counts = self._nodes.match_counts
        for key in shape.requirements.claims:
            claim = self._volumes.claims.get(key)
            if claim is None or volume_restrictions.in_use(
                claim, self._selectors.users(key), counts
            ):
                return False
        return most.suffice(shape)

    def is_local(self, shape: Shape) -> bool:
        """Return True if the shape's volumes never exclude a node, whatever other pods use."""
        claims = [self._volumes.claims.get(key) for key in shape.requirements.claims]
        return all(
            claim is not None and not claim.one_pod and self._everywhere(claim) for claim in claims
        ) and not self._limits.limited(shape)

    def alike(self, shape: Shape, other: Shape) -> bool:
        """Return True if the shapes differ at most in volumes that never exclude a node."""
        if shape is other:
            return True
        same = self._but_volumes(shape) == self._but_volumes(other)
        return same and self.is_local(shape) and self.is_local(other)

    def equal_capacity(self, shape: Shape) -> object:
        """Return a key of shapes with equal capacity: (other requirements, (driver, number)...).

        The key exists if the shape's volumes are for all nodes and no pod uses them. Then only the
        number of volumes of each driver matters. Otherwise, or without volumes, return None.
        """
        volumes = self._unused_by_driver(shape)
        return None if volumes is None else (self._but_volumes(shape), volumes)

    def _but_volumes(self, shape: Shape) -> ButVolumes:
        cache = shape.cache
        if cache.but_volumes is None:
            wants, matches = shape.requirements, shape.matches
            counted = tuple(i for i in matches.counted if self._selectors.use_of(i) is None)
            # Requirements are large, so they are copied and hashed once for each shape.
            cache.but_volumes = ButVolumes(
                replace(wants, claims=(), attachments=()), replace(matches, counted=counted)
            )
        return cache.but_volumes

    def _unused_by_driver(self, shape: Shape) -> tuple[tuple[str, int], ...] | None:
        volumes, counts = shape.volumes, self._nodes.match_counts
        if not volumes or not all(counts.empty(self._selectors.users(each)) for each in volumes):
            return None
        claims = [self._volumes.claims.get(key) for key in shape.requirements.claims]
        if not all(claim is not None and self._everywhere(claim) for claim in claims):
            return None
        return tuple(sorted(self._limits.new_by_driver(shape).items()))

    def _everywhere(self, claim: ClaimInfo) -> bool:
        """Return True if the claim is bound to a volume that all nodes can use."""
        if claim.lost or claim.terminating:
            return False
        volume = self._volumes.volumes.get(claim.volume)
        zones = volume is not None and volume_zone.other_zone(volume, self._nodes) is not None
        return volume is not None and volume.affinity is None and not zones

    def one_at_a_time(self, shape: Shape) -> bool:
        """Return True if the first pod's claims exclude the others or decide where they can go."""
        claims = (self._volumes.claims.get(key) for key in shape.requirements.claims)
        # A ReadWriteOncePod claim has one user, and an undecided one a volume only after its first
        # pod.
        return any(
            claim is not None and (claim.one_pod or self._volumes.undecided(claim))
            for claim in claims
        )

    def start(self, shape: Shape, rows: Ints, capacity: Ints, count: int) -> int | None:
        """Return the row for the first pod whose volumes serve all `count` pods, or else 0."""
        claims = [self._volumes.claims[key] for key in shape.requirements.claims]
        deciding = [claim for claim in claims if self._volumes.undecided(claim)]
        if count == 1 or not deciding:
            return None
        return self._start(deciding, rows, capacity, count)

    def only_counts(self, shape: Shape) -> bool:
        """Return True if all claims of the shape are bound: then there is nothing to assume."""
        claims, keys = self._volumes.claims, shape.requirements.claims
        return all((claim := claims.get(key)) is not None and claim.volume for key in keys)

    def account(self, shape: Shape, row: int, *, more: bool) -> None:
        """Assume volumes for undecided claims of new pods, and drop those of unused claims."""
        if not shape.requirements.claims:
            return
        undecided: list[ClaimInfo] = []
        for match_id in shape.matches.counted:
            key = self._selectors.claim_of(match_id)
            claim = None if key is None else self._volumes.claims.get(key)
            if claim is None:
                continue
            # The last user left: its volume is free for other claims again.
            if self._nodes.match_counts.empty(match_id):
                self._volumes.assumed.change(claim.key, None)
            elif more and self._volumes.undecided(claim):
                undecided.append(claim)
        # In the order in which the filter counted the volumes.
        for claim in sorted(undecided, key=_by_size):
            chosen = AssumedVolume(self._choose(claim, row), row)
            self._volumes.assumed.change(claim.key, chosen)

    @property
    def limited(self) -> bool:
        """True if nodes have limits of attached volumes."""
        return bool(self._volumes.limits)

    def counts_users(self, match_id: int) -> bool:
        """Return True if the match id counts the users of a volume."""
        return self._selectors.use_of(match_id) is not None

    def advice(self, shape: Shape, reason: str) -> str:
        if reason in _ADVICE:
            return _ADVICE[reason]
        if reason.endswith(node_volume_limits.MISSING_DRIVER):
            return "install the driver on nodes with capacity, or add nodes that have it"
        for flaw in self._flaws(shape):
            if flaw.reason == reason:
                return flaw.advice
        if reason == NO_VOLUME:
            for key in shape.requirements.claims:
                claim = self._volumes.claims.get(key)
                if claim is not None and not claim.volume:
                    return f"create {self._wanted(claim)} that these nodes can use"
        return ""

    def _flaws(self, shape: Shape) -> Iterator[_ClaimFlaw]:
        """Yield the flaws of the shape's claims that exclude every node."""
        for key in shape.requirements.claims:
            flaw = self._flaw(key, self._volumes.claims.get(key))
            if flaw is not None:
                yield flaw

    def _flaw(self, key: ClaimKey, claim: ClaimInfo | None) -> _ClaimFlaw | None:
        """Return why the claim makes every node infeasible; None if it does not."""
        name = key[1]
        if claim is None:
            text = f'persistentvolumeclaim "{name}" not found'
            return _ClaimFlaw(text, "create the claim, or correct its name")
        if claim.lost:
            text = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
            return _ClaimFlaw(text, _LOST_ADVICE)
        if claim.terminating:
            text = f'persistentvolumeclaim "{name}" is being deleted'
            return _ClaimFlaw(text, "recreate the claim")
        users = self._selectors.users(claim.key)
        if volume_restrictions.in_use(claim, users, self._nodes.match_counts):
            return _ClaimFlaw(volume_restrictions.REASON, _IN_USE_ADVICE)
        if claim.volume:
            known = claim.volume in self._volumes.volumes
            return None if known else _ClaimFlaw(LOST, _LOST_ADVICE)
        return None if self._volumes.waits(claim) else _ClaimFlaw(UNBOUND, _UNBOUND_ADVICE)

    def _rule_out_for(self, name: str, shape: Shape, codes: Codes) -> None:
        """Rule out nodes that cannot use the volume that a claim is bound to."""
        volume = self._volumes.volumes[name]
        if volume.affinity is not None:
            reached = np.zeros(len(codes), np.bool_)
            reached[self._volumes.index.rows(volume.name)] = True
            shape.rule_out(codes, ~reached, NODE_AFFINITY)
        other = volume_zone.other_zone(volume, self._nodes)
        if other is not None:
            shape.rule_out(codes, other, volume_zone.REASON)

    def _rule_out_for_unbound(
        self, claims: Iterable[ClaimInfo], shape: Shape, codes: Codes
    ) -> None:
        """Rule out nodes on which one of the claims gets no volume."""
        undecided: list[ClaimInfo] = []
        for claim in sorted(claims, key=_by_size):
            assumed = self._volumes.assumed.get(claim.key)
            # A claim with an assumed volume or a selected node is decided: it leaves only these
            # nodes.
            if assumed is None and not claim.selected_node:
                undecided.append(claim)
                continue
            if assumed is not None:
                able = self._at(assumed)
            else:
                able = self._provisionable(claim) & self._nodes.named((claim.selected_node,))
            shape.rule_out(codes, ~able, NO_VOLUME)
        before = Counter[str]()
        close = np.zeros(len(codes), np.bool_)
        in_reach, provisioned = list[Bools](), list[Bools]()
        for claim in undecided:
            reached, free = self._provisionable(claim), self._free(claim)
            makes = reached & self._has_space(claim)
            in_reach.append(reached)
            provisioned.append(makes)
            none = (free == 0) & ~makes
            if none.any():
                shape.rule_out(codes, none & ~reached, NO_VOLUME)
                shape.rule_out(codes, none & reached, NO_SPACE)
            # Earlier claims of its class may take every volume that fits this one.
            close |= (free <= before[claim.storage_class]) & (free > 0) & ~makes
            before[claim.storage_class] += 1
        # Only these few nodes need the exact choice, which is a loop in Python.
        for row in np.flatnonzero(close & (codes == 0)).tolist():
            failed = self._short(undecided, provisioned, row)
            if failed is not None:
                codes[row] = shape.code(NO_SPACE if in_reach[failed][row] else NO_VOLUME)

    def _start(self, claims: list[ClaimInfo], rows: Ints, capacity: Ints, count: int) -> int:
        """Return the first row's index with room or volumes for all pods; 0 if there is neither."""
        # One node for all pods needs no volume that other nodes reach.
        alone = np.flatnonzero(capacity >= count)
        if len(alone):
            return int(alone[0])
        seen = set[tuple[str, ...]]()
        for index, row in enumerate(rows.tolist()):
            # Provisioned volumes are left out: the nodes that will reach them are unknown.
            names = self._choices(claims, row)
            if "" in names or names in seen:
                continue
            seen.add(names)
            reached = [np.isin(rows, self._volumes.index.rows(name)) for name in names]
            if int(capacity[np.logical_and.reduce(reached)].sum()) >= count:
                return index
        return 0

    def _free(self, claim: ClaimInfo) -> Ints:
        """Return the number of volumes for the claim on each node (N,).

        A volume whose claimRef names the claim excludes all others.
        """
        meant = self._volumes.index.meant_for(claim)
        if not meant:
            return self._volumes.index.free(claim)
        free = np.zeros(self._nodes.size, np.int64)
        # Other claims cannot take the reserved volume, so there is always enough of it.
        free[self._volumes.index.rows(meant)] = _PLENTY
        return free

    def _short(
        self, claims: Sequence[ClaimInfo], provisioned: Sequence[Bools], row: int
    ) -> int | None:
        """Return the index of the first claim without a volume on the node, or None.

        `provisioned` has the nodes (N,) on which each claim can get a new one.
        """
        for at, name in enumerate(self._choices(claims, row)):
            if not name and not provisioned[at][row]:
                return at
        return None

    def _choices(self, claims: Iterable[ClaimInfo], row: int) -> tuple[str, ...]:
        """Return the volume of each claim on the node, chosen one after another."""
        names: list[str] = []
        for claim in claims:
            names.append(self._choose(claim, row, names))
        return tuple(names)

    def _choose(self, claim: ClaimInfo, row: int, without: Collection[str] = ()) -> str:
        """Return the claim's volume on the node, or an empty string if it must be provisioned."""
        # An earlier decision has asked the provisioner for a volume, so no existing one is taken.
        if claim.selected_node:
            return ""
        meant = self._volumes.index.meant_for(claim)
        if meant:
            return meant if row in self._volumes.index.rows(meant) else ""
        return self._volumes.index.best(claim, row, without)

    def _wanted(self, claim: ClaimInfo) -> str:
        """Return the volume that the claim asks for, in words."""
        if self._is_to_provision(claim):
            return "PersistentVolumes"
        chosen = " and the labels of its selector" if claim.selector is not None else ""
        modes = "".join(f"{mode} " for mode in claim.access)
        of = f'for claim "{claim.key[1]}" a {modes}PersistentVolume of class {claim.storage_class}'
        return f"{of} with at least {_bytes(claim.size)}{chosen}"

    def _is_to_provision(self, claim: ClaimInfo) -> bool:
        storage_class = self._volumes.classes[claim.storage_class]
        return storage_class.provisioner not in ("", _NO_PROVISIONER)

    def _provisionable(self, claim: ClaimInfo) -> Bools:
        """Return the nodes (N,) for which the claim's class can provision a volume."""
        if not self._is_to_provision(claim):
            return np.zeros(self._nodes.size, np.bool_)
        topologies = self._volumes.classes[claim.storage_class].topologies
        return volume_node_affinity.reached(topologies or None, self._nodes)

    def _has_space(self, claim: ClaimInfo) -> Bools:
        """Return the nodes (N,) on which the claim's driver has space for its volume.

        As in kube-scheduler, several claims of one node are not added up: only the driver knows
        whether its capacity is that of one volume or of all.
        """
        volumes = self._volumes
        # Not the driver that replaced an in-tree provisioner: it publishes no capacity for it.
        if volumes.classes[claim.storage_class].provisioner not in volumes.measured_drivers:
            return np.ones(self._nodes.size, np.bool_)
        enough: Bools = volumes.capacities.largest(claim.storage_class) >= claim.size
        return enough

    def _at(self, assumed: AssumedVolume) -> Bools:
        """Return the nodes (N,) that can use the assumed volume."""
        able = np.zeros(self._nodes.size, np.bool_)
        able[self._volumes.index.rows(assumed.volume) if assumed.volume else assumed.row] = True
        return able


def _by_size(claim: ClaimInfo) -> tuple[int, ClaimKey]:
    return (claim.size, claim.key)


def _bytes(size: int) -> str:
    """Return the size as `10Gi`, in the largest unit that divides it evenly."""
    for unit, bits in _UNITS:
        if size and not size % (1 << bits):
            return f"{size >> bits}{unit}"
    return str(size)
