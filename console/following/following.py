"""The views that are kept current, and the events that change them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from api.wording import count
from console.base.messages import Event
from console.base.times import rfc3339
from console.state.state import Changed, ClusterState, LiveCluster
from console.views.cluster_map import ClusterMap
from console.views.queue import QueueView
from console.views.refusals import (
    Cause,
    blocker_of,
    cause,
    of_blocker,
    safely,
    status_blocker,
)
from console.views.workload_index import WorkloadIndex
from kube.base.clock import Clock, SystemClock
from scheduler.core.groups.forest import Group
from scheduler.core.values.model import GroupKey


class Following:
    """One cluster with its map, its queue and its workloads.

    `roots` are those that changed since the last `take_roots`, for streams of workloads.
    """

    def __init__(
        self,
        cluster: ClusterState,
        now: Callable[[], float] = time.time,
        clock: Clock | None = None,
    ) -> None:
        """Set up the views; `now` is in seconds since 1970."""
        self.clock = clock or SystemClock()
        self.cluster = cluster
        self.map = ClusterMap(cluster)
        self.queue = QueueView(cluster)
        self.workloads = WorkloadIndex(cluster, now, self.clock)
        self._roots: set[GroupKey] = set()
        self._known: set[GroupKey] = set()
        self._arrived: Counter[str] = Counter()
        self._preempting: Counter[str] = Counter()
        self._begun = False
        self._now = now

    @property
    def synced(self) -> bool:
        """True if everything was read once."""
        return not isinstance(self.cluster, LiveCluster) or self.cluster.synced

    @property
    def current(self) -> bool:
        """True while the API server responds to the console."""
        return not isinstance(self.cluster, LiveCluster) or self.cluster.current

    def refresh(self) -> Changed:
        """Ingest the changes of the state. The cost depends on their number only."""
        changed = self.cluster.take_changes()
        for root in changed.roots:
            self._count(root)
            self._follow_victims(root)
            self._note(root, changed.refused.get(root))
        self._begun = True
        self.queue.follow(changed.roots)
        self.workloads.follow(changed.roots, changed.singles)
        self._roots |= changed.roots
        return changed

    def take_counts(self) -> tuple[Counter[str], Counter[str]]:
        """Return the numbers of new and of newly preempting roots since the last call."""
        counted = self._arrived, self._preempting
        self._arrived, self._preempting = Counter(), Counter()
        return counted

    def _count(self, root: GroupKey) -> None:
        entity = self.cluster.entity(root)
        if entity is None or (isinstance(entity, Group) and entity.parent is not None):
            self._known.discard(root)
        elif root not in self._known:
            self._known.add(root)
            self._arrived[root[1]] += 1

    def _follow_victims(self, root: GroupKey) -> None:
        """Record the preemptor of each of its victims. Costs O(pods of the root)."""
        entity = self.cluster.entity(root)
        if not isinstance(entity, Group) or entity.parent is not None:
            self.cluster.victims.forget(root)
            return
        leaves = entity.leaves()
        self.cluster.victims.follow(root, (pod for leaf in leaves for pod in leaf.members.values()))

    def _note(self, root: GroupKey, refused: Any) -> None:
        """Record what the objects do not show later: each refusal, and the time of binding.

        `refused` is the last refusal that the root's status reported. It is recorded if the status
        no longer shows it. It is also recorded at the first refresh: the root may not change again
        until it is bound.
        """
        entity, chronicle = self.cluster.entity(root), self.cluster.chronicle
        if not isinstance(entity, Group):
            chronicle.forget(root)
            return
        if entity.parent is not None:
            return
        said = blocker_of(refused)
        if not self._begun:
            # The time of binding is unknown, and explaining all waiting roots would take too long.
            if said is not None:
                self._note_why(root, of_blocker(said), said.since)
            return
        if said is not None and said != status_blocker(self.cluster, entity):
            self._note_why(root, of_blocker(said))
        if entity.state == "scheduled" and not entity.pending_total:
            bound = f"{count(entity.running_total, 'pod')} bound"
            chronicle.note(root, Event(at=rfc3339(self._now()), event="Bound", sentence=bound))
        elif entity.pending_total:
            self._note_why(root, safely(self.cluster, entity, cause))

    def _note_why(self, root: GroupKey, why: Cause, at: str = "") -> None:
        if why.undecided:
            return
        told = Event(at=at or rfc3339(self._now()), event=why.event, sentence=why.sentence)
        new = self.cluster.chronicle.note(root, told)
        self._preempting[root[1]] += new and why.reason == "Preempting"

    def take_roots(self) -> set[GroupKey]:
        """Return the roots that changed since the last call."""
        roots, self._roots = self._roots, set()
        return roots
