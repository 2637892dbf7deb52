"""The cost of a victim apart from its priority and size: reported costs, repeated preemptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.values.model import GroupKey
from scheduler.core.values.run_protection import RunProtection

CLOCK_SKEW: Final = 60.0
"""Seconds by which another machine's clock may be ahead; later times do not count."""

_REPEATED: Final = 1e10
"""Seconds by which pods count as started earlier for each recent preemption of their root.

More than any difference of starts, and less than pods beyond a gang's minCount count as younger.
"""

_MOST_COUNTED: Final = 9
"""Recent preemptions of a root that count. Roots with more are equal in this."""


class ReportedCost(NamedTuple):
    """The cost of a root for its owner: of two roots of a namespace, the lower one goes first.

    `cost` is the annotation, `preempted` the number of recent preemptions, `work` the negated time
    since which work would be lost, in seconds since 1970: the start or a later checkpoint.
    """

    cost: int
    preempted: int
    work: float


class EvictionCosts:
    """The pods whose owners report a cost, and the roots whose preemptions count for some time.

    Users choose reported costs. So these are compared within a namespace only, and `namespaces` are
    those with any.
    """

    def __init__(self) -> None:
        self.namespaces: Counter[str] = Counter()
        self._reporting: dict[str, str] = {}
        self._ends: dict[GroupKey, float] = {}

    @property
    def any(self) -> bool:
        """True if a pod reports a cost, or preemptions of a root count."""
        return bool(self.namespaces or self._ends)

    def add(self, pod: Pod, root: Group | None) -> None:
        """Record a running pod and its root group, None for a pod without one."""
        own, spec = pod.info.preemption, root.spec if root is not None else None
        cost, checkpoint = (
            (own.eviction_cost, 0.0) if spec is None else (spec.eviction_cost, spec.checkpoint)
        )
        if cost or checkpoint or own.checkpoint:
            self._reporting[pod.info.uid] = pod.info.namespace
            self.namespaces[pod.info.namespace] += 1

    def remove(self, uid: str) -> None:
        """Forget a pod."""
        namespace = self._reporting.pop(uid, None)
        if namespace is not None:
            self.namespaces[namespace] -= 1
            if not self.namespaces[namespace]:
                del self.namespaces[namespace]

    def penalty(self, root: Group | None, rules: RunProtection) -> float:
        """Return by how many seconds the root's pods count as started earlier."""
        count = preempted_lately(root, rules)
        if root is None or root.spec is None or not count:
            return 0.0
        self._ends[root.key] = root.spec.preempted[1] + rules.window
        return count * _REPEATED

    def counts(self, root: Group) -> bool:
        """Return True if preemptions of the root count now."""
        return root.key in self._ends

    def expired(self, now: float) -> list[GroupKey]:
        """Return the roots whose preemptions no longer count, once each."""
        over = [key for key, end in self._ends.items() if end <= now]
        for key in over:
            del self._ends[key]
        return over

    def reported(
        self, root: Group | None, pods: Iterable[Pod], rules: RunProtection
    ) -> ReportedCost:
        """Return the cost of a root with these running pods, or of one pod without a root."""
        infos = [pod.info for pod in pods]
        spec = root.spec if root is not None else None
        checkpoints = [info.preemption.checkpoint for info in infos]
        if spec is not None:
            checkpoints.append(spec.checkpoint)
        # Of several pods the last checkpoint counts: it covers the complete gang.
        since = max((each for each in checkpoints if is_past(each, rules)), default=0.0)
        start = min((info.started for info in infos if info.started), default=0.0)
        cost = infos[0].preemption.eviction_cost if spec is None else spec.eviction_cost
        return ReportedCost(cost, preempted_lately(root, rules), -max(start, since))


def is_past(moment: float, rules: RunProtection) -> bool:
    """Return False if the time, in seconds since 1970, is in the future: then it does not count."""
    return moment <= rules.now + CLOCK_SKEW


def preempted_lately(root: Group | None, rules: RunProtection) -> int:
    """Return how many recent preemptions of the root count now."""
    count, since = root.spec.preempted if root is not None and root.spec is not None else (0, 0.0)
    if not count or not is_past(since, rules) or since + rules.window <= rules.now:
        return 0
    return min(count, _MOST_COUNTED)
