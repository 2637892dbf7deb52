"""The scheduler process: it keeps the state up to date, and decides while it leads."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, TypeVar

import structlog

from api import features
from api.constants import SCHEDULER_COMPONENT, SCHEDULER_NAME
from api.features import Feature, FeatureGates
from api.scheduler_names import SchedulerNames
from kube.base.clock import Clock
from kube.base.errors import Unreachable
from kube.base.process import run_until
from kube.base.settings import LeaderElection
from kube.base.status_server import Page
from kube.client.client import Client
from kube.concurrency.freeze import Freeze
from kube.concurrency.pace import Pace
from kube.concurrency.stepwise import Stepwise
from kube.events.events import Recorder
from kube.informers.quarantine import Quarantine
from kube.leader.election import Fence, elector
from scheduler.binding.binder import Binder, PreBind
from scheduler.binding.reports import Reports
from scheduler.binding.volume_binder import VolumeBinder
from scheduler.cel.selectors import Selectors
from scheduler.claims.allocation_writer import AllocationWriter
from scheduler.claims.claim_client import ClaimClient
from scheduler.claims.claim_finalizers import ClaimFinalizers
from scheduler.claims.claim_releases import ClaimReleases
from scheduler.claims.extended_resource_claims import ExtendedClaims
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.profiles import Scoring
from scheduler.cycle.cycle import Cycle
from scheduler.cycle.loop import Loop
from scheduler.cycle.parts import CycleParts, NoHeldPlaces
from scheduler.cycle.start_limits import StartLimits
from scheduler.cycle.starvation_monitor import StarvationMonitor
from scheduler.events.group_events import GroupEvents
from scheduler.held_places.held_places import HeldPlaces
from scheduler.preemption.defragmenter import Defragmenter
from scheduler.preemption.evictor import Evictor
from scheduler.preemption.preemptor import Preemptor
from scheduler.queue.scheduling_queue import Queue
from scheduler.queue.shell import Shell
from scheduler.snapshot.snapshot import Limits, Snapshot, encode_in_parts, queue_of, take
from scheduler.state_metrics import LEADER, StateMetrics
from scheduler.status.reporter import Reporter
from scheduler.support.activity import Activity
from scheduler.support.config import Config
from scheduler.support.device_budget import DeviceWork
from scheduler.support.metrics import TAKEOVER_SECONDS, no_longer_leading
from scheduler.support.wait_times import GangTimes
from scheduler.watch.claim_notifications import ClaimNews
from scheduler.watch.informers import SchedulerInformers, catch_up

T = TypeVar("T")

LEASE: Final = SCHEDULER_COMPONENT

DEFAULT_PROFILES: Final[Mapping[str, Scoring]] = {SCHEDULER_NAME: Scoring()}

_OPEN_WITHIN: Final = 5.0
"""Seconds to open connections for Bindings in advance. Later ones are opened on demand."""

_BOUND_PAUSE: Final = 0.02
"""Seconds between two events of bound pods while Bindings and evictions, which go first, run."""

_log = structlog.get_logger()


class PartOfATerm(Protocol):
    """A part that remembers something between two decisions while this process leads."""

    def reset(self) -> None:
        """Forget everything: a new term begins."""
        ...


class Scheduler:
    """All parts of one scheduler; `run` watches the cluster, and decides while it leads."""

    def __init__(
        self,
        client: Client,
        config: Config,
        election: LeaderElection,
        namespace: str = "muster-system",
        clock: Clock | None = None,
        *,
        profiles: Mapping[str, Scoring] = DEFAULT_PROFILES,
        gates: FeatureGates = features.USUAL,
    ) -> None:
        """Create all parts; nothing is read or written before `run`.

        The lease is in `namespace`. `profiles` has the scoring of each schedulerName whose pods are
        scheduled, `gates` the feature gates that are on. Times are compared with timestamps of the
        API server, so the default for `clock` is the server's.
        """
        self._client = client
        self._config = config
        self._profiles = profiles
        self._gates = gates
        self._clock = clock = clock or client.server_clock
        self._elector = elector(client, LEASE, namespace, election, clock=clock)
        self._leading = False
        self._changed = asyncio.Event()
        self._fell_behind = asyncio.Event()
        self._catching_up = Pace("match", clock)
        # By the wall clock, short decisions seem long on a busy machine, and would be made twice.
        # So the thread's own time counts where the platform has it.
        self._stepwise = Stepwise(clock, getattr(time, "thread_time", None))
        self._claim_news, self._device_news = ClaimNews(), ClaimNews()
        selectors = Selectors()
        self.state = State(self._claim_news.changed, selectors.evaluate)
        self._device_work = DeviceWork(self.state.devices.allowance, selectors, clock)
        self.queue = Queue(self.state, retry=config.retry_seconds, device_work=self._device_work)
        self._activity, self._freeze = Activity(), Freeze()
        self._shell = Shell(
            self.state, self.queue, clock, self._activity, self._freeze, self._state_changed
        )
        self._recorder = Recorder(client, SCHEDULER_COMPONENT, clock)
        self._bound_recorder = self._new_bound_recorder()
        self._quarantine = Quarantine(self._recorder)
        self._informers = self._new_informers()
        self._events = GroupEvents(
            self._recorder, self.state, self._informers.observed, self._bound_recorder
        )
        self._held_places = self._new_held_places()
        self._reporter = self._new_reporter()
        self._times = GangTimes(self.state, clock)
        keys = config.metrics.topology_keys
        self._state_metrics = StateMetrics(self.state, self._times, self._freeze, keys, selectors)
        self._add_claim_writers()
        self._binder = self._new_binder()
        self._evictor = Evictor(client, self._shell, self._events, config.preemption)
        self._preemptor = self._new_preemptor()
        self._defragmenter = self._new_defragmenter()
        self._starvation = StarvationMonitor(
            self.state,
            self.queue,
            clock=clock,
            config=config.starvation,
            stepwise=self._stepwise,
            budget=self._budget,
        )
        self._start_limits = StartLimits(
            self.state, clock, self._informers.observed, self._reporter.last_refusal
        )
        self._cycle = self._new_cycle()
        self._loop = Loop(
            self._cycle,
            self.queue,
            clock,
            activity=self._activity,
            changed=self._changed,
            freeze=self._freeze,
        )
        # All parts that remember decisions or writes: another process may have led since.
        self._parts_of_a_term: tuple[PartOfATerm, ...] = (
            self._activity,
            self.queue,
            self._binder,
            self._preemptor,
            self._defragmenter,
            self._starvation,
            self._start_limits,
            self._cycle,
            *([self._held_places] if self._held_places is not None else []),
            self._evictor,
            self._reporter,
        )

    def _new_bound_recorder(self) -> Recorder:
        """Return the recorder of the event that a pod was bound.

        There are as many of these events as pods. They are sent one after another with one attempt
        each, and dropped first, so that they delay neither Bindings nor other events.
        """
        busy = self._activity
        return Recorder(
            self._client,
            SCHEDULER_COMPONENT,
            self._clock,
            senders=1,
            attempts=1,
            pause=lambda: _BOUND_PAUSE if busy.busy else 0.0,
        )

    def _new_informers(self) -> SchedulerInformers:
        return SchedulerInformers(
            self._client,
            self.state,
            self._state_changed,
            quarantine=self._quarantine,
            freeze=self._freeze,
            scheduler_names=SchedulerNames(tuple(self._profiles)),
            gates=self._gates,
            claim_news=self._device_news,
            expected_limits=self._config.holding.limits(),
            clock=self._clock,
        )

    def _new_held_places(self) -> HeldPlaces | None:
        informers = self._informers
        # The feature gate is off.
        if informers.expected is None:
            return None
        return HeldPlaces(
            self._shell,
            informers.pods,
            informers.expected,
            self._events,
            config=self._config.holding,
            observed=informers.observed,
            evict=self._evict,
            store=self._store,
            device_work=self._device_work,
        )

    def _new_reporter(self) -> Reporter:
        return Reporter(
            self._client,
            self._shell,
            self._events,
            config=self._config.status,
            observed=self._informers.observed,
            pending=self._informers.pods.pending,
            gates=self._gates,
            held_places=self._held_places,
        )

    def _add_claim_writers(self) -> None:
        """Create the writers of ResourceClaims: allocations, finalizers and releases."""
        state, clock, news, pods = self.state, self._clock, self._device_news, self._informers.pods
        claims = ClaimClient(self._client, self._informers.device_claims, self._freeze)
        extended = ExtendedClaims(self._client, claims, state, pods.claims, clock)
        # As many as Bindings: with 48, gangs of three with a claim each got 227 pods a second, not
        # 321.
        writers = self._config.bind_workers
        self._allocations = AllocationWriter(
            claims, state, news, self._events, extended, clock=clock, writers=writers
        )
        self._claim_finalizers = ClaimFinalizers(claims, state, news)
        self._claim_releases = ClaimReleases(
            claims, state, news, extended, clock=clock, reshape=pods.reshape
        )

    def _new_binder(self) -> Binder:
        volumes = VolumeBinder(
            self._client, self.state, self._clock, self._claim_news, self._freeze
        )
        return Binder(
            self._client,
            self._shell,
            Reports(self._events, self._times, self._reporter.refused),
            PreBind(volumes, self._allocations, self._claim_releases, self._informers.expected),
            workers=self._config.bind_workers,
            timeout=self._config.bind_timeout_seconds,
        )

    def _new_preemptor(self) -> Preemptor:
        return Preemptor(
            self.state,
            self.queue,
            self._evictor,
            clock=self._clock,
            config=self._config.preemption,
            stepwise=self._stepwise,
            budget=self._budget,
            gates=self._gates,
        )

    def _new_defragmenter(self) -> Defragmenter:
        return Defragmenter(
            self.state,
            self.queue,
            (self._preemptor, self._evictor),
            clock=self._clock,
            config=self._config,
            stepwise=self._stepwise,
            budget=self._budget,
        )

    def _new_cycle(self) -> Cycle:
        parts = CycleParts(
            self._binder,
            self._reporter,
            preemption=self._preemptor,
            defragmentation=self._defragmenter,
            starvation=self._starvation,
            start_limits=self._start_limits,
            held_places=self._held_places or NoHeldPlaces(),
            device_work=self._device_work,
            claim_releases=self._claim_releases,
            times=self._times,
        )
        return Cycle(
            self.state,
            self.queue,
            parts,
            clock=self._clock,
            stepwise=self._stepwise,
            budget=self._budget,
            log_decisions=self._config.log_decisions,
        )

    @property
    def synced(self) -> bool:
        """True if every watch has delivered its first list."""
        return self._informers.synced

    @property
    def checks(self) -> Mapping[str, Callable[[], bool]]:
        """The readiness checks: caches in sync. A replica that does not lead is ready, too."""
        return {"caches": lambda: self.synced}

    @property
    def pages(self) -> Mapping[str, Page]:
        """The debugging pages: the complete input of the next decision, for `muster replay`."""
        return {"/debug/snapshot": self.snapshot}

    @property
    def actions(self) -> Mapping[str, Page]:
        """The debugging actions: decide all waiting roots again, as a new leader does."""
        return {"/debug/decide": self._decide_all}

    def details(self) -> Iterator[str]:
        """Yield lines for `/readyz`: objects that are skipped, and failures."""
        yield from self._quarantine.details()
        yield from self._cycle.details()
        yield from self._reporter.details()

    def _evict(self, root: Group, pods: list[Pod], why: str) -> None:
        self._evictor.disrupt(root, pods, why)

    def _store(self, placement: Placement) -> None:
        self._binder.submit(placement)

    async def _decide_all(self) -> bytes:
        """Decide all roots again, and respond once that is done.

        `leads` is false if this replica does not lead, and so decides nothing.
        """
        if self._leading:
            self.state.reconsider_all()
            await self._loop.round()
        return b'{"leads":true}' if self._leading else b'{"leads":false}'

    async def snapshot(self) -> list[bytes]:
        """Return the JSON of the snapshot page, in parts. The state is frozen while it is read."""
        preemption = self._config.preemption
        limits = Limits.of(
            # Without a limit of time: a replay on another machine must decide alike.
            SearchBudget(steps=self._config.search.steps, profiles=self._profiles),
            SearchEffort.at(self._clock.monotonic(), preemption.patience_seconds),
            preempts=preemption.enabled and Feature.PREEMPTION in self._gates,
        )
        self.state.units.protection = preemption.protection(self._clock)
        pause = self._stepwise.pause

        def taken() -> Snapshot:
            # A replica that does not lead has no queue.
            queue = self.queue if self._leading else queue_of(self.state)
            classes = self._informers.priority_classes.all()
            return take(self.state, queue, limits, classes, pause=pause)

        await self._freeze.over()
        with self._freeze:
            for _ in self.state.catch_up():
                await asyncio.sleep(0)
            for _ in self.state.units.refresh_in_steps():
                await asyncio.sleep(0)
            snapshot = await self._stepwise.awaited(taken)
        # The snapshot is a copy: it is encoded without the freeze.
        return await self._stepwise.awaited(lambda: encode_in_parts(snapshot, pause))

    async def run(self, stop: asyncio.Event) -> None:
        """Run all parts until `stop`. Failures of the API server are retried."""
        # If there is no leader at this moment, the lists that follow are new enough to lead with.
        await self._elector.observe()
        watches = self._informers.runs()
        recorders = (self._recorder.run(), self._bound_recorder.run())
        await run_until(stop, *watches, *recorders, self._keep_up(), self._lead_when_synced())

    async def _keep_up(self) -> None:
        """Let the state catch up in slices. No events are applied meanwhile."""
        while True:
            await self._fell_behind.wait()
            self._fell_behind.clear()
            await self._catch_up()
            self._state_changed()

    async def _catch_up(self) -> None:
        await self._freeze.over()
        self._catching_up.begin()
        with self._freeze:
            for _ in self.state.catch_up():
                if self._catching_up.over(()):
                    await self._catching_up.give_way()

    def _state_changed(self) -> None:
        if self.state.behind:
            self._fell_behind.set()
        if self._leading:
            self._changed.set()
        else:
            # A new leader reviews every root. Until then the changes would only accumulate.
            self.state.take_changes()

    def _budget(self) -> SearchBudget:
        search = self._config.search
        # This clock stands still while other tasks run in the middle of a decision.
        monotonic = self._stepwise.monotonic
        until = monotonic() + search.milliseconds / 1000
        return SearchBudget(
            steps=search.steps,
            profiles=self._profiles,
            expired=lambda: monotonic() >= until,
            pause=self._stepwise.pause,
        )

    async def _lead_when_synced(self) -> None:
        # The objects of the first lists live long. Scanning them again and again would cost a
        # seventh of reading them, so the collector runs rarely until they are frozen, and then as
        # usual.
        usual = gc.get_threshold()
        gc.set_threshold(50_000, 20, 100)
        await asyncio.gather(self._informers.wait(), self._open_connections())
        # Otherwise a new leader would catch up before its first decision, without a leader.
        await self._catch_up()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*usual)
        _log.info("synced", nodes=self.state.nodes.size, pods=len(self.state.pods))
        await self._elector.run(self._lead)

    async def _open_connections(self) -> None:
        """Open connections while the lists are read: handshakes would delay the first Bindings."""
        try:
            async with asyncio.timeout(_OPEN_WITHIN):
                await self._client.open_connections(self._config.bind_workers)
        except (Unreachable, TimeoutError) as error:
            _log.info("failed to open connections in advance", error=repr(error))

    async def _lead(self, fence: Fence) -> None:
        """Complete what earlier leaders began, then decide and act until the lease is lost."""
        begun = self._clock.monotonic()
        # The caches may lag behind what the last leader wrote: its pods would be decided twice.
        await catch_up(self._informers.watched, fence.since, self._clock)
        await self._freeze.over()
        for part in self._parts_of_a_term:
            part.reset()
        self._set_leading(leads=True)
        try:
            # Part of the term: if the lease ends meanwhile, this replica must not believe it leads.
            await self._binder.recover(fence)
            await self._freeze.over()
            # Before the first decision, in which an earlier leader's victims and nominations count.
            self._evictor.resume()
            self._preemptor.restore()
            self.state.reconsider_all()
            TAKEOVER_SECONDS.set(self._clock.monotonic() - begun)
            # Only the leader exports metrics of the state, so that sums over replicas are right.
            LEADER.source = self._state_metrics
            async with asyncio.TaskGroup() as group:
                group.create_task(self._loop.run())
                group.create_task(self._binder.run(fence))
                group.create_task(self._claim_finalizers.run(fence))
                group.create_task(self._evictor.run(fence))
                group.create_task(self._reporter.run(fence))
                if self._held_places is not None:
                    group.create_task(self._held_places.run(fence))
        finally:
            self._set_leading(leads=False)
            # Otherwise a request to decide everything would wait for the next term.
            self._loop.end_round()
            LEADER.source = None
            no_longer_leading()

    def _set_leading(self, *, leads: bool) -> None:
        self._leading = leads
        self._allocations.lead(leads=leads)
        self._claim_releases.lead(leads=leads)
