"""The shape of each pod: what it requires, and the match counts that concern it.

A term about other pods creates match counts. These change the matches, and so the shapes, of all
pods that the term selects. Two things bound the cost: labels that narrow down the pods, and a limit
of terms without such a label for the pods of one namespace. If a term selects many pods, most get
their new shapes later, in steps, before the next decision.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import islice
from typing import Final

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.groups.group_affinity import terms_to_consider
from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.pods.pod_selectors import (
    MOST_ALIKE,
    MatchCount,
    PodMatches,
    PodSelectors,
    Selectors,
)
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.nominations import Nominations
from scheduler.core.state.pod_label_index import PodLabelIndex
from scheduler.core.state.shape_registry import Shapes
from scheduler.core.state.units import Units
from scheduler.core.values.model import PodInfo, Requirements

_AT_ONCE: Final = 128
"""Pods that one step checks against a selector: about two milliseconds."""

_RESHAPED: Final = 32
"""Pods that one step gives another shape, each by its own requirements: as long."""

_END: Final = object()
"""A value that no step returns."""

_Change = Callable[[PodMatches, MatchCount], PodMatches]


class PodShapes:
    """The shapes of `pods` (by UID). `affects_others` is set once counts of running pods changed.

    `crowded` are the UIDs of pods whose terms are ignored, because their namespace has too many.
    """

    def __init__(
        self,
        pods: Mapping[str, Pod],
        *,
        nodes: NodeTable,
        selectors: PodSelectors,
        shapes: Shapes,
        units: Units,
        change_shape: Callable[[Pod, Shape], None],
        group_of: Callable[[PodInfo], Group | None],
    ) -> None:
        """Use `change_shape` to give a pod another shape and count it with that everywhere.

        `group_of` returns the PodGroup of a pod, if it is known.
        """
        self.label_index = PodLabelIndex(pods)
        self.crowded: dict[str, None] = {}
        self.affects_others = False
        self._pods = pods
        self._nodes = nodes
        self._selectors = selectors
        self._shapes = shapes
        self._units = units
        self._change_shape = change_shape
        self._group_of = group_of
        self._postponed: deque[Callable[[], None]] = deque()
        self._by_group: set[str] = set()

    def remove(self, info: PodInfo) -> None:
        """Remove a pod that was deleted."""
        self.label_index.remove(info)
        self.crowded.pop(info.uid, None)
        self._by_group.discard(info.uid)

    def discard(self, uid: str) -> None:
        """Remove a pod whose change broke off, from every index that may contain it."""
        self.label_index.discard(uid)
        self.crowded.pop(uid, None)
        self._by_group.discard(uid)

    def relabel_namespace(self, name: str) -> None:
        """Recompute the shapes of a namespace's pods after its labels changed."""
        self._do_for(self.label_index.within(name), self._reshape)

    def shape_of(self, info: PodInfo) -> Shape:
        """Return the pod's shape.

        Pods that a new match count of its terms selects change their shape.
        """
        wants = self._considered(info)
        if wants.needs_counts:
            wants = self._counted(info, wants)
        else:
            self.crowded.pop(info.uid, None)
        return self._shapes.intern(wants, self._selectors.matches(info, wants))

    def _counted(self, info: PodInfo, wants: Requirements) -> Requirements:
        """Count the pods that the pod's terms select. Return the requirements that apply."""
        if self._selectors.crowded(wants, info.namespace):
            wants = _without_terms(wants)
            # The `excess` keeps the pod from being scheduled. Without it, an ignored anti-affinity
            # would let the pod run where it must not.
            self.crowded[info.uid] = None
        else:
            self.crowded.pop(info.uid, None)
        new = self._selectors.register(wants, info.namespace)
        for match_count in new:
            self.label_index.add_user(match_count)
        self._change_matches(new, PodMatches.and_of)
        return wants

    def group_moved(self, group: Group) -> None:
        """Reconsider the terms of a group's pods after its constraints or those above changed."""
        # Most clusters have no pod whose terms depend on its group.
        if self._by_group:
            self._continue(self._below(group))

    def _below(self, group: Group) -> Iterator[None]:
        """Reconsider the terms of all pods under a group, in short steps."""
        for number, each in enumerate(group.subtree(), 1):
            members = list(each.members.values())
            for first in range(0, len(members), _RESHAPED):
                self._consider_terms(members[first : first + _RESHAPED])
                yield
            if number % _AT_ONCE == 0:
                yield

    def _continue(self, work: Iterator[None]) -> None:
        """Run one step, and postpone the next."""
        if next(work, _END) is None:
            self._postponed.append(partial(self._continue, work))

    def _consider_terms(self, pods: Sequence[Pod]) -> None:
        """Give pods the shapes for their terms about their own group, as that group is now."""
        for pod in pods:
            # Later steps run after other events. The pod may be deleted or recreated by then.
            if pod.info.uid not in self._by_group or self._pods.get(pod.info.uid) is not pod:
                continue
            if self._considered(pod.info) == pod.shape.requirements:
                continue
            shape = self.shape_of(pod.info)
            if shape is not pod.shape:
                self._change_shape(pod, shape)

    def _considered(self, info: PodInfo) -> Requirements:
        """Return the requirements together with those that follow from the pod's group.

        These are the affinity to the group that no constraint covers, and the tree of the pod's
        stage.
        """
        wants = info.requirements
        if not info.group_affinity and wants.stage is None:
            return wants
        self._by_group.add(info.uid)
        group = self._group_of(info)
        if wants.stage is not None:
            own = (info.group_kind, info.namespace, info.group or "")
            # Until the group is known, its own key separates this tree's stages from others.
            tree = own if group is None else group.top.key
            wants = replace(wants, stage=replace(wants.stage, tree=tree))
        terms = terms_to_consider(info.group_affinity, group)
        if not terms:
            return wants
        return replace(wants, required_affinity=(*wants.required_affinity, *terms))

    def sweep(self, nominations: Nominations) -> None:
        """Free unused shapes and match counts. Runs in time proportional to what changed."""
        if not self._shapes.idle:
            return
        # A shape without a match count is another shape; the old one may be idle now.
        while ended := self._shapes.sweep(nominations.uses):
            self._change_matches(ended, PodMatches.without)
            self._do([partial(self._forget, ended)])

    def _forget(self, ended: list[MatchCount]) -> None:
        """Forget match counts, after the last pod has lost them from its matches."""
        for match_count in ended:
            self.label_index.remove_user(match_count)
            self._selectors.forget(match_count)
        # The namespace has fewer terms now, so as many crowded pods may get theirs back.
        self._reconsider(len(ended))

    @property
    def behind(self) -> bool:
        """True if `catch_up` has work to do. Until then some counts are not complete."""
        return bool(self._postponed)

    def catch_up(self) -> Iterator[None]:
        """Do the postponed work, in short steps."""
        while self._postponed:
            self._postponed.popleft()()
            yield

    def _do_for(self, pods: Iterable[Pod], act: Callable[[Sequence[Pod]], None]) -> None:
        """Call `act` for a few of the pods at a time."""
        each = list(pods)
        some = (each[first : first + _AT_ONCE] for first in range(0, len(each), _AT_ONCE))
        self._do(partial(act, part) for part in some)

    def _do(self, steps: Iterable[Callable[[], None]]) -> None:
        """Run the first step unless others are pending; `catch_up` runs the rest in this order."""
        rest = iter(steps)
        # Steps that wait must run first: an earlier change of matches must not undo a later one.
        if not self._postponed:
            next(rest, _nothing)()
        self._postponed.extend(rest)

    def _reconsider(self, most: int) -> None:
        """Reconsider the terms of so many crowded pods: their namespaces may have fewer by now."""
        for uid in list(islice(self.crowded, most)):
            del self.crowded[uid]  # back to the end, if it stays crowded
            pod = self._pods.get(uid)
            if pod is None:
                continue  # its creation broke off
            shape = self.shape_of(pod.info)
            if shape is not pod.shape:
                self._change_shape(pod, shape)

    def _change_matches(
        self,
        match_counts: Iterable[MatchCount],
        change: _Change,
    ) -> None:
        """Apply `change` to the matches of the pods that the match counts select."""
        alike: dict[tuple[Selectors, bool], list[MatchCount]] = {}
        for each in match_counts:
            alike.setdefault((each.selectors, each.skip_terminating), []).append(each)
        for same in alike.values():
            # Pods that are created later have the match counts in their matches from the start.
            pods = self.label_index.of(same[0])
            self._do_for(pods, partial(self._change_selected, same, change))

    def _change_selected(
        self, match_counts: list[MatchCount], change: _Change, pods: Sequence[Pod]
    ) -> None:
        """Apply the change, once per shape, for match counts that select the same of these pods.

        Some of the pods may have been deleted or changed since.
        """
        shapes: dict[Shape, Shape] = {}
        running: Counter[Shape] = Counter()
        for pod in pods:
            if self._pods.get(pod.info.uid) is not pod:
                continue
            # The index returns candidates only.
            if not match_counts[0].counts(pod.info, self._selectors.namespaces):
                continue
            old = pod.shape
            if old not in shapes:
                matches = reduce(change, match_counts, old.matches)
                shapes[old] = self._shapes.intern(old.requirements, matches, old)
            new = shapes[old]
            if new is old:
                continue
            # Its root may be refused with the old shape, so the queue must learn about the change.
            if pod.waiting:
                self._change_shape(pod, new)
                continue
            # There may be thousands. `_change_shape` would update every counter; here only these
            # match counts differ, and those that end are dropped.
            pod.shape = new
            running[old] += 1
            self._units.stale(pod)
            for match_count in match_counts:
                if pod.row >= 0 and match_count.id in new.matches.counted:
                    self._nodes.match_counts.add_one(match_count.id, pod.row, 1, new.load.stage)
        for old, count in running.items():
            self._shapes.count(old, -count, 0)
            self._shapes.count(shapes[old], count, 0)
        # Cached results of pod filters depend on the counts.
        self._nodes.touch()
        self.affects_others = self.affects_others or bool(running)

    def _reshape(self, pods: Iterable[Pod]) -> None:
        """Recompute the pods' matches and shapes; their nodes stay the same."""
        for pod in pods:
            if self._pods.get(pod.info.uid) is not pod:
                continue  # deleted since
            wants = pod.shape.requirements
            shape = self._shapes.intern(wants, self._selectors.matches(pod.info, wants))
            if shape is not pod.shape:
                self._change_shape(pod, shape)


def _nothing() -> None:
    """Do nothing: the default step."""


def _without_terms(wants: Requirements) -> Requirements:
    """Return the requirements of a pod whose terms about other pods are ignored."""
    return replace(
        wants,
        required_affinity=(),
        required_anti_affinity=(),
        preferred_affinity=(),
        spread=(),
        preferred_spread=(),
        excess=wants.excess
        or f"terms about other pods that no label with In or Exists tells apart from {MOST_ALIKE}"
        " of its namespace",
    )
