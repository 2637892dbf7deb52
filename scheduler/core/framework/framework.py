"""Framework: runs the plugins over all nodes for one shape at a time (filter, score, reserve).

It corresponds to kube-scheduler's framework.Framework, which runs them for one pod and one node. As
there, each plugin has its own rules; this module decides their order and combines their results.
Results of node filters are cached until the nodes change. Results that depend on other pods or on
free resources are cached until any of those change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np

from scheduler.core.framework.default_plugins import Plugins
from scheduler.core.framework.domain_quotas import Preference, Quotas
from scheduler.core.framework.events import reaches
from scheduler.core.framework.node_resources_balanced_allocation import allocation_at
from scheduler.core.framework.node_resources_fit import usage_at
from scheduler.core.framework.plugin import Plugin
from scheduler.core.nodes.node_classes import NodeClass
from scheduler.core.nodes.node_table import Bools, Ints, NodeTable
from scheduler.core.pods.never_fits import never_fits
from scheduler.core.pods.pod_selectors import PodMatches, PodSelectors
from scheduler.core.pods.shapes import NO_NODE, Cached, Codes, Shape
from scheduler.core.topology.topology import Domains
from scheduler.core.values.model import Requirements

_T = TypeVar("_T")

_MOST_CACHED: Final = 8_000_000
"""Limit of cached results, as shapes times nodes; each takes up to 60 bytes."""

_MOST_USAGES: Final = 64
"""Limit of different requests with a cached utilisation, and of cached slots that shapes share."""

_MOST_REASONS: Final = 1024
"""Limit of reasons of a shape; beyond it, they are dropped when the nodes are filtered again."""


class Framework:
    """Plugins of one cluster. Callers must not write to the arrays it returns: they are shared."""

    def __init__(
        self,
        nodes: NodeTable,
        selectors: PodSelectors,
        plugins: Plugins,
        more: Sequence[Plugin] = (),
    ) -> None:
        """Create a framework; `more` plugins run after the default ones."""
        self.nodes = nodes
        self.plugins = plugins
        self._selectors = selectors
        self._cached: dict[Shape, None] = {}
        self._shared_slots: dict[object, Cached[Ints]] = {}
        self._usages: dict[tuple[object, ...], Cached[Ints]] = {}
        # Most plugins override few methods. Calling only these keeps the cost of a pod low.
        self._at = {
            name: tuple(it for it in (*plugins, *more) if getattr(type(it), name) is not point)
            for name, point in vars(Plugin).items()
            if callable(point)
        }
        """For each extension point, the plugins that override it."""
        self.reach = reaches(plugin.events for plugin in (*plugins, *more))
        """Reach of each event that can make a rejected pod fit, as the plugins state it."""

    def shape(
        self, index: int, wants: Requirements, matches: PodMatches, like: Shape | None = None
    ) -> Shape:
        """Create a shape, with what the plugins derive from its requirements and matches alone.

        `like` is a shape with the same requirements, if one is known.
        """
        read = [plugin.pre_filter(wants, matches) for plugin in self._at["pre_filter"]]
        return Shape(
            index,
            wants,
            matches,
            request=like.request if like else self.nodes.resources.request(wants.requests),
            filter_match_ids=frozenset().union(*(it.filter_match_ids for it in read)),
            score_match_ids=frozenset().union(*(it.score_match_ids for it in read)),
            needs_other_pods=any(it.needs_other_pods for it in read),
        )

    def drop_caches(self, shape: Shape) -> None:
        """Free the results per node of a shape that no pending pod has."""
        self._cached.pop(shape, None)
        for plugin in self._at["forget"]:
            plugin.forget(shape)
        shape.drop_caches()

    @property
    def cached(self) -> int:
        """Number of shapes with cached results per node."""
        return len(self._cached)

    # Filter

    def node_codes(self, shape: Shape) -> Codes:
        """Return the code (N,) of the filters that ignore other pods and free resources."""
        key = self.nodes.generation
        return _current(shape.cache.node_codes, key, lambda: self._filter_nodes(shape))

    def permitted(self, shape: Shape) -> Bools:
        """Return for each node (N,) whether the node filters admit the shape."""
        permitted: Bools = self.node_codes(shape) == 0
        return permitted

    def pod_codes(self, shape: Shape) -> Codes:
        """Return for each node (N,) the code of filters that depend on other pods and volumes."""
        return _current(shape.cache.pod_codes, self.nodes.version, lambda: self._filter_pods(shape))

    def slots(self, shape: Shape) -> Ints:
        """Return the number of the shape's pods that fit on each node (N,), 0 if a filter fails."""
        return _current(shape.cache.slots, self.nodes.version, lambda: self._slots(shape))

    def slots_in(self, shape: Shape, rows: Ints | None) -> Ints:
        """Return the slots of the given rows, (len(rows),), or of all; cheap for few rows."""
        if rows is None:
            return self.slots(shape)
        if shape.cache.slots.key == self.nodes.version or shape.volumes:
            # Volume filters run for all nodes at once; shapes that differ in volumes share them.
            return self.slots(shape)[rows]
        counts = self._capacity_at(shape, rows)
        if shape.filter_match_ids:
            counts[self.pod_codes(shape)[rows] != 0] = 0
        return counts

    def optimistic_slots(self, shape: Shape, rows: Ints | None) -> Ints:
        """Return `slots_in` as if the other pods that the shape needs were already placed."""
        if shape.needs_other_pods:
            capacity = self.capacity(shape)
            return capacity if rows is None else capacity[rows]
        return self.slots_in(shape, rows)

    def may_fit(self, shapes: Iterable[Shape], rows: Ints) -> list[Shape]:
        """Return the shapes that may fit on one of the rows, by checks that are cheap for many.

        The checks leave out shapes that lack a resource on all of the rows, whose volumes are in
        use, or that have more volumes than can be attached there.
        """
        may = list(shapes)
        for plugin in self._at["may_fit"]:
            may = plugin.may_fit(may, rows)
        return may

    def capacity(self, shape: Shape) -> Ints:
        """Return the pods that resources, ports, disks and node filters of each node (N,) admit."""
        return self._capacity_at(shape, slice(self.nodes.size))

    def empty_capacity(self, shape: Shape) -> Ints:
        """Return the pods that each node (N,) would admit without running pods."""
        capacity = self._counted(shape, slice(self.nodes.size), self.permitted(shape), empty=True)
        return np.minimum(capacity, 1) if shape.exclusive else capacity

    def conflicts(self, shape: Shape) -> Bools | None:
        """Return for each node (N,) whether a pod there uses a host port or disk of the shape.

        Return None if the shape has neither. If it is `exclusive`, its own pods conflict as well.
        """
        nodes, uses = self.nodes, shape.uses
        if not uses:
            return None
        key = (nodes.exclusive_uses.version, nodes.size)
        return _current(shape.cache.conflicts, key, lambda: nodes.using(uses, shape.load.stage))

    def rejects(self, shape: Shape) -> str:
        """Return the first plugin's reason why no node can take such pods; empty if one may."""
        return next(filter(None, (plugin.rejects(shape) for plugin in self._at["rejects"])), "")

    def advice(self, shape: Shape, reason: str) -> str:
        """Return the change that helps against the reason, by the plugin whose it is; or empty."""
        found = (plugin.advice(shape, reason) for plugin in self._at["advice"])
        return next(filter(None, found), "")

    def insufficient(self, shape: Shape, capacity: Ints) -> Iterator[tuple[str, Bools]]:
        """Yield each reason with the nodes (N,) where it rejects more pods than `capacity` (N,)."""
        for plugin in self._at["insufficient"]:
            yield from plugin.insufficient(shape, capacity)

    def most(self, shape: Shape, capacity: Ints, domains: Domains | None = None) -> Ints:
        """Return an upper bound of the shape's pods that fit, if nodes (N,) have this `capacity`.

        The result is (D,), for each of the domains, or (1,) for all nodes together.
        """
        parts = np.zeros_like(capacity) if domains is None else domains.codes
        size = 1 if domains is None else len(domains.values)
        inside = parts >= 0
        found = np.bincount(parts[inside], capacity[inside], minlength=size).astype(np.int64)
        # Each bound alone is true, so the lowest one is.
        for plugin in self._at["most"]:
            bound = plugin.most(shape, capacity, parts, size)
            found = found if bound is None else np.minimum(found, bound)
        return found

    def independent(self, shape: Shape) -> bool:
        """Return True if only free resources, node filters and devices of nodes decide."""
        return not (shape.filter_match_ids or self._order_matters(shape))

    def alone(self, shape: Shape) -> bool:
        """Return True if pods and devices of other nodes do not affect the results for a node."""
        matched = shape.score_match_ids or self._selectors.any_pods(shape.filter_match_ids)
        if matched:
            return False
        for plugin in self._at["is_local"]:  # noqa: SIM110 - a generator costs more
            if not plugin.is_local(shape):
                return False
        return True

    def shared_slots(self, shape: Shape, rows: Ints | None) -> Ints:
        """Return the number of pods on each row, (len(rows),), that use capacity of other stages.

        Such pods take no free resources. `rows` None means all rows.
        """
        stage, stages = shape.requirements.stage, self.nodes.stages
        every = np.arange(self.nodes.size) if rows is None else rows
        found = np.zeros(len(every), np.int64)
        if stage is not None:
            # Only where the tree has pods or places: on other rows there is nothing to share.
            for at in np.flatnonzero(np.isin(every, stages.rows(stage.tree))).tolist():
                found[at] = max(0, stages.shared_slots(int(every[at]), shape.request, stage))
        return found

    def in_waves(self, shape: Shape) -> bool:
        """Return True if the node of one pod affects the filter or score of the next one."""
        return shape.order_sensitive or self._order_matters(shape)

    def _order_matters(self, shape: Shape) -> bool:
        for plugin in self._at["order_matters"]:  # noqa: SIM110 - a generator costs more
            if plugin.order_matters(shape):
                return True
        return False

    def quotas(self, shape: Shape, *, preferences: bool) -> Quotas:
        """Return the limits of the next pods to place before the plugins must run again."""
        preferred: list[Preference] = []
        if preferences and shape.score_match_ids:
            preferred = [
                it for plugin in self._at["preferences"] for it in plugin.preferences(shape)
            ]
        left = [plugin.remaining_pods(shape) for plugin in self._at["remaining_pods"]]
        return Quotas.of(
            [it for plugin in self._at["domain_quotas"] for it in plugin.domain_quotas(shape)],
            [it for plugin in self._at["skew_limits"] for it in plugin.skew_limits(shape)],
            preferred,
            single=any(plugin.one_at_a_time(shape) for plugin in self._at["one_at_a_time"]),
            most=min((it for it in left if it is not None), default=None),
        )

    # Score

    def usage(self, shape: Shape) -> tuple[Ints, Ints]:
        """Return the mean use of requested resources, and what a pod adds, in thousandths (N,)."""
        used, step = self._by_row(
            ("usage", shape.request.amounts), lambda rows: np.stack(self.usage_at(shape, rows))
        )
        return used, step

    def allocation(self, shape: Shape) -> Ints:
        """Return kube-scheduler's scores of the resources that nodes (N,) have free.

        See `allocation_at` in `node_resources_balanced_allocation`.
        """
        key = ("allocation", shape.request.amounts, shape.requirements.assumed)
        found = self._by_row(key, lambda rows: allocation_at(shape, self.nodes, rows)[None])
        points: Ints = found[0]
        return points

    def _by_row(self, key: tuple[object, ...], compute: Callable[[Ints], Ints]) -> Ints:
        """Return values (., N) that shapes with this key share; only changed rows are computed.

        `compute` returns the values of some rows, (., len(rows)).
        """
        nodes, cached = self.nodes, self._usages.pop(key, None) or Cached()
        # Inserted again, so that the first key is the least recently used one.
        self._usages[key] = cached
        if len(self._usages) > _MOST_USAGES:
            del self._usages[next(iter(self._usages))]
        valid = (nodes.size, nodes.resources.epoch)
        values = _current(cached, valid, lambda: compute(np.arange(nodes.size)))
        rows = nodes.changed_since(cached.stamp) if cached.stamp >= 0 else ()
        if len(rows):
            values[:, rows] = compute(np.asarray(rows))
        cached.stamp = nodes.stamp
        return values

    def usage_at(self, shape: Shape, rows: Ints) -> tuple[Ints, Ints]:
        """Return the utilisation of the given rows, (len(rows),), as in `usage`."""
        return usage_at(shape, self.nodes, rows)

    def preference(self, shape: Shape, rows: Ints, *, points: bool = False) -> Ints | None:
        """Return the score of each row, (len(rows),), in thousandths, or None if all are equal.

        With `points`, kube-scheduler's numbers: each plugin's score from 0 to 100, rounded down,
        times its weight.
        """
        preference: Ints | None = None
        for weight, score in self._scores(shape, rows):
            own = _in_points(score, abs(weight)) if points else score
            own = own if weight >= 0 else -own
            preference = own if preference is None else preference + own
        return preference

    def _scores(self, shape: Shape, rows: Ints) -> Iterator[tuple[int, Ints]]:
        """Yield the weight of each plugin that scores the shape, and its scores (len(rows),)."""
        for plugin in self._at["score"]:
            own = plugin.score(shape, rows)
            if own is not None:
                yield plugin.weight, own
        for weight, values in self._node_scores(shape) if len(rows) else ():
            # Normalised over the given rows, as kube-scheduler does over the feasible nodes.
            score = values[rows]
            yield weight, score * abs(weight) // max(1, int(score.max()))

    def start(self, shape: Shape, rows: Ints, capacity: Ints, count: int) -> int:
        """Return the index of the row for the first of `count` pods; rows are best first."""
        for plugin in self._at["start"]:
            at = plugin.start(shape, rows, capacity, count)
            if at is not None:
                return at
        return 0

    # Reserve

    def only_counts(self, shape: Shape) -> bool:
        """Return True if `reserve` only takes resources and counts matches for the shape."""
        if shape.requirements.stage is not None or shape.uses:
            return False
        for plugin in self._at["only_counts"]:  # noqa: SIM110 - a generator costs more
            if not plugin.only_counts(shape):
                return False
        return True

    def reserve(self, shape: Shape, rows: Ints, counts: Ints, *, devices: bool = True) -> bool:
        """Put `counts[i]` pods on `rows[i]`, or remove them if negative; undone with a trial.

        Rows must be distinct, and all counts of the same sign. Volumes are assumed or dropped as
        well, and `devices` are taken, unless the claims of pods with nodes hold them. Return True
        if there was enough for all, as is the case within `slots`.
        """
        complete = True
        # Every plugin runs, even after one that lacks something: pods that have their nodes anyway
        # use the rest all the same.
        for plugin in self._at["reserve"]:
            if devices or not plugin.by_claims:
                complete = plugin.reserve(shape, rows, counts) and complete
        self.nodes.take(rows, counts, shape.load)
        if len(rows):
            # After the nodes count the pods: plugins drop what is assumed for claims without users.
            # The first row is enough, because pods that decide a volume are placed one at a time.
            for plugin in self._at["account"]:
                plugin.account(shape, int(rows[0]), more=bool(counts[0] > 0))
        return complete

    def occupy(self, shape: Shape, rows: Ints, counts: Ints, *, devices: bool = True) -> None:
        """Reserve for pods that have these nodes already, even if there is not enough for them."""
        _ = self.reserve(shape, rows, counts, devices=devices)

    def account(self, shape: Shape, row: int, count: int = 1) -> None:
        """Count pods that came to the node (negative: that left it), outside of any trial."""
        self.nodes.take_one(row, shape.load, count)
        # `AssumedVolumes.keep` assumes the volumes of new pods before this, so here they only drop.
        if count < 0:
            for plugin in self._at["account"]:
                plugin.account(shape, row, more=False)

    def _filter_nodes(self, shape: Shape) -> Codes:
        nodes, wants = self.nodes, shape.requirements
        if len(shape.reasons) > _MOST_REASONS:
            shape.drop_caches()  # most are about deleted taints and claims
        self._remember(shape)
        # No node can take such pods, so the filters are skipped and all nodes get one reason.
        if wants.unsupported or wants.excess:
            return np.full(nodes.size, shape.code(never_fits(shape, nodes)), np.int32)
        codes: Codes = self._class_codes(shape)[nodes.node_class[: nodes.size]]
        for plugin in self._at["filter_nodes"]:
            plugin.filter_nodes(shape, codes)
        return codes

    def _class_codes(self, shape: Shape) -> Codes:
        """Return the code of each node class, and last NO_NODE, for vacant rows (class -1)."""
        classes = self.nodes.classes
        # Within an epoch classes are only added, so the known ones need no second check.
        by_class = _current(shape.cache.by_class, classes.epoch, list)
        for node_class in classes.all[len(by_class) :]:
            by_class.append(shape.code(self._class_reason(shape.requirements, node_class)))
        return np.array([*by_class, shape.code(NO_NODE)], np.int32)

    def _class_reason(self, wants: Requirements, node: NodeClass) -> str:
        """Return the reason why nodes of this class are excluded, or an empty string."""
        for plugin in self._at["filter_class"]:
            if reason := plugin.filter_class(wants, node):
                return reason
        return ""

    def _remember(self, shape: Shape) -> None:
        """Record that the shape has cached results, and drop the oldest ones beyond the limit."""
        self._cached.pop(shape, None)
        self._cached[shape] = None
        most = max(1, _MOST_CACHED // max(1, self.nodes.size))
        while len(self._cached) > most:
            self.drop_caches(next(iter(self._cached)))

    def _filter_pods(self, shape: Shape) -> Codes:
        codes = np.zeros(self.nodes.size, np.int32)
        for plugin in self._at["filter_pods"]:
            plugin.filter_pods(shape, codes)
        return codes

    def _node_scores(self, shape: Shape) -> list[tuple[int, Ints]]:
        """Return the weight and the scores (N,) of each plugin that scores nodes alone."""
        return _current(
            shape.cache.node_scores,
            self.nodes.generation,
            lambda: [
                (plugin.weight, score)
                for plugin in self._at["score_nodes"]
                if (score := plugin.score_nodes(shape)) is not None
            ],
        )

    def _slots(self, shape: Shape) -> Ints:
        # Thousands of pods may differ only in their volumes, and each then has a shape of its own.
        key = self._equal_capacity(shape)
        if key is None:
            return self._own_slots(shape)
        shared = self._shared_slots.pop(key, None) or Cached()
        self._shared_slots[key] = shared
        if len(self._shared_slots) > _MOST_USAGES:
            del self._shared_slots[next(iter(self._shared_slots))]
        return _current(shared, self.nodes.version, lambda: self._own_slots(shape))

    def _equal_capacity(self, shape: Shape) -> object:
        for plugin in self._at["equal_capacity"]:
            key = plugin.equal_capacity(shape)
            if key is not None:
                return key
        return None

    def _own_slots(self, shape: Shape) -> Ints:
        capacity = self._current_capacity(shape)
        # Filters that read no match counts have run as node filters already.
        if not shape.filter_match_ids:
            return capacity
        return np.where(self.pod_codes(shape) == 0, capacity, 0)

    def _current_capacity(self, shape: Shape) -> Ints:
        """Return the current room; if few rows changed, only those are computed again."""
        nodes, cached = self.nodes, shape.cache.capacity
        keys = tuple([plugin.key(shape) for plugin in self._at["key"]])
        key = (nodes.generation, nodes.size, nodes.resources.epoch, keys)
        before, now = cached.stamp, nodes.stamp
        if cached.key == key:
            # With more changed rows than an eighth, one pass over all of them is cheaper.
            rows = nodes.changed_since(before)
            if len(rows) * 8 < nodes.size:
                capacity = cached.value
                if len(rows):
                    capacity = capacity.copy()  # callers may still use the old array
                    capacity[rows] = self._capacity_at(shape, rows)
                cached.stamp, cached.value = now, capacity
                return capacity
        capacity = self.capacity(shape)
        # Not before `capacity`: it may raise, and the old result is not current.
        cached.key, cached.stamp, cached.value = key, now, capacity
        return capacity

    def _permitted_at(self, shape: Shape, rows: Ints | slice) -> Bools:
        """Return `permitted` for these rows; a few rows are checked without caching all of them."""
        wants, nodes = shape.requirements, self.nodes
        current = shape.cache.node_codes.key == nodes.generation
        by_label = bool(wants.selector or wants.node_name) or wants.affinity is not None
        unfit = wants.unsupported or wants.excess
        # Labels are compared for all nodes at once; only taints, by class, are cheap for few.
        if current or by_label or unfit or isinstance(rows, slice):
            return self.permitted(shape)[rows]
        admitted: Bools = self._class_codes(shape)[nodes.node_class[rows]] == 0
        return admitted

    def _capacity_at(self, shape: Shape, rows: Ints | slice) -> Ints:
        permitted = self._permitted_at(shape, rows)
        capacity = self._counted(shape, rows, permitted, empty=False)
        conflicts = self.conflicts(shape)
        if conflicts is not None:
            most = np.minimum(capacity, 1) if shape.exclusive else capacity
            capacity = np.where(conflicts[rows], 0, most)
        return capacity

    def _counted(self, shape: Shape, rows: Ints | slice, permitted: Bools, *, empty: bool) -> Ints:
        """Return the room by the counts of all plugins, (len(rows),)."""
        capacity: Ints | None = None
        for plugin in self._at["capacity"]:
            capacity = plugin.capacity(shape, rows, permitted, capacity, empty=empty)
        if capacity is None:
            raise AssertionError("no plugin counts")
        return capacity


def _in_points(score: Ints, weight: int) -> Ints:
    """Return a plugin's score in thousandths as kube-scheduler's points, times the weight."""
    # The score is `weight` at most, and 100 points before kube-scheduler multiplies them.
    return score // (weight // 100) * (weight // 1000) if weight >= 1000 else score // 10


def _current(cached: Cached[_T], key: object, compute: Callable[[], _T]) -> _T:
    """Return the value for this key; compute it, with stamp -1, if it is cached for another one."""
    if key != cached.key:
        cached.stamp = -1
        cached.value, cached.key = compute(), key
    return cached.value
