"""Recovery: what earlier leaders began to bind is completed or given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import structlog

from kube.base.clock import since
from kube.leader.election import Fence
from scheduler.binding.in_flight import Intent, Intents, PodBinding, is_half_bound
from scheduler.binding.reservations import StoredDecision
from scheduler.binding.restored_places import still_held
from scheduler.core.groups.forest import Pod
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.place import assume_on
from scheduler.core.values.model import GroupKey
from scheduler.expected.pods import ExpectedPods
from scheduler.queue.shell import Shell
from scheduler.support.metrics import RESUMED

_log = structlog.get_logger()


class Recovery:
    """The handling of the Reservations that a new leader finds."""

    def __init__(
        self,
        shell: Shell,
        intents: Intents,
        *,
        timeout_of: Callable[[GroupKey], float],
        start: Callable[[Intent, list[PodBinding]], None],
        expected: ExpectedPods | None = None,
    ) -> None:
        """Recover by these parts; `start` sends the Bindings of an intent, whose pods are assumed.

        `expected` knows which pods came instead of those for which places were held.
        """
        self._state = shell.state
        self._intents = intents
        self._clock = shell.clock
        self._timeout_of = timeout_of
        self._start = start
        self._freeze = shell.freeze
        self._expected = expected

    async def run(self, fence: Fence) -> None:
        """Complete or give up each decision; other tasks run in between."""
        for decision in await self._intents.reservations.read(fence):
            await self._freeze.over()
            intent = self._intent_of(decision)
            intent.bound = self._bound(decision)
            if self._may_not_start(intent) or not self._bind_rest(intent, decision):
                self._resume(intent)
            await asyncio.sleep(0)

    def _intent_of(self, decision: StoredDecision) -> Intent:
        """Return our intent for an earlier leader's decision, with the remaining time."""
        # The stored time is compared with the time of day once, as that may jump.
        begun = since(self._clock, self._begun(decision))
        deadline = max(self._clock.monotonic(), begun + self._timeout_of(decision.root))
        intent = Intent(
            decision.root,
            deadline,
            decision.since,
            interrupted=True,
            reservations=list(decision.reservations),
        )
        # These pods are stored already: a further decision on them needs no Reservation.
        intent.reserved.update(pod.uid for pod in decision.pods)
        return intent

    def _begun(self, decision: StoredDecision) -> float | None:
        """Return when the decision was first stored, in seconds since 1970; None if unknown."""
        try:
            moment = datetime.fromisoformat(decision.since)
        except ValueError as error:
            _log.error("Reservation without a time", root="/".join(decision.root), error=str(error))
            return None
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()

    def _members(self, decision: StoredDecision) -> list[tuple[Pod, str]]:
        """Return the pods of the decision that exist and belong to its root, with their nodes."""
        pods = decision.pods
        if self._expected is not None:
            pods = tuple(still_held(self._state, self._expected, pods))
        found = ((self._state.pods.get(each.uid), each.node) for each in pods)
        return [
            (pod, node)
            for pod, node in found
            if pod is not None and _belongs_to(pod, decision.root)
        ]

    def _bound(self, decision: StoredDecision) -> list[Pod]:
        return [pod for pod, _ in self._members(decision) if pod.info.node]

    def _bind_rest(self, intent: Intent, decision: StoredDecision) -> bool:
        """Assume the decided nodes for all pods still unbound, or for none; return whether it did.

        It does if all of them still fit and the group is then complete.
        """
        assumed: list[PodBinding] = []
        for (shape, node), pods in self._waiting(decision).items():
            found = (
                self._assume_with_devices(node, pods)
                if shape.needs_devices
                else self._assume(shape, node, pods)
            )
            if not found and pods[0].info.expected and intent.bound:
                continue  # others took the place: the remaining ones are held
            if not found:
                break
            assumed += [PodBinding(intent, pod, node) for pod in pods]
        else:
            group = self._state.forest.groups.get(intent.root)
            if assumed and group is not None and group.standing and group.parent is None:
                self._intents.by_root[intent.root] = intent
                self._start(intent, [each for each in assumed if not each.pod.info.expected])
                RESUMED.labels("finished").inc()
                return True
        for binding in assumed:
            # A running group keeps held places even if the rest of the decision does not fit.
            if not (binding.pod.info.expected and intent.bound):
                self._state.forget(binding.pod.info.uid)
        return False

    def _may_not_start(self, intent: Intent) -> bool:
        """Return whether a feature gate is off by now, and nothing was bound before.

        A group with bound pods is completed on the decided nodes all the same: it would stay
        incomplete.
        """
        group = self._state.forest.groups.get(intent.root)
        return group is not None and group.switched_off and not intent.bound

    def _waiting(self, decision: StoredDecision) -> dict[tuple[Shape, str], list[Pod]]:
        """Return the pods still unbound, by shape and node: equal ones are checked together."""
        found: dict[tuple[Shape, str], list[Pod]] = {}
        for pod, node in self._members(decision):
            if pod.waiting:
                found.setdefault((pod.shape, node), []).append(pod)
        return found

    def _assume(self, shape: Shape, node: str, pods: list[Pod]) -> bool:
        """Assume the node for all of these equal pods, or for none if they do not all fit."""
        row = self._state.nodes.row_of.get(node)
        if row is None:
            return False
        # Where pods of a shape affect each other, each changes how many more the node can take.
        at_once = 1 if shape.self_interacting else len(pods)
        for index in range(0, len(pods), at_once):
            if int(self._state.framework.slots_in(shape, np.array([row]))[0]) < at_once:
                for pod in pods[:index]:
                    self._state.forget(pod.info.uid)
                return False
            self._state.assume(pods[index : index + at_once], [row] * at_once)
        return True

    def _assume_with_devices(self, node: str, pods: list[Pod]) -> bool:
        """Assume the node, with devices, for all of these pods with claims or for none."""
        row = self._state.nodes.row_of.get(node)
        for index, pod in enumerate(pods):
            if row is None or not assume_on(self._state, pod, row):
                for each in pods[:index]:
                    self._state.forget(each.info.uid)
                return False
        return True

    def _resume(self, intent: Intent) -> None:
        """Keep the intent of a half-bound group, which the queue completes first; end others."""
        group = self._state.forest.groups.get(intent.root)
        if group is None or not is_half_bound(group, intent.bound):
            RESUMED.labels("given_up").inc()
            self._intents.reservations.close(intent.reservations)
        else:
            RESUMED.labels("continued").inc()
            self._intents.by_root[intent.root] = intent


def _belongs_to(pod: Pod, root: GroupKey) -> bool:
    """Return whether the group is the pod's, or an ancestor of the pod's."""
    group = pod.group
    while group is not None and group.key != root:
        group = group.parent
    return group is not None
