"""Runs the plug-ins over all nodes for one shape at a time: filter, score, reserve.

It corresponds to kube-scheduler's framework.Framework, which runs them for one pod and one node. As
there, each plug-in has its own rules; this module decides their order and combines their answers.
Answers of node filters are cached until the nodes change. Answers that depend on other pods or on
free resources are cached until any of those change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from scheduler.core.devices.table import DeviceTable
from scheduler.core.framework import (
    node_affinity,
    node_name,
    node_resources_fit,
    node_unschedulable,
    taint_toleration,
)
from scheduler.core.framework.claim_quotas import named
from scheduler.core.framework.domain_quotas import Preference, Quotas
from scheduler.core.framework.dynamic_resources import DynamicResources
from scheduler.core.framework.inter_pod_affinity import InterPodAffinity
from scheduler.core.framework.pod_topology_spread import PodTopologySpread
from scheduler.core.framework.volume_binding import VolumeBinding
from scheduler.core.nodes.node_classes import NodeClass
from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.nodes.resource_table import Request
from scheduler.core.pods.never_fits import never_fits
from scheduler.core.pods.pod_selectors import PodMatches, PodSelectors
from scheduler.core.pods.shapes import NO_NODE, ButVolumes, Cached, Codes, Shape
from scheduler.core.topology.topology import Domains, Topologies
from scheduler.core.values.model import Requirements, Stage
from scheduler.core.volumes.volume_table import VolumeTable

_NODE_AFFINITY_WEIGHT: Final = 2000
_TAINT_TOLERATION_WEIGHT: Final = 3000
_DYNAMIC_RESOURCES_WEIGHT: Final = 2000
"""kube-scheduler's weights of these plug-ins, as a score in thousandths of a node's use."""

_MOST_CACHED: Final = 8_000_000
"""Answers are cached for so many shapes times nodes; each takes up to 60 bytes."""

_MOST_USAGES: Final = 64
"""The utilisation of nodes is cached for so many different requests, and slots for so many kinds of
shapes that differ in volumes alone."""

_MOST_REASONS: Final = 1024
"""A shape with more reasons than this forgets them when the nodes are filtered again."""


class Framework:
    """The plug-ins of one cluster. The arrays it returns may be shared: do not write to them."""

    def __init__(
        self,
        nodes: NodeTable,
        topologies: Topologies,
        selectors: PodSelectors,
        volumes: VolumeTable,
        devices: DeviceTable | None = None,
    ) -> None:
        self.nodes = nodes
        self.devices = DynamicResources(nodes, devices or DeviceTable(nodes))
        self.affinity = InterPodAffinity(nodes, topologies, selectors)
        self.spread = PodTopologySpread(nodes, topologies, selectors)
        self.volumes = VolumeBinding(nodes, selectors, volumes)
        self._selectors = selectors
        self._cached: dict[Shape, None] = {}
        self._shared_slots: dict[object, Cached[Ints]] = {}
        self._usages: dict[tuple[tuple[str, int], ...], Cached[tuple[Ints, Ints]]] = {}

    def shape(
        self, index: int, wants: Requirements, matches: PodMatches, like: Shape | None = None
    ) -> Shape:
        """A new shape, with what the plug-ins derive from its requirements and matches alone.

        `like` is a shape with the same requirements, if one is known.
        """
        volumes = (self._selectors.users(use) for use in wants.volumes)
        filters = self.affinity.filter_match_ids(wants, matches).union(
            self.spread.filter_match_ids(wants), volumes
        )
        scores = self.affinity.score_match_ids(wants, matches).union(
            self.spread.score_match_ids(wants)
        )
        return Shape(
            index,
            wants,
            matches,
            request=like.request if like else self.nodes.resources.request(wants.requests),
            filter_match_ids=frozenset(filters),
            score_match_ids=frozenset(scores),
            needs_other_pods=self.affinity.needs_other_pods(wants, matches),
        )

    def drop_caches(self, shape: Shape) -> None:
        """Free what was computed per node for a shape of which no pod waits."""
        self._cached.pop(shape, None)
        self.devices.forget(shape)
        shape.drop_caches()

    @property
    def cached(self) -> int:
        """For how many shapes answers per node are cached."""
        return len(self._cached)

    # Filter

    def node_codes(self, shape: Shape) -> Codes:
        """Per node (N,) the code of the node filters; they ignore other pods and free resources."""
        return shape.cache.node_codes.get(self.nodes.generation, lambda: self._filter_nodes(shape))

    def permitted(self, shape: Shape) -> Bools:
        """Per node (N,) whether the node filters admit the shape."""
        permitted: Bools = self.node_codes(shape) == 0
        return permitted

    def pod_codes(self, shape: Shape) -> Codes:
        """Per node (N,) the code of the filters that depend on other pods and on volumes."""
        return shape.cache.pod_codes.get(self.nodes.version, lambda: self._filter_pods(shape))

    def slots(self, shape: Shape) -> Ints:
        """How many pods of this shape each node (N,) has room for; 0 if a filter excludes it."""
        return shape.cache.slots.get(self.nodes.version, lambda: self._slots(shape))

    def slots_in(self, shape: Shape, rows: Ints | None) -> Ints:
        """The same for the given rows only, (len(rows),); cheap for few rows. None means all."""
        if rows is None:
            return self.slots(shape)
        if shape.cache.slots.key == self.nodes.version or shape.requirements.volumes:
            return self.slots(shape)[rows]
        counts = self._room_at(shape, rows)
        if shape.filter_match_ids:
            counts[self.pod_codes(shape)[rows] != 0] = 0
        return counts

    def optimistic_slots(self, shape: Shape, rows: Ints | None) -> Ints:
        """Like `slots_in`, as if the other pods that the shape needs were already placed."""
        if shape.needs_other_pods:
            room = self.room(shape)
            return room if rows is None else room[rows]
        return self.slots_in(shape, rows)

    def may_fit(self, shapes: Iterable[Shape], rows: Ints) -> list[Shape]:
        """These shapes without those that lack a resource on all of the rows: cheap for many.

        Nor are there those whose volumes are in use, or more than can be attached there.
        """
        shapes = list(shapes)
        may = dict.fromkeys(node_resources_fit.may_fit(shapes, self.nodes.free, rows))
        may |= dict.fromkeys(shape for shape in shapes if shape.requirements.stage is not None)
        return self.volumes.may_fit(may, rows)

    def room(self, shape: Shape) -> Ints:
        """Pods per node (N,) that the free resources, ports, disks and the node filters admit."""
        return self._room_at(shape, slice(self.nodes.size))

    def empty_room(self, shape: Shape) -> Ints:
        """The same as if no pods were on the nodes."""
        rows, permitted = slice(self.nodes.size), self.permitted(shape)
        room = node_resources_fit.room(shape, self.nodes.allocatable, rows, permitted)
        if shape.requirements.needs_devices:
            room = np.minimum(room, self.devices.empty_copies(shape, rows))
        return np.minimum(room, 1) if shape.exclusive else room

    def conflicts(self, shape: Shape) -> Bools | None:
        """Per node (N,) whether a pod there uses what excludes the shape; None: it uses nothing.

        Pods of the shape may conflict with each other as well, if it is `exclusive`.
        """
        nodes, uses = self.nodes, shape.uses
        if not uses:
            return None
        key = (nodes.exclusive_uses.version, nodes.size)
        return shape.cache.conflicts.get(key, lambda: nodes.using(uses, shape.load.stage))

    def most(self, shape: Shape, room: Ints, domains: Domains | None = None) -> Ints:
        """The most pods of the shape that can fit if each node (N,) has this much room.

        That is (D,), for each of the domains, or (1,) for all nodes together.
        """
        if domains is None:
            return self.affinity.most(shape, room, np.zeros_like(room), 1)
        return self.affinity.most(shape, room, domains.codes, len(domains.values))

    def independent(self, shape: Shape) -> bool:
        """Whether nothing but free resources, node filters and devices of nodes decides."""
        devices = self.devices.one_at_a_time(shape) or named(shape)
        return not (shape.filter_match_ids or devices)

    def alone(self, shape: Shape) -> bool:
        """Whether pods and devices of other nodes have no say in its filter and score of a node."""
        matched = shape.score_match_ids or self._selectors.any_pods(shape.filter_match_ids)
        return not (matched or shape.requirements.needs_devices) and self.volumes.no_say(shape)

    def alike(self, shape: Shape, other: Shape) -> bool:
        """Whether the shapes differ at most in volumes, and in such as have no say."""
        if shape is other:
            return True
        same = self._but_volumes(shape) == self._but_volumes(other)
        return same and self.volumes.no_say(shape) and self.volumes.no_say(other)

    def _but_volumes(self, shape: Shape) -> ButVolumes:
        cache = shape.cache
        if cache.but_volumes is None:
            wants, matches = shape.requirements, shape.matches
            counted = tuple(i for i in matches.counted if self._selectors.use_of(i) is None)
            cache.but_volumes = ButVolumes(
                replace(wants, claims=(), attachments=()), replace(matches, counted=counted)
            )
        return cache.but_volumes

    def shared_slots(self, shape: Shape, rows: Ints | None) -> Ints:
        """How many pods of a shape with a stage take no free room on the rows, (len(rows),).

        There they have what is held for other stages. None means all rows.
        """
        stage, stages = shape.requirements.stage, self.nodes.stages
        every = np.arange(self.nodes.size) if rows is None else rows
        found = np.zeros(len(every), np.int64)
        if stage is not None:
            for at in np.flatnonzero(np.isin(every, stages.rows(stage.tree))).tolist():
                found[at] = max(0, stages.shared_slots(int(every[at]), shape.request, stage))
        return found

    def in_waves(self, shape: Shape) -> bool:
        """Whether the node of one pod of this shape affects the filter or score of the next."""
        devices = self.devices.one_at_a_time(shape) or bool(named(shape))
        return shape.order_sensitive or devices

    def quotas(self, shape: Shape, *, preferences: bool) -> Quotas:
        """How many of the shape's next pods may be placed before the plug-ins must run again."""
        preferred: list[Preference] = []
        if preferences and shape.score_match_ids:
            preferred = self.affinity.preferences(shape) + self.spread.preferences(shape)
        single = (
            self.volumes.one_at_a_time(shape)
            or self.affinity.first_of_its_kind(shape)
            or self.devices.one_at_a_time(shape)
        )
        return Quotas.of(
            self.affinity.quotas(shape),
            self.spread.skew_limits(shape),
            preferred,
            single=single,
            most=self.devices.quotas.left(shape),
        )

    # Score

    def usage(self, shape: Shape) -> tuple[Ints, Ints]:
        """Mean use of the requested resources and what a pod adds, per node (N,) in thousandths."""
        nodes, cached = self.nodes, self._usage_of(shape.request)
        used, step = cached.get(
            (nodes.size, nodes.resources.epoch),
            lambda: (np.zeros(nodes.size, np.int64), np.zeros(nodes.size, np.int64)),
        )
        rows = nodes.changed_since(cached.stamp)
        if len(rows):
            used[rows], step[rows] = self.usage_at(shape, rows)
        cached.stamp = nodes.stamp
        return used, step

    def _usage_of(self, request: Request) -> Cached[tuple[Ints, Ints]]:
        """The cached answer for all shapes that request the same: each may have its own volumes."""
        cached = self._usages.pop(request.amounts, None) or Cached()
        self._usages[request.amounts] = cached
        if len(self._usages) > _MOST_USAGES:
            del self._usages[next(iter(self._usages))]
        return cached

    def usage_at(self, shape: Shape, rows: Ints) -> tuple[Ints, Ints]:
        """The same for the given rows only, (len(rows),)."""
        return node_resources_fit.usage_at(shape, self.nodes, rows)

    def preference(self, shape: Shape, rows: Ints) -> Ints | None:
        """The score of each row, (len(rows),), in thousandths of a node's use; None: all equal."""
        nodes = self.nodes
        preference: Ints | None = None
        if shape.score_match_ids:
            preference = self.affinity.score(shape, rows) + self.spread.score(shape, rows)
        scores = shape.cache.node_scores.get(nodes.generation, lambda: self._score_nodes(shape))
        if scores is not None and len(rows):
            affinity, taints = (score[rows] for score in scores)
            most, worst = max(1, int(affinity.max())), max(1, int(taints.max()))
            own = affinity * _NODE_AFFINITY_WEIGHT // most
            own = own - taints * _TAINT_TOLERATION_WEIGHT // worst
            preference = own if preference is None else preference + own
        devices = self.devices.score(shape, rows) if shape.requirements.needs_devices else None
        if devices is not None and len(rows):
            own = devices * _DYNAMIC_RESOURCES_WEIGHT // max(1, int(devices.max()))
            preference = own if preference is None else preference + own
        return preference

    def start(self, shape: Shape, rows: Ints, room: Ints, count: int) -> int:
        """Index of the row to take the first of `count` pods; rows are best first, with `room`."""
        if shape.requirements.needs_devices:
            return self.devices.start(shape, rows, room, count)
        return self.volumes.start(shape, rows, room, count)

    # Reserve

    def only_counts(self, shape: Shape) -> bool:
        """Whether `reserve` for it takes resources and counts matches, and does nothing else."""
        wants = shape.requirements
        more = wants.needs_devices or wants.stage is not None or shape.uses
        return not more and self.volumes.bound(wants.claims)

    def reserve(self, shape: Shape, rows: Ints, counts: Ints, *, devices: bool = True) -> bool:
        """Put `counts[i]` pods on `rows[i]`, or take them off if negative; undone with a trial.

        Rows must be distinct, and all counts of the same sign. Assumes or drops volumes as well,
        and takes `devices`, unless these are held by the claims of pods that have nodes. Returns
        whether there were devices for all; there are wherever `slots` said so.
        """
        complete = True
        if devices and shape.requirements.needs_devices:
            complete = self.devices.reserve(shape, rows, counts)
        matches = shape.matches.counted
        self.nodes.take(rows, counts, shape.load)
        if shape.requirements.claims and len(rows):
            self.volumes.assume(matches, int(rows[0]), more=bool(counts[0] > 0))
        return complete

    def occupy(self, shape: Shape, rows: Ints, counts: Ints, *, devices: bool = True) -> None:
        """The same for pods that have these places anyway, whether or not devices are left."""
        _ = self.reserve(shape, rows, counts, devices=devices)

    def account(self, shape: Shape, row: int, count: int = 1) -> None:
        """Count pods that are now on the node (negative: that left it), outside of any trial."""
        matches = shape.matches.counted
        self.nodes.take_one(row, shape.load, count)
        if shape.requirements.claims and count < 0:
            self.volumes.assume(matches, row, more=False)

    def _filter_nodes(self, shape: Shape) -> Codes:
        nodes, wants = self.nodes, shape.requirements
        if len(shape.reasons) > _MOST_REASONS:
            shape.drop_caches()  # most are about taints and claims that are gone
        self._remember(shape)
        if wants.unsupported or wants.excess:
            return np.full(nodes.size, shape.code(never_fits(shape, nodes)), np.int32)
        codes: Codes = self._class_codes(shape)[nodes.node_class[: nodes.size]]
        named = node_name.admits(wants, nodes)
        if named is not None:
            shape.rule_out(codes, ~named, node_name.REASON)
        admitted = node_affinity.admits(shape, nodes)
        if admitted is not None:
            shape.rule_out(codes, ~admitted, node_affinity.REASON)
        return codes

    def _class_codes(self, shape: Shape) -> Codes:
        """The code of each node class, and last, for vacant rows with class -1, of NO_NODE."""
        classes = self.nodes.classes
        # Classes are only added while an epoch lasts.
        by_class = shape.cache.by_class.get(classes.epoch, list)
        for node_class in classes.all[len(by_class) :]:
            by_class.append(shape.code(_class_reason(shape.requirements, node_class)))
        return np.array([*by_class, shape.code(NO_NODE)], np.int32)

    def _remember(self, shape: Shape) -> None:
        """Note that the shape's answers are cached; those cached the longest give way."""
        self._cached.pop(shape, None)
        self._cached[shape] = None
        most = max(1, _MOST_CACHED // max(1, self.nodes.size))
        while len(self._cached) > most:
            self.drop_caches(next(iter(self._cached)))

    def _filter_pods(self, shape: Shape) -> Codes:
        codes = np.zeros(self.nodes.size, np.int32)
        self.spread.rule_out(shape, codes)
        self.affinity.rule_out(shape, codes)
        self.volumes.rule_out(shape, codes)
        return codes

    def _score_nodes(self, shape: Shape) -> tuple[Ints, Ints] | None:
        """Per node (N,) the preferred affinity and the untolerated taints; None if all are 0."""
        affinity = node_affinity.preference(shape.requirements, self.nodes)
        taints = taint_toleration.intolerable(shape.requirements, self.nodes)
        return (affinity, taints) if affinity.any() or taints.any() else None

    def _slots(self, shape: Shape) -> Ints:
        volumes = self.volumes.unused_by_driver(shape)
        if volumes is None:
            return self._own_slots(shape)
        key = (self._but_volumes(shape), volumes)
        shared = self._shared_slots.pop(key, None) or Cached()
        self._shared_slots[key] = shared
        if len(self._shared_slots) > _MOST_USAGES:
            del self._shared_slots[next(iter(self._shared_slots))]
        return shared.get(self.nodes.version, lambda: self._own_slots(shape))

    def _own_slots(self, shape: Shape) -> Ints:
        room = self._fresh_room(shape)
        if not shape.filter_match_ids:
            return room
        return np.where(self.pod_codes(shape) == 0, room, 0)

    def _fresh_room(self, shape: Shape) -> Ints:
        """Room for the free resources; if few rows changed, only those are computed again."""
        nodes, cached = self.nodes, shape.cache.room
        key = (nodes.generation, nodes.size, nodes.resources.epoch, self.devices.key(shape))
        before, now = cached.stamp, nodes.stamp
        if cached.key == key:
            rows = nodes.changed_since(before)
            if len(rows) * 8 < nodes.size:
                room = cached.get(key, lambda: self.room(shape))
                if len(rows):
                    room = room.copy()  # callers may still use the old array
                    room[rows] = self._room_at(shape, rows)
                cached.stamp = now
                return cached.set(key, room)
        room = self.room(shape)
        cached.stamp = now  # not before: what judges selectors may raise
        return cached.set(key, room)

    def _permitted_at(self, shape: Shape, rows: Ints | slice) -> Bools:
        """Like `permitted`, for these rows; few rows are looked at without caching all."""
        wants, nodes = shape.requirements, self.nodes
        current = shape.cache.node_codes.key == nodes.generation
        by_label = bool(wants.selector or wants.node_name) or wants.affinity is not None
        unfit = wants.unsupported or wants.excess
        if current or by_label or unfit or isinstance(rows, slice):
            return self.permitted(shape)[rows]
        admitted: Bools = self._class_codes(shape)[nodes.node_class[rows]] == 0
        return admitted

    def _room_at(self, shape: Shape, rows: Ints | slice) -> Ints:
        permitted = self._permitted_at(shape, rows)
        room = node_resources_fit.room(shape, self.nodes.free, rows, permitted)
        if shape.requirements.stage is not None:
            self._share(shape, shape.requirements.stage, rows, permitted, room)
        conflicts = self.conflicts(shape)
        if conflicts is not None:
            most = np.minimum(room, 1) if shape.exclusive else room
            room = np.where(conflicts[rows], 0, most)
        if shape.requirements.needs_devices:
            room = np.minimum(room, self.devices.copies(shape, rows))
        return room

    def _share(
        self, shape: Shape, stage: Stage, rows: Ints | slice, permitted: Bools, room: Ints
    ) -> None:
        """Put the room into `room`, (len(rows),), where other stages of the tree hold some."""
        if shape.request.missing:
            return
        every = np.arange(self.nodes.size)[rows] if isinstance(rows, slice) else rows
        for at in np.flatnonzero(np.isin(every, self.nodes.stages.rows(stage.tree))).tolist():
            if permitted[at]:
                slots = self.nodes.stages.slots(int(every[at]), shape.request, stage)
                room[at] = max(0, slots)


def _class_reason(wants: Requirements, node: NodeClass) -> str:
    """Why the filters for taints exclude nodes of this class; empty if they do not."""
    if not node_unschedulable.admits(wants, node):
        return node_unschedulable.REASON
    taint = taint_toleration.untolerated(wants, node)
    return "" if taint is None else f"{taint_toleration.REASON}{taint}"
