"""The roots that are being bound."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kube.base.errors import KubeError
from kube.concurrency.backoff import Backoff
from scheduler.binding.reservations import Reservations, StoredReservation
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.values.model import GroupKey
from scheduler.support.retry import backoff

_LONGEST: Final = 500
"""Characters of a failed Binding's problem that are kept. The rest is cut off."""


@dataclass(slots=True)
class Intent:
    """A root that is being bound, until enough pods are bound or it is given up at `deadline`.

    `since` is when it was first stored, `open` the number of Bindings without a result, `reserved`
    the UIDs of the pods in `reservations`. `problem` is why a pod could not be bound in the last
    round. `refusals` counts the rounds of Bindings in a row in which the server refused one (403 or
    422), which it will probably repeat. `interrupted` is True after a round in which one failed, or
    that a leader did not end: then some pods may be bound without the rest of their group.
    """

    root: GroupKey
    deadline: float
    since: str = ""
    open: int = 0
    failed: bool = False
    problem: str = ""
    refused: bool = False
    refusals: int = 0
    interrupted: bool = False
    bound: list[Pod] = field(default_factory=list)
    reserved: set[str] = field(default_factory=set)
    reservations: list[StoredReservation] = field(default_factory=list)

    def blame(self, problem: str, *, refused: bool = False) -> None:
        """Record why a pod could not be bound where its node is not at fault."""
        self.problem = shortened(problem)
        # One refused pod is enough: the gang cannot be complete without it.
        self.refused = self.refused or refused

    def end_round(self) -> bool:
        """End a round whose Bindings all have a result; return whether the server refused one."""
        refused = self.refused
        self.refusals = self.refusals + 1 if refused else 0
        self.interrupted = self.interrupted or self.failed
        self.failed = self.refused = False
        return refused


def is_half_bound(root: Group, bound: Iterable[Pod]) -> bool:
    """Return True if the root, or a group in it of these bound pods, runs below its minimum.

    A root may have as many child groups as it needs, while one more is bound in part.
    """
    return root.incomplete or any(map(in_half_bound, {pod.group for pod in bound}))


def in_half_bound(group: Group | None) -> bool:
    """Return True if the group or one of its ancestors runs below its minimum."""
    while group is not None:
        if group.incomplete:
            return True
        group = group.parent
    return False


@dataclass(slots=True)
class PodBinding:
    """One Binding of an intent; `waits` is the back-off between its attempts."""

    intent: Intent
    pod: Pod
    node: str
    waits: Backoff | None = None

    @property
    def namespace(self) -> str:
        return self.pod.info.namespace

    def next_wait(self, error: KubeError) -> float:
        """Return the seconds to wait after one more failed attempt."""
        self.waits = self.waits or backoff()  # most Bindings need none
        return self.waits.next(error)


class Intents:
    """The intents by root. `complete` ends one, and its Reservations with it."""

    def __init__(self, reservations: Reservations) -> None:
        self.reservations = reservations
        self.by_root: dict[GroupKey, Intent] = {}

    def complete(self, intent: Intent) -> None:
        """End an intent that needs no more Bindings, or was given up."""
        if self.by_root.get(intent.root) is intent:
            del self.by_root[intent.root]
        self.reservations.close(intent.reservations)
        intent.reservations = []


def shortened(problem: str) -> str:
    """Cut the problem to fit into a condition: a webhook's response may have any length."""
    return problem if len(problem) <= _LONGEST else f"{problem[:_LONGEST]}..."
