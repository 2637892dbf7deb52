"""`fit`: whether workloads would fit, decided on the live state between two changes of it.

One decision at a time, in short steps, under the freeze. It ends with its time: then the answer is
unknown. What needs a copy of the cluster, such as volumes or many pods, goes to the process of
what-if. Users ask about what they may create, and see of the answer what they may see.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Protocol

from analysis.fit.created import Created, created_by
from analysis.fit.fit import Entry, answer_live, decisions, entries_of, setup_of
from analysis.fit.known_ends import Times
from analysis.fit.messages import MOST_SHOWN, FitAnswer, FitRequest, FitResult, FitRoot
from analysis.what_if.messages import FitQuestion
from console.access.rate import Rates
from console.base.protocols import Creation, MayCreate, RefusedError, Viewer
from console.following.following import Following
from kube.base.clock import SystemClock
from kube.base.errors import ConfigError
from kube.concurrency.pace import Pace
from kube.concurrency.stepwise import Stepwise
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.state.hypothetical import NeedsCopyError
from scheduler.core.values.model import GroupKey
from scheduler.watch.published_places import published_until

SECONDS: Final = 0.25
"""Processor seconds of one decision. What is not decided then is unknown; if the workloads were not
even added by then, the process decides."""

MOST_TEXT: Final = 64 * 1024
"""Characters of YAML in one question. More get status 413: JSON objects may be larger."""

MOST_OF_USER: Final = 2
"""Questions of one user at a time. Further ones get status 429."""

MOST_AT_ONCE: Final = 32
"""Questions of all users at a time. Further ones get status 429."""

MOST_CREATED: Final = 64
"""Pairs of kind and namespace in one question, which are reviewed. More get status 422."""

AT_ONCE: Final = 100.0
"""Workloads that one user may ask about in a burst, before `PER_SECOND` applies."""

PER_SECOND: Final = 20.0
"""Workloads of one user in a second after that. More get status 429."""

_SPENT: Final[Callable[[], float]] = getattr(time, "thread_time", time.monotonic)
_BUSY: Final = "Too many questions at a time: wait for the answer of an earlier one."


class Process(Protocol):
    """The process that decides on a copy of the cluster."""

    async def fit(self, question: FitQuestion, viewer: Viewer) -> list[FitResult]:
        """Return the complete answers. Raises RefusedError."""


class FitLimits:
    """Limits of questions by user: their number at a time, and their workloads in a second."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Start without questions; `now` is in seconds, of any origin."""
        self._now = now
        self._rates = Rates(AT_ONCE, PER_SECOND)
        self._asking: Counter[str] = Counter()

    @contextmanager
    def admitted(self, user: str) -> Iterator[None]:
        """Count a question of the user as long as it is answered. Raises RefusedError."""
        if self._asking[user] >= MOST_OF_USER or self._asking.total() >= MOST_AT_ONCE:
            raise RefusedError(429, _BUSY)
        self._asking[user] += 1
        try:
            yield
        finally:
            self._asking[user] -= 1
            if not self._asking[user]:
                del self._asking[user]

    def count(self, user: str, workloads: int) -> None:
        """Count the workloads of a question. Raises RefusedError beyond the limit."""
        self._rates.count(user, self._now(), workloads)


class LiveFit:
    """Answers on the live state of a console."""

    def __init__(
        self,
        following: Following,
        process: Process,
        stepwise: Stepwise | None = None,
        spent: Callable[[], float] = _SPENT,
    ) -> None:
        """Decide in steps by `stepwise`, and by `process` what needs a copy.

        `spent` are the seconds that the current thread has run.
        """
        self._following = following
        self._process = process
        self._clock = SystemClock()
        self._stepwise = stepwise or Stepwise(self._clock, spent)
        self._spent = spent
        self._pace = Pace("fit", self._clock)
        self._turn = asyncio.Lock()

    async def __call__(
        self, request: FitRequest, viewer: Viewer, may_create: MayCreate
    ) -> FitAnswer:
        """Return what the viewer may see of the answer. Raises RefusedError."""
        if sum(len(each.manifests) for each in request.workloads) > MOST_TEXT:
            raise RefusedError(
                413,
                f"workloads: must have at most {MOST_TEXT} characters of manifests: send them as"
                " objects (JSON)",
            )
        try:
            pause = self._stepwise.pause
            entries = await self._stepwise.awaited(lambda: entries_of(request, pause))
            await _check_rights(created_by(entries, request.namespace), may_create)
            results = await self._answers(request, entries, viewer)
        except ConfigError as error:
            raise RefusedError(422, str(error)) from error
        return FitAnswer(workloads=[_visible(each, viewer) for each in results])

    async def _answers(
        self, request: FitRequest, entries: Sequence[Entry], viewer: Viewer
    ) -> list[FitResult]:
        found: dict[int, FitResult] = {}
        numbers = {entry.path: number for number, entry in enumerate(entries)}
        copies: list[int] = []
        for some in decisions(entries, together=request.together):
            own = [numbers[entry.path] for entry in some]
            try:
                results = await self._decided(some, request.namespace)
            except NeedsCopyError:
                copies += own
            else:
                found |= dict(zip(own, results, strict=True))
        if copies:
            question = FitQuestion(request, copies, self._held(), self._now())
            results = await self._process.fit(question, viewer)
            found |= dict(zip(copies, results, strict=True))
        return [found[number] for number in sorted(found)]

    async def _decided(self, entries: Sequence[Entry], namespace: str) -> list[FitResult]:
        """Return one decision. Raises ConfigError and NeedsCopyError."""
        following, cluster = self._following, self._following.cluster
        # Users take turns: a question with many workloads waits again before each.
        async with self._turn:
            if not following.synced:
                raise RefusedError(503, "The console is still reading the cluster.")
            await self._refresh_units()
            following.refresh()
            try:
                with cluster.freeze:
                    return await self._stepwise.awaited(lambda: self._decide(entries, namespace))
            finally:
                # Those who waited for the end of the freeze run before the next decision.
                await asyncio.sleep(0)

    async def _refresh_units(self) -> None:
        """Update the table of units, which nothing else in a console needs.

        The first time, it has every pod of the cluster to read.
        """
        cluster, pace = self._following.cluster, self._pace
        await cluster.settled()
        pace.begin()
        # Not under the freeze, so that nobody waits for it: pods may change in between.
        for _ in cluster.state.units.refresh_in_steps():
            if pace.over(()):
                await pace.give_way()
                await cluster.settled()

    def _decide(self, entries: Sequence[Entry], namespace: str) -> list[FitResult]:
        """Decide on the live state, which stays as it is. May be stopped at each pause."""
        cluster, clock, stepwise = self._following.cluster, self._clock, self._stepwise
        # Not by the time of day: on a busy machine, more would go to the process and load it more.
        settings, spent, until = cluster.settings, self._spent, self._spent() + SECONDS
        budget = replace(settings.budget, expired=lambda: spent() >= until, pause=stepwise.pause)
        cluster.state.units.protection = settings.preemption.protection(clock)
        setup = setup_of(
            budget,
            SearchEffort.at(clock.monotonic(), settings.preemption.patience_seconds),
            cluster.priorities,
            preempts=settings.preempts,
            schedulers=settings.scheduler_names,
            gates=settings.gates,
        )
        times = Times(self._now(), clock.monotonic(), self._held_until)
        return answer_live(cluster.state, entries, namespace, setup, times)

    def _now(self) -> float:
        """Return the time in seconds since 1970, for the ends of pods."""
        return self._clock.now().timestamp()

    def _held_until(self, key: GroupKey) -> float | None:
        until = published_until(self._following.cluster.observed.get(key))
        return None if until is None else until.timestamp()

    def _held(self) -> dict[str, float]:
        """Return the ends of held places by group ID."""
        groups = self._following.cluster.state.forest.groups.values()
        ends = ((group.key, self._held_until(group.key)) for group in groups if group.expected_held)
        return {f"{key[1]}/{key[0]}/{key[2]}": until for key, until in ends if until is not None}


async def _check_rights(creations: set[Created], may_create: MayCreate) -> None:
    """Raise RefusedError unless the user may create the pods, or each kind, in each namespace."""
    # Each may need a review by the API server.
    if len(creations) > MOST_CREATED:
        raise RefusedError(
            422, f"workloads: must have at most {MOST_CREATED} different kinds and namespaces"
        )
    for each in sorted(creations):
        pods = Creation("pods", "", each.namespace)
        own = Creation(each.resource, each.group, each.namespace)
        # Who may create pods may create what its controllers create for any workload.
        if each.namespace and await may_create(pods):
            continue
        if not await may_create(own):
            where = f'in namespace "{each.namespace}"' if each.namespace else "in the cluster"
            raise RefusedError(403, f"You may not create {each.kind} objects {where}.")


def _visible(result: FitResult, viewer: Viewer) -> FitResult:
    for root in result.roots:
        if not viewer.nodes:
            root.nodes = root.domains = None
        _hide_victims(root, viewer)
    return result


def _hide_victims(root: FitRoot, viewer: Viewer) -> None:
    """Count the victims in namespaces that the viewer does not see, instead of naming them."""
    seen = [each for each in root.evicts if viewer.sees(each.id.partition("/")[0])]
    root.hidden_workloads = len(root.evicts) - len(seen)
    root.hidden_pods = sum(it.pods for it in root.evicts) - sum(it.pods for it in seen)
    root.evicts = seen[:MOST_SHOWN]
