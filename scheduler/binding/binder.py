"""Workers that send the Bindings of all decided roots concurrently.

A gang is in a Reservation before its first Binding is sent, so that the next leader can complete it
(`recover`). When a Binding fails, the pod releases its node (see `_handle_refusal`), and its root
returns to the queue, where half-bound gangs go first. `deadlines` gives up a gang that has fewer
than minCount pods when its time is over.

No namespace has all workers, and no Binding waits in a worker: one that is retried, or whose
volumes are provisioned, returns to the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from kube.base.clock import rfc3339
from kube.base.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.resources import PODS
from kube.concurrency.fair_queue import FairQueue
from kube.leader.election import Fence
from scheduler.binding.claim_barrier import Allocating
from scheduler.binding.deadlines import Deadlines
from scheduler.binding.in_flight import Intent, Intents, PodBinding, is_half_bound
from scheduler.binding.recovery import Recovery
from scheduler.binding.reports import Reports
from scheduler.binding.reservations import (
    PendingDecision,
    Reservations,
    ReservedPod,
    StoredReservation,
)
from scheduler.binding.volume_binder import VolumeBinder
from scheduler.claims.allocation_writer import AllocationWriter
from scheduler.claims.claim_releases import ClaimReleases
from scheduler.core.groups.forest import Pod
from scheduler.core.search.place import Placement
from scheduler.core.values.model import COMPOSITE_POD_GROUP, GroupKey, plain_kind
from scheduler.expected.pods import ExpectedPods
from scheduler.queue.shell import Shell
from scheduler.status.conditions import binding_failed
from scheduler.support.metrics import BINDS, BINDS_OPEN
from scheduler.support.retry import RETRIABLE

_PROVISIONED_AT_ONCE: Final = 1000
"""Pods whose volumes are bound at a time. A namespace whose provisioner hangs gets only a share."""

_log = structlog.get_logger()

_bound, _retried, _refused = (BINDS.labels(result) for result in ("bound", "retried", "refused"))


@dataclass(frozen=True, slots=True)
class PreBind:
    """The steps before a Binding: volumes are bound, ResourceClaims allocated."""

    volumes: VolumeBinder
    allocations: AllocationWriter | None = None
    claim_releases: ClaimReleases | None = None
    expected: ExpectedPods | None = None


class Binder:
    """A fixed number of workers over one queue of Bindings."""

    def __init__(
        self,
        api: Client,
        shell: Shell,
        reports: Reports,
        pre_bind: PreBind,
        *,
        workers: int = 160,
        timeout: float = 120.0,
    ) -> None:
        self._api = api
        self._state = shell.state
        self._queue = shell.queue
        self._activity = shell.activity
        self._clock = shell.clock
        self._freeze = shell.freeze
        self._on_change = shell.on_change
        self._reports = reports
        self._workers = workers
        self._timeout = timeout
        self._volume_binder = pre_bind.volumes
        self._allocating = None
        if pre_bind.allocations is not None:
            self._allocating = Allocating(
                pre_bind.allocations,
                shell,
                timeout_of=self._timeout_of,
                ready=self._enqueue,
                failed=self._not_allocated,
            )
        self._claim_releases = pre_bind.claim_releases
        self._queued: FairQueue[PodBinding] = FairQueue(workers)
        self._provisioning: FairQueue[PodBinding] = FairQueue(_PROVISIONED_AT_ONCE)
        self._intents = Intents(
            Reservations(api, clock=shell.clock, activity=shell.activity, saturated=self._saturated)
        )
        expected = pre_bind.expected
        self._deadlines = Deadlines(
            api,
            shell,
            reports,
            self._intents,
            timeout_of=self._timeout_of,
            keeps=expected.any_expired if expected is not None else lambda _root: False,
        )
        self._recovery = Recovery(
            shell, self._intents, timeout_of=self._timeout_of, start=self._start, expected=expected
        )

    def submit(self, placement: Placement) -> None:
        """Queue the Bindings of a root, behind those decided before it; expected pods have none."""
        intent = self._intent_for(placement.root)
        bindings = self._bindings(placement, intent)
        minimums = sum(not pod.info.expected for pod in placement.pods[: placement.minimums])
        # Everything that may raise comes first: an error must leave no half-registered intent.
        reserves = self._needs_reservation(placement, intent)
        decision = None
        if reserves:
            decision = self._pending_decision(intent, placement, bindings, minimums)
        self._intents.by_root[intent.root] = intent
        self._add_open(intent, len(bindings))
        if decision is not None:
            self._intents.reservations.add(decision)
        else:
            self._allocate_and_bind(bindings, minimums)

    def _intent_for(self, root: GroupKey) -> Intent:
        """Return the intent of the root; create one if it has none.

        The deadline of a root with held places starts again if none of its Bindings is under way.
        """
        intent = self._intents.by_root.get(root)
        deadline = self._clock.monotonic() + self._timeout_of(root)
        if intent is None:
            return Intent(root, deadline)
        # With held places an intent outlives its first Bindings. Later pods get the full time.
        if not intent.open and self._holds(root):
            intent.deadline = deadline
        return intent

    def _bindings(self, placement: Placement, intent: Intent) -> list[PodBinding]:
        names = self._state.nodes.name_of
        return [
            PodBinding(intent, pod, names(row))
            for pod, row in zip(placement.pods, placement.rows, strict=True)
            if not pod.info.expected
        ]

    def _holds(self, root: GroupKey) -> bool:
        """Return whether places are held for the root."""
        group = self._state.forest.groups.get(root)
        return group is not None and group.expected_held > 0

    async def run(self, fence: Fence) -> None:
        """Send Bindings while the lease is held, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._intents.reservations.run(fence))
            for _ in range(self._workers):
                group.create_task(self._work(fence, group))
            group.create_task(self._provision(fence, group))
            if self._claim_releases is not None:
                group.create_task(self._claim_releases.run(fence))
            if self._allocating is not None:
                group.create_task(self._allocating.run(fence))
            group.create_task(self._deadlines.run(fence))

    def reset(self) -> None:
        """Forget all decisions that are not bound: another process may have led meanwhile."""
        self._queued = FairQueue(self._workers)
        self._provisioning = FairQueue(_PROVISIONED_AT_ONCE)
        if self._allocating is not None:
            self._allocating.reset()
        self._intents.by_root.clear()
        self._activity.binding.clear()
        self._intents.reservations.reset()
        BINDS_OPEN.set(0)
        # The next decision must not count what this process assumed in an earlier term.
        for pod in [pod for pod in self._state.pods.values() if pod.assumed]:
            self._state.forget(pod.info.uid)
        if self._claim_releases is not None:
            self._claim_releases.reset()

    async def recover(self, fence: Fence) -> None:
        """Complete or give up what earlier leaders began to bind, before anything is decided."""
        await self._recovery.run(fence)

    def _timeout_of(self, root: GroupKey) -> float:
        """Return the seconds that binding the root may take."""
        group = self._state.forest.groups.get(root)
        spec = group.spec if group is not None else None
        return (spec.bind_within if spec is not None else 0.0) or self._timeout

    def _saturated(self) -> bool:
        # Enough for the workers to stay busy while a Reservation is written.
        return len(self._queued) >= 2 * self._workers

    def _needs_reservation(self, placement: Placement, intent: Intent) -> bool:
        """Return whether a crash during these Bindings could leave fewer than minCount pods.

        It could not with a single pod, with extras of a running group, or with pods that are stored
        already. Places held for expected pods are stored each time: they may have moved.
        """
        if any(pod.info.expected for pod in placement.pods):
            return True
        if intent.reserved:
            return any(pod.info.uid not in intent.reserved for pod in placement.pods)
        if plain_kind(placement.root[0]) == COMPOSITE_POD_GROUP:
            return len(placement.pods) > 1
        return placement.minimums > 1

    def _pending_decision(
        self, intent: Intent, placement: Placement, bindings: list[PodBinding], minimums: int
    ) -> PendingDecision:
        names = self._state.nodes.name_of
        pods = [
            ReservedPod(pod.info.uid, names(row))
            for pod, row in zip(placement.pods, placement.rows, strict=True)
        ]
        held = [pod for pod in placement.pods if pod.info.expected]
        # Before the write: a further decision on the root must not store these pods again.
        intent.reserved.update(pod.uid for pod in pods)
        intent.since = intent.since or rfc3339(self._clock.now())

        def stored(reservations: list[StoredReservation]) -> None:
            # The intent may have ended while its Reservation was written.
            if self._intents.by_root.get(intent.root) is intent:
                intent.reservations += reservations
                self._allocate_and_bind(bindings, minimums)
            else:
                self._intents.reservations.close(reservations)

        def failed(problem: str) -> None:
            intent.reserved.difference_update(pod.uid for pod in pods)
            if held:
                self._freeze.when_over(partial(self._release, held))
            for binding in bindings:
                self._reject(binding, problem)
                self._on_result(intent)

        attempt = self._queue.failures(intent.root) + 1
        return PendingDecision(intent.root, attempt, intent.since, pods, stored, failed)

    def _enqueue(self, bindings: list[PodBinding]) -> None:
        for binding in bindings:
            self._queued.put(binding.namespace, binding)

    def _start(self, intent: Intent, bindings: list[PodBinding]) -> None:
        """Send Bindings that are in a Reservation already."""
        self._add_open(intent, len(bindings))
        self._allocate_and_bind(bindings, len(bindings))

    def _allocate_and_bind(self, bindings: list[PodBinding], minimums: int) -> None:
        """Queue the Bindings, after their ResourceClaims.

        None of the first `minimums` is sent before the claims of all of them are ready.
        """
        if self._allocating and any(each.pod.info.device_claims for each in bindings):
            self._allocating.put(bindings, minimums)
        else:
            self._enqueue(bindings)

    def _not_allocated(self, binding: PodBinding, problem: str, fence: Fence) -> None:
        if fence.valid() and self._still_valid(binding):
            binding.intent.blame(problem)
            self._reject(binding, problem)
        self._on_result(binding.intent)

    async def _work(self, fence: Fence, group: asyncio.TaskGroup) -> None:
        while True:
            binding = await self._queued.get()
            await self._freeze.over()
            if self._volume_binder.unbound(binding.pod):
                # Provisioning takes time, which this worker spends on other pods.
                self._provisioning.put(binding.namespace, binding)
            else:
                wait = None
                with self._rejecting(binding):
                    wait = await self._bind(binding, fence)
                await self._freeze.over()
                if wait is None:
                    self._on_result(binding.intent)
                else:
                    # The wait takes place outside of the worker, which is free for other pods.
                    group.create_task(self._requeue(binding, wait))
            # Not earlier: until here the Binding counts for its namespace's share of the workers.
            self._queued.done(binding.namespace)

    async def _requeue(self, binding: PodBinding, wait: float) -> None:
        await self._clock.sleep(wait)
        self._enqueue([binding])

    async def _provision(self, fence: Fence, group: asyncio.TaskGroup) -> None:
        while True:
            binding = await self._provisioning.get()
            group.create_task(self._bind_volumes(binding, fence))

    @contextmanager
    def _rejecting(self, binding: PodBinding) -> Iterator[None]:
        """Reject this Binding if the block raises an unexpected error."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - logged
            # The error is about this pod alone: the worker continues with others.
            info = binding.pod.info
            _log.exception(
                "Binding raised an unexpected error", namespace=info.namespace, pod=info.name
            )
            self._reject(binding, f"{type(error).__name__} in the scheduler")

    async def _bind_volumes(self, binding: PodBinding, fence: Fence) -> None:
        deadline = binding.intent.deadline
        problem = "an error in the scheduler"
        with self._rejecting(binding):
            if self._clock.monotonic() < deadline:
                problem = await self._volume_binder.bind_volumes(
                    binding.pod, binding.node, deadline, fence
                )
            else:
                # It may have waited for its namespace's share until its time was over.
                problem = "the volumes of other pods of its namespace were not bound in time"
        self._provisioning.done(binding.namespace)
        await self._freeze.over()
        if not problem:
            self._enqueue([binding])
            return
        if fence.valid() and self._still_valid(binding):
            binding.intent.blame(problem)
            self._reject(binding, problem)
        self._on_result(binding.intent)

    async def _bind(self, binding: PodBinding, fence: Fence) -> float | None:
        """Bind one pod; return the seconds until a retry if only the connection is at fault."""
        pod = binding.pod
        if binding.waits is not None and not pod.assumed and pod.info.node == binding.node:
            self._is_bound(binding)  # by a request whose response was lost
            return None
        # Without a valid fence the lease may be lost: the next leader decides again.
        if not self._still_valid(binding) or not fence.valid():
            return None
        try:
            info = pod.info
            await self._api.bind(info.namespace, info.name, info.uid, binding.node)
        except RETRIABLE as error:
            _retried.inc()
            return self._wait(binding, error)
        except KubeError as error:
            await self._handle_refusal(binding, error)
        else:
            _bound.inc()
            self._is_bound(binding)
            self._reports.times.on_pod_bound(binding.intent.root)
        return None

    def _is_bound(self, binding: PodBinding) -> None:
        binding.intent.bound.append(binding.pod)
        self._reports.events.on_pod_bound(binding.pod, binding.node)

    def _wait(self, binding: PodBinding, error: KubeError) -> float | None:
        """Return the seconds until the next attempt, or None if the time is over."""
        left = binding.intent.deadline - self._clock.monotonic()
        if left <= 0:
            binding.intent.blame(str(error))
            self._reject(binding, str(error))
            return None
        return min(binding.next_wait(error), left)

    def _still_valid(self, binding: PodBinding) -> bool:
        """Return whether the pod still waits for its node; reject it if either is about to go."""
        pod = binding.pod
        if self._state.pods.get(pod.info.uid) is not pod or not pod.assumed:
            return False
        if pod.row < 0 or pod.info.terminating:
            self._reject(binding, f"node {binding.node} is gone or the pod is being deleted")
            return False
        return True

    async def _handle_refusal(self, binding: PodBinding, error: KubeError) -> None:
        """Accept a Binding that exists although it was refused; otherwise release the node."""
        pod = binding.pod.info
        _refused.inc()
        # Only these two may mean that the pod is bound or deleted already.
        if not isinstance(error, Conflict | NotFound):
            binding.intent.blame(str(error), refused=isinstance(error, Forbidden | Invalid))
            self._reject(binding, str(error))
            return
        obj: Json | None = None
        try:
            obj = await self._api.get(PODS, pod.name, pod.namespace)
        except NotFound:
            pass
        except KubeError as unreadable:
            self._reject(binding, str(unreadable))
            return
        await self._freeze.over()
        # Deleted, or replaced by a pod of its name; the watch event is still to come.
        if obj is None or obj["metadata"].get("uid") != pod.uid:
            self._state.remove_pod(pod.uid)
        elif node := (obj.get("spec") or {}).get("nodeName"):
            # Bound by a request whose response was lost, or by others. Its watch event will follow.
            if node == binding.node:
                self._is_bound(binding)
        else:
            self._reject(binding, str(error))
        self._on_change()

    def _reject(self, binding: PodBinding, problem: str) -> None:
        info = binding.pod.info
        _log.warning(
            "binding failed",
            namespace=info.namespace,
            pod=info.name,
            node=binding.node,
            error=problem,
        )
        binding.intent.failed = True
        # During a freeze a decision relies on the state: the pod keeps its node until the end.
        self._freeze.when_over(partial(self._forget, binding))

    def _release(self, held: list[Pod]) -> None:
        """Give up the places of expected pods, and have the root decided again."""
        for pod in held:
            self._state.forget(pod.info.uid)
        self._on_change()

    def _forget(self, binding: PodBinding) -> None:
        """Release the node of the pod."""
        info = binding.pod.info
        try:
            self._state.forget(info.uid)
        except Exception:  # noqa: BLE001 - logged; the pod waits again all the same
            _log.exception("pod reinstated", namespace=info.namespace, pod=info.name)
            self._state.reinstate([binding.pod])
        if self._claim_releases is not None:
            self._claim_releases.forgotten(binding.pod)
        self._on_change()

    def _add_open(self, intent: Intent, count: int) -> None:
        # A new round of Bindings: the problem is that of the last round only.
        if not intent.open:
            intent.problem = ""
        intent.open += count
        BINDS_OPEN.inc(count)
        if intent.open:
            self._activity.binding.add(intent.root)
        else:
            self._activity.binding.discard(intent.root)

    def _on_result(self, intent: Intent) -> None:
        """Count a Binding that has a result; the last one ends the round."""
        self._add_open(intent, -1)
        if intent.open:
            return
        if not intent.failed:
            self._reports.times.on_root_bound(intent.root)
            self._queue.succeed(intent.root)
            if not self._stays(intent):
                self._intents.complete(intent)
            return
        # The blocker is computed from the state, which has a trial in it during a decision.
        self._freeze.when_over(partial(self._end_round, intent))

    def _stays(self, intent: Intent) -> bool:
        """Return whether the intent goes on although all Bindings of its last round succeeded."""
        # The Reservation of a root with held places records where they are.
        if self._holds(intent.root):
            return True
        # This round may have been about other groups of the root than an earlier one that failed.
        group = self._state.forest.groups.get(intent.root)
        return intent.interrupted and group is not None and is_half_bound(group, intent.bound)

    def _end_round(self, intent: Intent) -> None:
        """Return the root to the queue: all Bindings have a result, and some pods wait again."""
        refused = intent.end_round()
        wait = self._queue.fail(intent.root, self._clock.monotonic(), refused=refused)
        if intent.problem:
            message = f"Binding failed, retry in {wait:.0f} s: {intent.problem}"
            blocker = binding_failed(self._state, intent.root, message)
            if blocker is not None:
                self._reports.on_refused(intent.root, blocker)
        self._on_change()
