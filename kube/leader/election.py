"""Leader election on a Lease, with a fence for the work.

Time is the local monotonic clock only: the wall clocks of two machines are never compared. A
candidate takes the lease over when it has itself seen the record unchanged for the complete lease
duration. It watches the lease, so it does so at that moment, and at once when the leader releases
it; what it hears late can only make it wait longer, because it reads the lease before it takes it.
The leader counts from the moment *before* it sent its last successful renewal, gives up
at the renew deadline, which is earlier than any other candidate can take over, and cancels its
work. The fence becomes invalid at that very moment even if the event loop is late, and no request
of the work is sent after it (`kube.client.fencing.fenced`).
"""

import asyncio
import math
import os
import random
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
import structlog

from kube.base.clock import Clock, SystemClock, rfc3339_micro
from kube.base.errors import AlreadyExists, ApiError, ConfigError, Conflict, NotFound, Unreachable
from kube.base.metrics import LEADER
from kube.base.settings import LeaderElection
from kube.client.client import Client
from kube.client.decoding import Decoder
from kube.client.fencing import fenced
from kube.client.meta import Identity, Json, Key
from kube.client.resources import LEASES
from kube.concurrency.backoff import retry_after
from kube.concurrency.event_wait import wait_until
from kube.informers.reflector import Reflector, Requests

_log = structlog.get_logger()


class Fence:
    """The validity of the lease; check it right before each write, without awaiting."""

    def __init__(self, clock: Clock, token: int, until: float, *, since: float = -math.inf) -> None:
        self.token = token
        """A number that grows with each change of leader."""
        self.since = since
        """The time since which no other process led: later reads have all that leaders wrote."""
        self._clock = clock
        self._until = until

    @property
    def until(self) -> float:
        """The monotonic time at which the fence becomes invalid, unless renewed."""
        return self._until

    def valid(self) -> bool:
        """Return whether no other process can be the leader yet."""
        return self._clock.monotonic() < self._until

    def extend(self, until: float) -> None:
        """Record that the lease was renewed."""
        self._until = max(self._until, until)

    def revoke(self) -> None:
        """Record that the lease is lost or released."""
        self._until = float("-inf")


Work = Callable[[Fence], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _HeldLease:
    record: Json
    since: float  # the monotonic time before the request was sent
    free_since: float  # without a leader since then


class _Lease(msgspec.Struct):
    metadata: Identity
    spec: Json = {}


_decode = Decoder(_Lease)


class LeaderElector:
    """A candidate for one lease. `identity` must be unique to this run of the process."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        clock: Clock | None = None,
        *,
        times: LeaderElection = LeaderElection(),
        jitter: random.Random | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._clock = clock or SystemClock()
        self._times = times
        self._jitter = jitter or random.SystemRandom()
        self._call_seconds = times.renew_seconds / 2
        self._observed: tuple[Json | None, float] = (None, math.inf)
        self._held_until = -math.inf
        self._released = asyncio.Event()
        self._watch = Reflector(
            client,
            LEASES,
            self,
            decode=_decode,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
            clock=self._clock,
            # The leader renews more often than that.
            requests=Requests(inactivity=2 * times.lease_seconds, jitter=self._jitter),
        )
        self._gauge = LEADER.labels(name)
        self._gauge.set(0)

    async def observe(self) -> None:
        """Read who leads. If no process leads from now on, later reads are new enough to lead."""
        try:
            self._note(await self._read())
        except NotFound:
            self._note(None)
        except (ApiError, ConfigError, Unreachable) as error:
            _log.info("failed to observe the lease", lease=self._name, error=str(error))

    async def run(self, work: Work) -> None:
        """Lead whenever possible: `work(fence)` runs while the lease is held.

        When the lease is lost the work is cancelled and, once leading again, started again. Returns
        when the work returns; raises what it raises; the lease is released in both cases, and also
        when cancelled.
        """
        watch = asyncio.ensure_future(self._watch.run())
        try:
            while True:
                held = await self._acquire()
                _log.info("became leader", lease=self._name, identity=self._identity)
                if await self._lead(held, work):
                    return
                _log.warning("stopped leading", lease=self._name, identity=self._identity)
        finally:
            watch.cancel()
            await asyncio.wait({watch})

    def upsert(self, obj: _Lease) -> None:
        """Note what the watch says."""
        if not self._note({"spec": obj.spec}).get("holderIdentity"):
            self._released.set()

    def delete(self, _key: Key) -> None:
        """Note what the watch says. The holder leads on until it finds out, so wait for that."""
        self._note(None)

    async def _acquire(self) -> _HeldLease:
        while True:
            asked = 0.0
            self._released.clear()
            try:
                held = await self._attempt()
                if held is not None:
                    return held
            except (ApiError, ConfigError, Unreachable) as error:
                _log.warning("failed to acquire the lease", lease=self._name, error=str(error))
                asked = retry_after(error)
            await self._wait(asked)

    async def _wait(self, asked: float) -> None:
        """Wait until the lease may be free, as far as the watch knows; else for a retry."""
        # A server that asks for time gets it, whatever the watch says meanwhile.
        wake = asyncio.Event() if asked else self._released
        while True:
            free, now = self._held_until, self._clock.monotonic()
            # The holder renews more often than that.
            watched = self._watch.synced.is_set() and self._watch.lag() < self._times.renew_seconds
            if asked or free <= now or not watched:
                break
            await wait_until(wake, free, self._clock)
            # It was renewed meanwhile: no need to ask.
            if wake.is_set() or self._held_until <= self._clock.monotonic():
                return
        # Jitter: replicas that start together must not write the same lease at the same moment.
        retry = max(self._times.retry_seconds, asked) * self._jitter.uniform(1.0, 1.2)
        until = now + retry if asked or free <= now else min(now + retry, free)
        await wait_until(wake, until, self._clock)

    async def _attempt(self) -> _HeldLease | None:
        """Take the lease if it is free; None if another holds it or was faster."""
        try:
            current = await self._read()
        except NotFound:
            current = None
        spec = self._note(current)
        if not self._may_take():
            return None
        # Before the request: others see the record later, so this moment is on the safe side.
        since = self._clock.monotonic()
        # A lease without a holder has been free since we saw it so: later reads are new enough.
        # The holder of a deleted one may have led until now.
        was_held = spec.get("holderIdentity") or (current is None and self._held_until > -math.inf)
        free_since = since if was_held else self._observed[1]
        try:
            if current is None:
                record = await self._call("POST", self._claimed(self._blank()))
            else:
                record = await self._call("PUT", self._claimed(current))
        except (AlreadyExists, Conflict):
            return None
        return _HeldLease(record, since, free_since)

    def _note(self, record: Json | None) -> Json:
        """Remember since when the lease is as it is; return its spec, empty if there is none."""
        spec: Json = (record or {}).get("spec") or {}
        if spec != self._observed[0]:
            self._observed = (spec, self._clock.monotonic())
            if spec.get("holderIdentity") not in (None, "", self._identity):
                self._held_until = self._clock.monotonic() + self._duration(spec)
            elif record is not None:
                self._held_until = -math.inf
        return spec

    def _may_take(self) -> bool:
        """Return True if no other candidate can lead, by what was noted last."""
        # Our own identity is there if the response to our write was lost.
        return self._clock.monotonic() >= self._held_until

    def _duration(self, spec: Json) -> float:
        return float(spec.get("leaseDurationSeconds") or self._times.lease_seconds)

    async def _lead(self, held: _HeldLease, work: Work) -> bool:
        """Renew while working; return True if the work ended by itself."""
        token = int(held.record["spec"].get("leaseTransitions") or 0)
        until = held.since + self._times.renew_seconds
        fence = Fence(self._clock, token, until, since=held.free_since)
        renewer = asyncio.ensure_future(self._renew_until_lost(held.record, fence))
        # The renewer is outside: its requests decide whether the lease is kept.
        with fenced(fence.valid):
            worker = asyncio.ensure_future(work(fence))
        self._gauge.set(1)
        try:
            await asyncio.wait({renewer, worker}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            finished = worker.done()
            fence.revoke()
            renewer.cancel()
            worker.cancel()
            # Another candidate may start only when the work has really ended.
            await asyncio.wait({renewer, worker})
            self._gauge.set(0)
            await self._release()
        for task in (worker, renewer):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return finished

    async def _renew_until_lost(self, record: Json, fence: Fence) -> None:
        asked, retry = 0.0, self._times.retry_seconds
        while (left := fence.until - self._clock.monotonic()) > 0:
            # The last attempt is in time, whatever the server asked for.
            await self._clock.sleep(min(max(retry, min(asked, left - retry)), left))
            asked = 0.0
            since = self._clock.monotonic()
            if since >= fence.until:
                break
            try:
                timeout = min(self._call_seconds, fence.until - since)
                record = await self._call("PUT", self._renewed(record), timeout)
            except NotFound:
                break
            except Conflict:
                # Our own renewal, whose response was lost, conflicts with the next one as well.
                reread = await self._reread()
                if reread is None:
                    break
                record = reread or record
            except (ApiError, ConfigError, Unreachable) as error:
                _log.warning("failed to renew the lease", lease=self._name, error=str(error))
                asked = retry_after(error)
            else:
                fence.extend(since + self._times.renew_seconds)

    async def _reread(self) -> Json | None:
        """Return the record if we still hold it, {} if that is unknown now, None if it is lost."""
        try:
            record = await self._read()
        except NotFound:
            return None
        except (ApiError, ConfigError, Unreachable) as error:
            _log.warning("failed to read the lease", lease=self._name, error=str(error))
            return {}
        return record if record["spec"].get("holderIdentity") == self._identity else None

    async def _release(self) -> None:
        """Release the lease so that the next leader need not wait; it expires otherwise."""
        try:
            record = await self._read()
            if (record.get("spec") or {}).get("holderIdentity") != self._identity:
                return
            # One second, as client-go releases a lease.
            record["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._call("PUT", record)
        except (ApiError, ConfigError, Unreachable) as error:
            _log.warning("failed to release the lease", lease=self._name, error=str(error))

    def _claimed(self, record: Json) -> Json:
        spec = dict(record.get("spec") or {})
        now = rfc3339_micro(self._clock.now())
        transitions = int(spec.get("leaseTransitions") or 0)
        if spec.get("holderIdentity") != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = transitions + 1
        spec["holderIdentity"] = self._identity
        spec["leaseDurationSeconds"] = math.ceil(self._times.lease_seconds)
        spec["renewTime"] = now
        return {**record, "spec": spec}

    def _renewed(self, record: Json) -> Json:
        renewed = {**record["spec"], "renewTime": rfc3339_micro(self._clock.now())}
        return {**record, "spec": renewed}

    def _blank(self) -> Json:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
        }

    async def _read(self) -> Json:
        path = LEASES.path(self._namespace, self._name)
        body = await self._client.request("GET", path, timeout=self._call_seconds, urgent=True)
        record: Json = msgspec.json.decode(body)
        return record

    async def _call(self, method: str, record: Json, timeout: float | None = None) -> Json:
        name = None if method == "POST" else self._name
        body = await self._client.request(
            method,
            LEASES.path(self._namespace, name),
            body=msgspec.json.encode(record),
            timeout=timeout or self._call_seconds,
            urgent=True,
        )
        stored: Json = msgspec.json.decode(body)
        return stored


class Alone:
    """The election when it is off: this process leads immediately and for ever."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def observe(self) -> None:
        """Do nothing: no other process leads."""

    async def run(self, work: Work) -> None:
        """Run the work and return when it returns; raise what it raises."""
        await work(Fence(self._clock, 0, math.inf))


def elector(
    client: Client,
    name: str,
    namespace: str,
    settings: LeaderElection,
    *,
    clock: Clock | None = None,
) -> LeaderElector | Alone:
    """Return a candidate for that lease, as the settings require."""
    clock = clock or SystemClock()
    if not settings.enabled:
        return Alone(clock)
    identity = f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"
    return LeaderElector(client, name, namespace, identity, clock, times=settings)
