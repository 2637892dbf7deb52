"""The scheduler process: keeps the state up to date, and decides while it leads."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from kube.client import Client
from kube.clock import Clock, SystemClock
from kube.election import Fence, lead
from kube.errors import Unreachable
from kube.events import Recorder
from kube.process import Page, run_until
from kube.settings import LeaderElection
from scheduler.activity import Activity
from scheduler.binder import Binder
from scheduler.config import Config
from scheduler.core.place import SearchBudget
from scheduler.core.state import State
from scheduler.cycle import Cycle
from scheduler.evictor import Evictor
from scheduler.group_events import GroupEvents
from scheduler.loop import Loop
from scheduler.preemptor import Preemptor
from scheduler.queue import Queue
from scheduler.snapshot import Limits, encode, queue_of, take
from scheduler.starvation import StarvationMonitor
from scheduler.status import Reporter
from scheduler.volume_binder import ClaimNews, VolumeBinder
from scheduler.watch.informers import Informers

LEASE: Final = "muster-scheduler"

_OPEN_WITHIN: Final = 5.0
"""Seconds to open connections for Bindings in advance; later they are opened on demand."""

_log = structlog.get_logger()


class Scheduler:
    """All parts of one scheduler. `run` watches the cluster, and decides while it leads."""

    def __init__(
        self,
        client: Client,
        config: Config,
        election: LeaderElection,
        namespace: str = "muster-system",
        clock: Clock | None = None,
    ) -> None:
        """Nothing is read or written before `run`. The lease is in `namespace`."""
        self._election = election
        self._namespace = namespace
        self._client = client
        self._config = config
        self._clock = clock = clock or SystemClock()
        self._leading = False
        claim_news = ClaimNews()
        self._changed = asyncio.Event()
        self.state = State(claim_news.changed)
        self.queue = Queue(self.state, retry=config.retry_seconds)
        self._recorder = Recorder(client, "muster-scheduler", clock)
        self._informers = Informers(client, self.state, self._state_changed)
        events = GroupEvents(self._recorder, self.state, self._informers.observed)
        activity = Activity()
        self._reporter = Reporter(
            client,
            self.state,
            events,
            activity,
            clock=clock,
            config=config.status,
            observed=self._informers.observed,
            pending=self._informers.pods.pending,
        )
        self._binder = Binder(
            client,
            self.state,
            self.queue,
            events,
            activity,
            clock=clock,
            workers=config.bind_workers,
            timeout=config.bind_timeout_seconds,
            on_change=self._state_changed,
            volume_binder=VolumeBinder(client, self.state, clock, claim_news),
        )
        self._evictor = Evictor(
            client,
            self.state,
            events,
            activity,
            clock=clock,
            writers=config.preemption.writers,
            on_change=self._state_changed,
        )
        self._preemptor = Preemptor(
            self.state,
            self.queue,
            self._evictor,
            clock=clock,
            config=config.preemption,
            budget=self._budget,
        )
        self._starvation = StarvationMonitor(
            self.state, self.queue, clock=clock, config=config.starvation, budget=self._budget
        )
        cycle = Cycle(
            self.state,
            self.queue,
            self._binder,
            self._reporter,
            clock=clock,
            budget=self._budget,
            preemptor=self._preemptor,
            starvation=self._starvation,
        )
        self._loop = Loop(cycle, self.queue, clock, activity=activity, changed=self._changed)

    @property
    def synced(self) -> bool:
        """Whether every watch has delivered its first list."""
        return self._informers.synced

    @property
    def checks(self) -> Mapping[str, Callable[[], bool]]:
        """Ready means that the caches are in sync; a replica that does not lead is ready too."""
        return {"caches": lambda: self.synced}

    @property
    def pages(self) -> Mapping[str, Page]:
        """For debugging: the whole input of the next decision, for `muster replay`."""
        return {"/debug/snapshot": self._snapshot}

    @property
    def actions(self) -> Mapping[str, Page]:
        """For debugging: decide all that waits again, as a new leader does."""
        return {"/debug/decide": self._decide_all}

    async def _decide_all(self) -> bytes:
        """Answers once that is done; `leads` false means that this replica decides nothing."""
        if not self._leading:
            return b'{"leads":false}'
        self.state.reconsider_all()
        await self._loop.round()
        return b'{"leads":true}'

    async def _snapshot(self) -> bytes:
        preemption = self._config.preemption
        limits = Limits.of(
            SearchBudget(steps=self._config.search.steps, profile=self._config.profile),
            preempts=preemption.enabled,
            overdue=self._clock.now().timestamp() - preemption.patience_seconds,
        )
        # A replica that does not lead has no queue.
        queue = self.queue if self._leading else queue_of(self.state)
        return encode(take(self.state, queue, limits, self._informers.priority_classes.all()))

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop`. Failures of the API server are retried."""
        watches = [reflector.run() for reflector in self._informers.reflectors]
        await run_until(stop, *watches, self._recorder.run(), self._lead_when_synced())

    def _state_changed(self) -> None:
        if self._leading:
            self._changed.set()
        else:
            # A new leader looks at everything; until then the changes would only accumulate.
            self.state.take_changes()

    def _budget(self) -> SearchBudget:
        search = self._config.search
        until = self._clock.monotonic() + search.milliseconds / 1000
        return SearchBudget(
            steps=search.steps,
            profile=self._config.profile,
            expired=lambda: self._clock.monotonic() >= until,
        )

    async def _lead_when_synced(self) -> None:
        # The objects of the first lists stay: scanning them again and again would cost a seventh of
        # reading them. They are frozen, and the collector runs as usual on what comes later.
        usual = gc.get_threshold()
        gc.set_threshold(50_000, 20, 100)
        await asyncio.gather(self._informers.wait(), self._open_connections())
        gc.collect()
        gc.freeze()
        gc.set_threshold(*usual)
        _log.info("synced", nodes=self.state.nodes.size, pods=len(self.state.pods))
        await lead(
            self._client,
            LEASE,
            self._namespace,
            self._election,
            self._lead,
            clock=self._clock,
        )

    async def _open_connections(self) -> None:
        """Open connections while the lists are read: handshakes would delay the first Bindings."""
        try:
            async with asyncio.timeout(_OPEN_WITHIN):
                await self._client.open_connections(self._config.bind_workers)
        except (Unreachable, TimeoutError) as error:
            _log.info("connections are opened on demand", problem=repr(error))

    async def _lead(self, fence: Fence) -> None:
        """Decide and act until the lease is lost, after completing what earlier leaders began."""
        self._leading = True
        self._binder.reset()
        self._preemptor.reset()
        self._starvation.reset()
        await self._binder.recover(fence)
        self._evictor.resume()
        self.state.reconsider_all()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._loop.run())
                group.create_task(self._binder.run(fence))
                group.create_task(self._evictor.run(fence))
                group.create_task(self._reporter.run(fence))
        finally:
            self._leading = False
