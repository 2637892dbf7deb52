"""Decisions stored before they are carried out, so that no crash leaves half a gang for good.

All roots decided since the last write share one Reservation, or several where it would exceed
`limit` bytes. Their Bindings are sent once it is stored. It is deleted when all of its roots are
bound or given up. The next leader reads the Reservations that remain, and completes or gives up
each root.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final

import msgspec
import structlog

from api.constants import RESERVATION
from kube.base.clock import Clock
from kube.base.errors import AlreadyExists, KubeError, NotFound
from kube.client.client import Client
from kube.client.meta import Json
from kube.leader.election import Fence
from scheduler.core.values.model import GroupKey
from scheduler.expected.pod_info import UID_PREFIX
from scheduler.support.activity import Activity
from scheduler.support.metrics import RESERVATIONS_OPEN, RESERVATIONS_WRITTEN, RESUMED
from scheduler.support.retry import RETRIABLE, backoff, retry

_LIMIT: Final = 1 << 20
"""Bytes of one Reservation. Decisions beyond it go to another one."""
_TICK: Final = 0.02
"""Seconds of a tick."""
_MOST_TICKS: Final = 10
"""Ticks that a write may wait for more decisions to share it."""
_ENOUGH_ROOTS: Final = 4
"""Roots with which a write does not wait for those that are still being decided."""
_INTERVAL: Final = 0.05
"""Seconds between two writes: a single decision is written at once, a stream shares writes."""

_PUNCTUATION: Final = 10
"""Bytes per pod in addition to UID and node: four escaped quotes, a colon and a comma."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ReservedPod:
    """One pod of a decision, and its node.

    `later` is true in an addition without expected pods: the pod may use the place of one that
    was stored before.
    """

    uid: str
    node: str
    later: bool = False


class RootReference(msgspec.Struct, frozen=True):
    """The root of a stored decision."""

    kind: str
    namespace: str
    name: str


class WrittenIntent(msgspec.Struct, frozen=True):
    """One entry of `spec.intents` of a Reservation: JSON in a string.

    `pods` are nodes by UID. It is a string because the API server would validate, default, track
    and cache an object field by field. For 3,000 pods that took as long as 600 Bindings.
    """

    root: RootReference
    attempt: int
    since: str
    pods: dict[str, str]


class _Spec(msgspec.Struct):
    intents: list[object] = []


class _Reservation(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision of an earlier leader, with the Reservations that contain it."""

    root: GroupKey
    attempt: int
    since: str
    pods: tuple[ReservedPod, ...]
    reservations: tuple[StoredReservation, ...]


@dataclass(eq=False, slots=True)
class StoredReservation:
    """A Reservation on the API server, which is deleted when no decision in it is unfinished."""

    name: str
    unfinished: int


@dataclass(slots=True)
class PendingDecision:
    """A decision to store: `stored` is called with its Reservations, or `failed` with why."""

    root: GroupKey
    attempt: int
    since: str
    pods: list[ReservedPod]
    stored: Callable[[list[StoredReservation]], None]
    failed: Callable[[str], None]
    reservations: list[StoredReservation] = field(default_factory=list)


_Part = list[tuple[int, list[ReservedPod]]]


class Reservations:
    """The writer of Reservations: stores and deletes them.

    `saturated` returns whether enough Bindings are queued to keep all workers busy for now.
    """

    def __init__(
        self,
        api: Client,
        *,
        clock: Clock,
        activity: Activity,
        saturated: Callable[[], bool],
        limit: int = _LIMIT,
    ) -> None:
        self._api = api
        self._clock = clock
        self._activity = activity
        self._saturated = saturated
        self._limit = limit
        self._pending: list[PendingDecision] = []
        self._has_pending = asyncio.Event()
        self._finished: asyncio.Queue[StoredReservation] = asyncio.Queue()
        self.reset()

    def reset(self) -> None:
        """Begin a new term: nothing is pending, and names get another random prefix."""
        # No name may be that of another leader's: AlreadyExists counts as our own success.
        self._series = secrets.token_hex(6)
        self._numbers = count(1)
        self._pending = []
        self._finished = asyncio.Queue()
        RESERVATIONS_OPEN.set(0)

    def add(self, decision: PendingDecision) -> None:
        """Store this decision with the next write."""
        self._pending.append(decision)
        self._has_pending.set()

    def close(self, reservations: Iterable[StoredReservation]) -> None:
        """Record that one decision in these Reservations is bound or given up."""
        for reservation in reservations:
            reservation.unfinished -= 1
            if not reservation.unfinished:
                self._finished.put_nowait(reservation)

    async def run(self, fence: Fence) -> None:
        """Store and delete Reservations while the lease is held, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_pending(fence))
            group.create_task(self._delete_finished(fence))

    async def read(self, fence: Fence) -> list[StoredDecision]:
        """Return decisions of earlier leaders, oldest first. Retry while the lease is held."""
        waits = backoff()
        while fence.valid():
            try:
                return self._decisions_of((await self._api.list(RESERVATION))["items"])
            except NotFound:
                _log.error("Reservations are not installed", crd=RESERVATION.full_name)
                return []
            except KubeError as error:
                _log.warning("failed to list Reservations", error=str(error))
                await self._clock.sleep(waits.next(error))
        return []

    def _decisions_of(self, items: list[Json]) -> list[StoredDecision]:
        by_root: dict[GroupKey, StoredDecision] = {}
        # Oldest first: in `_merge`, the node of a later decision replaces that of an earlier one.
        for item in sorted(items, key=_by_age):
            intents = _intents_of(item)
            reservation = StoredReservation(item["metadata"]["name"], len(intents))
            RESERVATIONS_OPEN.inc()
            # No decision in it will ever close it.
            if not intents:
                self._finished.put_nowait(reservation)
            for intent in intents:
                found = _read(intent, reservation)
                if found is None:
                    # An entry that cannot be decoded must not keep the Reservation for ever.
                    self.close([reservation])
                    continue
                before = by_root.get(found.root)
                by_root[found.root] = found if before is None else _merge(before, found)
        return list(by_root.values())

    async def _write_pending(self, fence: Fence) -> None:
        last = float("-inf")
        while True:
            await self._has_pending.wait()
            await self._clock.sleep(max(0.0, last + _INTERVAL - self._clock.monotonic()))
            # A write that waits is shared by more decisions. It waits only while the workers stay
            # busy, or roots that are decided now are about to come.
            for _ in range(_MOST_TICKS):
                if not (self._saturated() or self._more_are_coming()):
                    break
                await self._clock.sleep(_TICK)
            self._has_pending.clear()
            decisions, self._pending = self._pending, []
            last = self._clock.monotonic()
            await self._store(decisions, fence)

    def _more_are_coming(self) -> bool:
        """Return whether few decisions are pending and more roots are being decided."""
        return len(self._pending) < _ENOUGH_ROOTS and self._activity.deciding

    async def _store(self, decisions: list[PendingDecision], fence: Fence) -> None:
        problems: dict[int, str] = {}
        for members in _split(decisions, self._limit):
            name = f"{self._series}-{next(self._numbers)}"
            body = _body(name, [_intent(decisions[at], pods) for at, pods in members])
            problem = await self._create(body, fence)
            if problem is not None:
                problems |= {at: problem for at, _pods in members}
                continue
            RESERVATIONS_OPEN.inc()
            reservation = StoredReservation(name, len(members))
            for at, _pods in members:
                decisions[at].reservations.append(reservation)
        for at, decision in enumerate(decisions):
            if at in problems:
                # A part of a decision is of no use to the next leader.
                self.close(decision.reservations)
                decision.failed(problems[at])
            else:
                decision.stored(decision.reservations)

    async def _create(self, body: Json, fence: Fence) -> str | None:
        """Create the Reservation; return the error if that fails."""

        async def create() -> None:
            try:
                await self._api.create(RESERVATION, body)
            except AlreadyExists:
                pass  # ours: the response to an earlier attempt was lost
            except RETRIABLE as error:
                # `retry` repeats it without a word, and all Bindings of these roots wait.
                _log.warning("failed to write a Reservation", error=str(error))
                raise

        try:
            if not await retry(create, fence, self._clock):
                return "the lease is lost"
        except KubeError as error:
            RESERVATIONS_WRITTEN.labels("refused").inc()
            _log.error("API server rejected a Reservation", error=str(error))
            return str(error)
        RESERVATIONS_WRITTEN.labels("written").inc()
        return None

    async def _delete_finished(self, fence: Fence) -> None:
        while True:
            reservation = await self._finished.get()
            try:
                deleted = await retry(partial(self._delete, reservation.name), fence, self._clock)
            except KubeError as error:
                # The next leader finds its roots bound, and deletes it.
                _log.error(
                    "failed to delete a Reservation", name=reservation.name, error=str(error)
                )
                continue
            if deleted:
                RESERVATIONS_OPEN.dec()

    async def _delete(self, name: str) -> None:
        # An earlier attempt, whose response was lost, may have deleted it.
        with suppress(NotFound):
            await self._api.delete(RESERVATION, name)


def _split(decisions: list[PendingDecision], limit: int) -> Iterator[_Part]:
    """Yield decisions, by index, in parts of at most `limit` bytes; a large one is in several."""
    part: _Part = []
    size = 0
    for at, decision in enumerate(decisions):
        part.append((at, []))
        size += _size(_intent(decision, []))
        for pod in decision.pods:
            more = _PUNCTUATION + len(pod.uid) + len(pod.node)
            # Each part gets at least one pod, however small the limit is.
            if size + more > limit and any(pods for _, pods in part):
                yield [(index, pods) for index, pods in part if pods]
                part, size = [(at, [])], _size(_intent(decision, []))
            part[-1][1].append(pod)
            size += more
    if part:
        yield part


def _size(text: str) -> int:
    """Return the bytes of a string in a JSON document, with its quotes and comma."""
    return len(msgspec.json.encode(text)) + 1


def _body(name: str, intents: list[str]) -> Json:
    return {
        "apiVersion": RESERVATION.api_version,
        "kind": RESERVATION.kind,
        "metadata": {"name": name},
        "spec": {"roots": len(intents), "intents": intents},
    }


def _intent(decision: PendingDecision, pods: list[ReservedPod]) -> str:
    nodes = {pod.uid: pod.node for pod in pods}
    written = WrittenIntent(RootReference(*decision.root), decision.attempt, decision.since, nodes)
    return msgspec.json.encode(written).decode()


def _intents_of(item: Json) -> list[object]:
    """Return the intents; log an error and return none if they are no list."""
    try:
        return msgspec.convert(item, _Reservation).spec.intents
    except msgspec.MsgspecError as error:
        _set_aside(item["metadata"]["name"], error)
        return []


def _read(intent: object, reservation: StoredReservation) -> StoredDecision | None:
    """Decode an intent; log an error and return None if that fails."""
    try:
        written = msgspec.json.decode(msgspec.convert(intent, str), type=WrittenIntent)
    except (msgspec.MsgspecError, RecursionError) as error:
        _set_aside(reservation.name, error)
        return None
    root = written.root
    later = not any(uid.startswith(UID_PREFIX) for uid in written.pods)
    pods = tuple(ReservedPod(uid, node, later) for uid, node in written.pods.items())
    key = (root.kind, root.namespace, root.name)
    return StoredDecision(key, written.attempt, written.since, pods, (reservation,))


def _set_aside(name: str, error: Exception) -> None:
    RESUMED.labels("unreadable").inc()
    _log.error("skipping undecodable Reservation", reservation=name, error=str(error))


def _merge(first: StoredDecision, second: StoredDecision) -> StoredDecision:
    """Merge two intents of one root: parts of one decision, or a decision and a later addition."""
    reservations = first.reservations + second.reservations
    pods = {pod.uid: pod for pod in (*first.pods, *second.pods)}
    attempt, since = max(first.attempt, second.attempt), first.since or second.since
    return StoredDecision(first.root, attempt, since, tuple(pods.values()), reservations)


def _by_age(item: Json) -> tuple[str, int]:
    """Return a sort key: creation, then the number in the name, for those of one second."""
    meta = item["metadata"]
    number = meta["name"].rpartition("-")[2]
    return (meta.get("creationTimestamp") or "", int(number[-18:]) if number.isdecimal() else 0)
