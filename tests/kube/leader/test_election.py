"""Leader election in virtual time, for one lease."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from kube.base.clock import rfc3339_micro
from kube.base.errors import ApiError, Forbidden, ServerError, Unreachable
from kube.base.settings import LeaderElection
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.resources import LEASES
from kube.leader.election import Fence, LeaderElector, elector
from tests.support.api_server import Answer, Reply, ScriptedServer, Seen, failure
from tests.support.clock import FakeClock, settle
from tests.support.memory_api import FOREVER, Event, MemoryApi

TIMES = LeaderElection(lease_seconds=15, renew_seconds=10, retry_seconds=2)
BROKEN = ServerError(500, "InternalError", "no")
AWAY = Unreachable("GET", "/", "reset")


class Leases:
    """The one lease of an API server, and its holder after each write."""

    def __init__(self, clock: FakeClock) -> None:
        self.api = MemoryApi(clock)
        self.writes: asyncio.Queue[str] = asyncio.Queue()
        self.api.follow(LEASES, self._note)

    @property
    def lease(self) -> Json | None:
        return self.api.stored(LEASES, "muster", "ns")

    @property
    def spec(self) -> Json:
        assert self.lease is not None
        spec: Json = self.lease["spec"]
        return spec

    def fail(self, error: Exception) -> None:
        """Respond to everything with this error until `recover`."""
        self.api.fail(error, verbs=("get", "create", "update"), times=FOREVER)

    def hold(self, holder: str, **spec: Any) -> None:
        """Create or replace the lease as another process."""
        lease = {"metadata": {"name": "muster"}, "spec": {"holderIdentity": holder, **spec}}
        self.api.put(LEASES, lease, "ns")

    def take(self, holder: str, **metadata: Any) -> None:
        """Change the lease as another process."""
        patch = {"metadata": metadata, "spec": {"holderIdentity": holder}}
        self.api.change(LEASES, "muster", patch, "ns")

    def _note(self, event: Event, _kind: str) -> None:
        self.writes.put_nowait(event.obj["spec"]["holderIdentity"])


class Worker:
    """Work that runs until cancelled, and records its start and end."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.ended = asyncio.Event()
        self.fences: list[Fence] = []

    async def __call__(self, fence: Fence) -> None:
        self.fences.append(fence)
        self.ended.clear()
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.started.clear()
            self.ended.set()


@pytest.fixture
def leases(clock: FakeClock) -> Leases:
    return Leases(clock)


Electing = Callable[..., Any]


@pytest.fixture
def electing(leases: Leases, clock: FakeClock) -> Electing:
    @asynccontextmanager
    async def elect(
        identity: str, work: Callable[[Fence], Awaitable[None]], **options: Any
    ) -> AsyncIterator[asyncio.Task[None]]:
        elector = LeaderElector(
            leases.api, "muster", "ns", identity, clock,
            jitter=random.Random(1), **{"times": TIMES, **options},
        )  # fmt: skip
        task = asyncio.ensure_future(elector.run(work))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})

    return elect


async def test_the_first_candidate_creates_the_lease_and_leads(
    leases: Leases, electing: Electing
) -> None:
    worker = Worker()

    async with electing("a", worker):
        await worker.started.wait()

        assert leases.spec == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 1,
        }
        assert worker.fences[0].valid()


async def test_renewing_keeps_the_fence_valid(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    worker = Worker()

    async with electing("a", worker):
        await worker.started.wait()
        await leases.writes.get()
        for _ in range(20):
            await clock.sleeping()
            await clock.advance(2)
            await leases.writes.get()
        assert worker.fences[0].valid()
        assert leases.spec["renewTime"] == "2026-01-01T00:00:40.000000Z"


async def test_a_second_candidate_waits_while_the_first_renews(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    first, second = Worker(), Worker()

    async with electing("a", first):
        await first.started.wait()
        async with electing("b", second):
            for _ in range(20):
                await clock.sleeping(2)
                await clock.advance_to_next()
            assert not second.fences
            assert leases.spec["holderIdentity"] == "a"


async def test_a_leader_that_stops_releases_the_lease_after_its_work_has_ended(
    leases: Leases, electing: Electing
) -> None:
    worker = Worker()

    async with electing("a", worker) as task:
        await worker.started.wait()
        task.cancel()
        await asyncio.wait({task})

    assert worker.ended.is_set()
    assert not worker.fences[0].valid()
    assert leases.spec["holderIdentity"] == ""


async def test_a_released_lease_is_taken_at_once(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    first, second = Worker(), Worker()

    async with electing("a", first) as leader:
        await first.started.wait()
        async with electing("b", second):
            await clock.sleeping(2)
            leader.cancel()
            await asyncio.wait({leader})
            await settle()
            assert second.started.is_set()

    assert second.fences[0].token == first.fences[0].token + 1


async def test_a_deleted_lease_is_taken_only_when_its_holder_has_stopped(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    first, second = Worker(), Worker()

    async with electing("a", first), electing("b", second):
        await clock.sleeping(2)
        leases.api.drop(LEASES, "muster", "ns")
        for _ in range(200):
            await clock.advance(0.1)
            assert sum(f.valid() for f in (*first.fences, *second.fences)) <= 1
        assert any(f.valid() for f in (*first.fences, *second.fences))


async def test_a_deleted_lease_is_taken_after_its_whole_duration(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    """A holder that cannot reach the API server does not know that it is gone."""
    leases.hold("other", leaseDurationSeconds=15)
    worker = Worker()

    async with electing("a", worker):
        await clock.sleeping()
        held = clock.monotonic()
        await clock.advance(5)
        leases.api.drop(LEASES, "muster", "ns")
        await clock.play(worker.started.wait())

    assert clock.monotonic() - held == 15
    assert worker.fences[0].since == clock.monotonic()


async def test_a_write_that_failed_is_tried_again_soon(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    leases.api.fail(BROKEN, verbs=("create",), times=3)
    worker, begun = Worker(), clock.monotonic()

    async with electing("a", worker):
        await clock.play(worker.started.wait())

    assert clock.monotonic() - begun <= 3 * 2 * 1.2


async def test_a_watch_that_says_nothing_is_not_relied_on(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    """The lease is released while the connection of the watch is dead."""
    leases.hold("other", leaseDurationSeconds=15)
    worker = Worker()

    async with electing("a", worker):
        await clock.sleeping()
        leases.api.hold_events()
        for number in range(12):
            await clock.advance(1)
            leases.api.change(LEASES, "muster", {"spec": {"renewTime": str(number)}}, "ns")
        leases.take("")
        released = clock.monotonic()
        await clock.play(worker.started.wait())

    assert clock.monotonic() - released <= 10 + 2 * 1.2


@pytest.mark.parametrize("watched", [True, False])
async def test_a_candidate_takes_the_lease_as_soon_as_it_has_expired(
    leases: Leases, electing: Electing, clock: FakeClock, watched: bool
) -> None:
    """Without the right to watch, which an older version did not need, it asks instead."""
    if not watched:
        leases.api.fail(Forbidden(403, "Forbidden", "no"), verbs=("list",), times=FOREVER)
    leases.hold("other", leaseDurationSeconds=15)
    worker = Worker()

    async with electing("a", worker):
        for number in range(60):
            await clock.advance(1)
            leases.api.change(LEASES, "muster", {"spec": {"renewTime": str(number)}}, "ns")
        read = sum(request.verb == "get" for request in leases.api.sent)
        renewed = clock.monotonic()
        await clock.play(worker.started.wait())
        taken = clock.monotonic() - renewed

    assert not watched or taken == 15
    assert 15 <= taken <= 15 + 2 * 1.2
    assert (read <= 2) == watched


async def test_what_the_watch_says_late_does_not_make_the_lease_free(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    leases.hold("other", leaseDurationSeconds=15)
    worker = Worker()

    async with electing("a", worker):
        await clock.sleeping()
        leases.api.hold_events()
        leases.take("")
        leases.hold("another", leaseDurationSeconds=15)
        await clock.advance(14)
        leases.api.release_events()
        await clock.advance(14)
        assert not worker.fences
        assert leases.spec["holderIdentity"] == "another"


async def test_the_lease_of_a_dead_leader_is_taken_after_its_whole_duration(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    leases.hold("dead", leaseDurationSeconds=30, leaseTransitions=4)
    worker = Worker()
    started = clock.monotonic()

    async with electing("a", worker):
        await clock.play(worker.started.wait())

    assert clock.monotonic() - started == 30
    assert worker.fences[0].token == 5


@pytest.mark.parametrize("minutes", [-5, 5])
async def test_times_in_the_lease_of_another_clock_do_not_matter(
    leases: Leases, electing: Electing, clock: FakeClock, minutes: int
) -> None:
    def renew() -> None:
        at = rfc3339_micro(clock.now() + timedelta(minutes=minutes))
        leases.hold("other", acquireTime=at, renewTime=at, leaseDurationSeconds=15)

    renew()
    worker = Worker()
    async with electing("a", worker):
        for _ in range(30):
            await clock.sleeping()
            await clock.advance_to_next()
            renew()
        assert not worker.fences
        renewed = clock.monotonic()
        await clock.play(worker.started.wait())

    assert 15 <= clock.monotonic() - renewed < 20


async def test_a_leader_that_cannot_renew_stops_before_anybody_can_take_over(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    worker = Worker()

    async with electing("a", worker):
        await worker.started.wait()
        leases.fail(BROKEN)
        before = clock.monotonic()
        await clock.play(worker.ended.wait())

        assert clock.monotonic() - before == 10
        assert not worker.fences[0].valid()


async def test_an_answer_that_never_comes_cannot_outlive_the_deadline(
    leases: Leases, client: Client, server: ScriptedServer
) -> None:
    worker, answers = Worker(), asyncio.Event()
    answers.set()

    async def serve(seen: Seen) -> Answer:
        await answers.wait()
        try:
            body = None if seen.body is None else json.dumps(seen.body).encode()
            return Reply(json.loads(await leases.api.request(seen.method, seen.path, body=body)))
        except ApiError as error:
            return failure(error.status, error.reason)

    server.handler = serve
    times = LeaderElection(lease_seconds=1, renew_seconds=0.3, retry_seconds=0.05)
    elector = LeaderElector(client, "muster", "ns", "a", times=times)
    task = asyncio.ensure_future(elector.run(worker))
    await worker.started.wait()

    answers.clear()
    await worker.ended.wait()

    assert not worker.fences[0].valid()
    answers.set()
    task.cancel()
    await asyncio.wait({task})


async def test_the_fence_expires_by_the_clock_alone(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    worker = Worker()

    async with electing("a", worker):
        await worker.started.wait()
        clock.jump(10)
        assert not worker.fences[0].valid()


async def test_a_lease_taken_by_another_is_lost_at_once(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    worker = Worker()

    async with electing("a", worker):
        await worker.started.wait()
        await clock.sleeping()
        leases.take("thief")
        await clock.advance(2)
        await worker.ended.wait()

    assert leases.spec["holderIdentity"] == "thief"


async def test_a_lease_that_was_deleted_is_lost_and_won_again(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    worker = Worker()

    async with electing("a", worker):
        await worker.started.wait()
        await clock.sleeping()
        leases.api.drop(LEASES, "muster", "ns")
        await clock.advance(2)
        await clock.play(worker.started.wait())

    assert len(worker.fences) == 2


async def test_a_change_of_the_record_by_others_is_no_loss(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    worker = Worker()

    async with electing("a", worker):
        await worker.started.wait()
        await leases.writes.get()
        leases.take("a", annotations={"seen": "yes"})
        await leases.writes.get()
        for _ in range(8):
            await clock.sleeping()
            await clock.advance_to_next()
            if not leases.writes.empty():
                break
        assert await leases.writes.get() == "a"
        assert worker.fences[0].valid()
        assert (leases.lease or {})["metadata"]["annotations"] == {"seen": "yes"}


async def test_an_outage_shorter_than_the_deadline_is_survived(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    worker = Worker()

    async with electing("a", worker):
        await worker.started.wait()
        await leases.writes.get()
        leases.fail(AWAY)
        for _ in range(3):
            await clock.sleeping()
            await clock.advance_to_next()
        leases.api.recover()
        await clock.sleeping()
        await clock.advance_to_next()
        await leases.writes.get()

    assert len(worker.fences) == 1


async def test_a_candidate_waits_out_an_api_server_that_is_away(
    leases: Leases, electing: Electing, clock: FakeClock
) -> None:
    leases.fail(AWAY)
    worker = Worker()

    async with electing("a", worker):
        await clock.sleeping()
        leases.api.recover()
        await clock.play(worker.started.wait())


async def test_work_that_ends_ends_the_leadership(leases: Leases, electing: Electing) -> None:
    async def work(fence: Fence) -> None:
        assert fence.valid()

    async with electing("a", work) as task:
        await task

    assert leases.spec["holderIdentity"] == ""


async def test_work_that_fails_releases_the_lease_and_raises(
    leases: Leases, electing: Electing
) -> None:
    async def work(fence: Fence) -> None:
        raise LookupError("broken")

    async with electing("a", work) as task:
        with pytest.raises(LookupError):
            await task

    assert leases.spec["holderIdentity"] == ""


async def test_settings_say_how_a_process_leads(leases: Leases) -> None:
    worker = Worker()
    settings = LeaderElection(lease_seconds=4, renew_seconds=3, retry_seconds=1)
    task = asyncio.ensure_future(elector(leases.api, "muster", "ns", settings).run(worker))
    await worker.started.wait()

    assert leases.spec["leaseDurationSeconds"] == 4
    task.cancel()
    await asyncio.wait({task})


async def test_a_single_replica_leads_without_a_lease(leases: Leases) -> None:
    fences = []

    async def work(fence: Fence) -> None:
        fences.append(fence.valid())

    await elector(leases.api, "muster", "ns", LeaderElection(enabled=False)).run(work)

    assert fences == [True]
    assert leases.api.sent == []


@pytest.mark.parametrize(
    ("lease", "renew", "retry"),
    [
        pytest.param(10, 10, 2, id="no margin for others"),
        pytest.param(15, 2, 2, id="no second try"),
    ],
)
def test_times_that_cannot_work_are_refused(lease: float, renew: float, retry: float) -> None:
    with pytest.raises(ValueError, match="must be more than"):
        LeaderElection(lease_seconds=lease, renew_seconds=renew, retry_seconds=retry)


@pytest.mark.parametrize("released", [False, True])
async def test_a_lease_that_was_seen_free_is_free_since_then(
    leases: Leases, clock: FakeClock, released: bool
) -> None:
    if released:
        leases.hold("", leaseDurationSeconds=15)
    worker = Worker()
    candidate = elector(leases.api, "muster", "ns", LeaderElection(), clock=clock)

    await candidate.observe()
    seen = clock.monotonic()
    await clock.advance(60)
    task = asyncio.ensure_future(candidate.run(worker))
    await worker.started.wait()
    task.cancel()
    await asyncio.wait({task})

    assert worker.fences[0].since == seen


@pytest.mark.parametrize("end", ["released", "expired"])
async def test_a_lease_that_another_held_is_free_since_that_was_seen_to_end(
    leases: Leases, clock: FakeClock, end: str
) -> None:
    leases.hold("other", leaseDurationSeconds=15)
    worker = Worker()
    candidate = elector(leases.api, "muster", "ns", LeaderElection(), clock=clock)

    await candidate.observe()
    task = asyncio.ensure_future(candidate.run(worker))
    await clock.sleeping()
    await clock.advance(1)
    ended = clock.monotonic()
    if end == "released":
        leases.take("")
    await clock.play(worker.started.wait())
    task.cancel()
    await asyncio.wait({task})

    assert ended <= worker.fences[0].since <= clock.monotonic()


async def test_a_lease_that_was_lost_and_won_again_is_free_since_it_was_won(
    leases: Leases, clock: FakeClock
) -> None:
    worker = Worker()
    candidate = elector(leases.api, "muster", "ns", LeaderElection(), clock=clock)
    task = asyncio.ensure_future(candidate.run(worker))
    await worker.started.wait()

    leases.fail(BROKEN)
    await clock.play(worker.ended.wait())
    lost = clock.monotonic()
    leases.api.recover()
    await clock.play(worker.started.wait())
    task.cancel()
    await asyncio.wait({task})

    assert worker.fences[1].since >= lost


async def test_a_server_that_is_away_is_not_waited_for_to_observe(
    leases: Leases, clock: FakeClock
) -> None:
    leases.fail(AWAY)

    await elector(leases.api, "muster", "ns", LeaderElection(), clock=clock).observe()

    assert leases.lease is None


@pytest.mark.parametrize("write", [1, 2], ids=["taking it", "renewing it"])
async def test_the_lease_counts_from_the_request_and_not_from_its_answer(
    leases: Leases, electing: Electing, clock: FakeClock, write: int
) -> None:
    """Others count from the moment when the API server carried it out, which may be long ago."""
    worker = Worker()
    sent: list[float] = []
    leases.api.on(lambda _request: sent.append(clock.monotonic()), "create", "update")
    leases.api.on(
        lambda _request: clock.jump(4), "create", "update", answered=True, nth=write, times=1
    )

    async with electing("a", worker, times=TIMES):
        await worker.started.wait()
        if write > 1:
            await clock.sleeping()
            await clock.advance(2)
        await settle()
        assert worker.fences[0].until == sent[write - 1] + 10
