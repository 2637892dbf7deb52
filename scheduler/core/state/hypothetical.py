"""Workloads that do not exist, decided on the tables of the live state, which stays as it is.

A copy of a large cluster takes seconds; this costs what the workloads cost. They have tables of
pods and groups of their own. The tables of nodes are shared: everything happens in one trial on
them, and the match counts of new terms end with it. What would change another table of the live
state raises NeedsCopyError: the question needs a copy of the state.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from scheduler.core.devices.table import DeviceTable
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.pods.pod_selectors import MatchCount
from scheduler.core.state.state import State
from scheduler.core.values.devices import Allocation
from scheduler.core.values.model import ClaimKey, GroupKey, PodInfo
from scheduler.core.values.search_budget import nothing
from scheduler.core.volumes.assumed_volumes import AssumedVolume
from scheduler.core.volumes.volume_table import VolumeTable


class NeedsCopyError(Exception):
    """The workloads cannot be decided on the live state; the message names the reason."""


@contextmanager
def hypothetical(live: State, pause: Callable[[], None] = nothing) -> Iterator[HypotheticalState]:
    """Let workloads be added and decided inside; the live state is the same afterwards.

    Nothing else may change the live state meanwhile. `pause` is called as in a search.
    """
    # Before the trial: these changes are due anyway, and a trial cannot contain them.
    for _ in live.catch_up():
        pause()
    for _ in live.units.refresh_in_steps():
        pause()
    with live.nodes.trial():
        state = HypotheticalState(live, pause)
        try:
            yield state
        finally:
            state.end()


class HypotheticalState(State):
    """A state with pods and groups of its own, and the nodes of the `live` state.

    First all workloads are added. After `complete`, roots are decided one after the other.
    """

    def __init__(self, live: State, pause: Callable[[], None]) -> None:
        """Share the tables of the cluster. Only `hypothetical` calls this, in a trial."""
        # Not the base class's: it would create tables of its own.
        self._live = live
        self._pause = pause
        self._lowest = math.inf
        self.nodes = live.nodes
        self.devices = live.devices
        self.topologies = live.topologies
        self.selectors = live.selectors
        self.volumes = live.volumes
        self.framework = live.framework
        self.release = live.release
        self.disruption_budgets = live.disruption_budgets
        self.nominations = live.nominations
        self.starvation = live.starvation
        self.modest_classes = set(live.modest_classes)
        self._begin_workloads()
        # A group may name a Workload of the cluster, which it must match.
        self.forest.templates = dict(live.forest.templates)

    @property
    def known_groups(self) -> Mapping[GroupKey, Group]:
        """The groups of both states, by key."""
        return ChainMap(self.forest.groups, self._live.forest.groups)

    @property
    def own_devices(self) -> DeviceTable:
        """Raise NeedsCopyError: the devices are those of the live state."""
        raise NeedsCopyError("device objects and ResourceClaims")

    @property
    def own_volumes(self) -> VolumeTable:
        """Raise NeedsCopyError: the volumes are those of the live state."""
        raise NeedsCopyError("volumes and claims")

    def set_pod(self, info: PodInfo) -> Pod | None:
        """Add a waiting pod. Raises NeedsCopyError."""
        self._pause()
        wants = info.requirements
        if info.node or info.nominated or info.expected:
            raise NeedsCopyError("pods with a node, and expected pods")
        if wants.claims or wants.volumes:
            raise NeedsCopyError("volumes and claims")
        names = [name for container in wants.extended for name, _, _ in container.amounts]
        if wants.asks or info.consumer is not None or self.devices.extended.classes_of(names):
            raise NeedsCopyError("device objects and ResourceClaims")
        return super().set_pod(info)

    def complete(self) -> None:
        """End the additions. Raises NeedsCopyError if they concern what exists."""
        while self.forest.catch_up(1000):
            self._pause()
        for _ in self.pod_shapes.catch_up():
            self._pause()
        known = (self._live.forest.groups, self._live.singles, self._live.held)
        for key in (*self.forest.groups, *self.singles, *self.held):
            if any(key in each for each in known) or key in self.nominations:
                raise NeedsCopyError("a group or pod that exists")
        self._check_terms()
        # Waiting pods are no units, and their replicas are none of the live pods' counts.
        self.units, self.replicas = self._live.units, self._live.replicas

    def _check_terms(self) -> None:
        """Raise NeedsCopyError if a new term selects live pods, whose shapes it would change."""
        shapes = (shape.requirements for shape in self.shapes)
        for match_count in self.selectors.needed_by_none_but(shapes):
            if self._selects_live_pods(match_count):
                raise NeedsCopyError("a new term that selects pods of the cluster")

    def _selects_live_pods(self, match_count: MatchCount) -> bool:
        index, namespaces = self._live.pod_shapes.label_index, self.selectors.namespaces
        # The index of the values ends with its last user.
        index.add_user(match_count)
        try:
            for pod in index.of(match_count):
                self._pause()
                if match_count.counts(pod.info, namespaces):
                    return True
        finally:
            index.remove_user(match_count)
        return False

    def assume(
        self,
        pods: Iterable[Pod],
        rows: Iterable[int],
        volumes: Mapping[ClaimKey, AssumedVolume] | None = None,
        devices: Mapping[ClaimKey, Allocation] | None = None,
    ) -> None:
        """Take the resources of placed pods in the trial, for the roots that are decided later."""
        if volumes or devices:
            raise NeedsCopyError("volumes and claims")
        one = np.ones(1, np.int64)
        for pod, row in zip(pods, rows, strict=True):
            self._pause()
            self.framework.occupy(pod.shape, np.array([row], np.int64), one)
            self._lowest = min(self._lowest, pod.priority)

    def check_units(self, priority: int) -> None:
        """Raise NeedsCopyError if pods that were placed before could be evicted."""
        if self._lowest < priority:
            raise NeedsCopyError("workloads of higher priority that are decided after others")

    def remove_pod(self, uid: str) -> None:
        """Raise NeedsCopyError: the pods that are evicted are those of the live state."""
        raise NeedsCopyError(f"workloads that are decided after the eviction of pod {uid}")

    def end(self) -> None:
        """End the match counts of new terms, and the results that are cached for the pods."""
        for match_count in self.shapes.end():
            self.selectors.forget(match_count)
