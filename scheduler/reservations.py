"""Decisions written down before they are carried out, so that no crash leaves half a gang for good.

All roots decided since the last write share one Reservation (more where it would pass `limit`
bytes); their bindings are released when it is stored, and it is deleted when all of its roots are
done with. Whoever leads next reads what is left and finishes it, or gives it up.
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

from kube.clock import Clock
from kube.election import Fence
from kube.errors import AlreadyExists, KubeError, NotFound
from kube.meta import Json
from scheduler.activity import Activity
from scheduler.api_protocols import ReservationApi
from scheduler.core.model import GroupKey
from scheduler.metrics import RESERVATIONS_OPEN, RESERVATIONS_WRITTEN
from scheduler.resources import RESERVATIONS
from scheduler.retry import RETRIABLE, backoff, retry

_LIMIT: Final = 1 << 20
_TICK: Final = 0.02
_PATIENCE: Final = 10
"""Ticks that a write may wait, for others to share it, while there is enough to bind."""
_SHARED: Final = 4
"""Roots that make a write worth while although more are being decided."""
_PAUSE: Final = 0.05
"""Seconds from one write to the next: what comes alone waits for no other, a stream is shared."""

_PUNCTUATION: Final = 10
"""Bytes of four quotes, escaped, a colon and a comma."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Reserved:
    """One pod of a decision."""

    uid: str
    node: str


class Root(msgspec.Struct, frozen=True):
    """Whose pods an intent is about."""

    kind: str
    namespace: str
    name: str


class Written(msgspec.Struct, frozen=True):
    """An intent as it stands in a Reservation, as JSON in a string of its own.

    `pods` are nodes by UID: 4 gangs of 5,000 share a Reservation. As objects the API server would
    check, default, own and cache them field by field, which cost it as much as 600 bindings for
    3,000 pods.
    """

    root: Root
    attempt: int
    since: str
    pods: dict[str, str]


@dataclass(frozen=True, slots=True)
class Open:
    """A decision that an earlier leader wrote down, with the Reservations that hold it."""

    root: GroupKey
    attempt: int
    since: str
    pods: tuple[Reserved, ...]
    records: tuple[Record, ...]


@dataclass(eq=False, slots=True)
class Record:
    """One Reservation on the server; it goes when no decision in it is left."""

    name: str
    left: int


@dataclass(slots=True)
class Entry:
    """A decision to be written. `stored` is called with its Reservations, or `failed` with why."""

    root: GroupKey
    attempt: int
    since: str
    pods: list[Reserved]
    stored: Callable[[list[Record]], None]
    failed: Callable[[str], None]
    records: list[Record] = field(default_factory=list)


class Reservations:
    """Writes and deletes Reservations.

    `saturated` says whether enough Bindings are queued to keep all workers busy for now.
    """

    def __init__(
        self,
        api: ReservationApi,
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
        self._pending: list[Entry] = []
        self._wanted = asyncio.Event()
        self._done: asyncio.Queue[Record] = asyncio.Queue()
        self.begin()

    def begin(self) -> None:
        """A new term: nothing is pending, and names are of a series nobody has used."""
        self._series = secrets.token_hex(6)
        self._numbers = count(1)
        self._pending = []
        self._done = asyncio.Queue()
        RESERVATIONS_OPEN.set(0)

    def add(self, entry: Entry) -> None:
        """Have this decision written with the next ones."""
        self._pending.append(entry)
        self._wanted.set()

    def close(self, records: Iterable[Record]) -> None:
        """A decision in these Reservations is carried out or given up."""
        for record in records:
            record.left -= 1
            if not record.left:
                self._done.put_nowait(record)

    async def run(self, fence: Fence) -> None:
        """Write and delete while the lease holds; until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write(fence))
            group.create_task(self._delete(fence))

    async def read(self, fence: Fence) -> list[Open]:
        """What earlier leaders left, oldest first. Waits for the API server as long as we lead."""
        waits = backoff()
        while fence.valid():
            try:
                return self._opened((await self._api.list(RESERVATIONS))["items"])
            except NotFound:
                _log.error("Reservations are not installed", crd=RESERVATIONS.full_name)
                return []
            except KubeError as error:
                _log.warning("Reservations not read", problem=str(error))
                await self._clock.sleep(waits.next())
        return []

    def _opened(self, items: list[Json]) -> list[Open]:
        opened: dict[GroupKey, Open] = {}
        for item in sorted(items, key=_age):
            intents = (item.get("spec") or {}).get("intents") or []
            record = Record(item["metadata"]["name"], len(intents))
            RESERVATIONS_OPEN.inc()
            if not intents:
                self._done.put_nowait(record)
            for intent in intents:
                found = _read(intent, record)
                if found is None:
                    self.close([record])
                    continue
                before = opened.get(found.root)
                opened[found.root] = found if before is None else _merge(before, found)
        return list(opened.values())

    async def _write(self, fence: Fence) -> None:
        last = float("-inf")
        while True:
            await self._wanted.wait()
            await self._clock.sleep(max(0.0, last + _PAUSE - self._clock.monotonic()))
            for _ in range(_PATIENCE):
                if not (self._saturated() or self._too_few()):
                    break
                await self._clock.sleep(_TICK)
            self._wanted.clear()
            entries, self._pending = self._pending, []
            last = self._clock.monotonic()
            await self._store(entries, fence)

    def _too_few(self) -> bool:
        """Whether others are about to join those that wait to be written."""
        return len(self._pending) < _SHARED and self._activity.deciding

    async def _store(self, entries: list[Entry], fence: Fence) -> None:
        problems: dict[int, str] = {}
        for members in _parts(entries, self._limit):
            name = f"{self._series}-{next(self._numbers)}"
            body = _body(name, [_intent(entries[at], pods) for at, pods in members])
            problem = await self._create(body, fence)
            if problem is not None:
                problems |= {at: problem for at, _pods in members}
                continue
            RESERVATIONS_OPEN.inc()
            record = Record(name, len(members))
            for at, _pods in members:
                entries[at].records.append(record)
        for at, entry in enumerate(entries):
            if at in problems:
                self.close(entry.records)
                entry.failed(problems[at])
            else:
                entry.stored(entry.records)

    async def _create(self, body: Json, fence: Fence) -> str | None:
        """Store it; returns why not."""

        async def create() -> None:
            try:
                await self._api.create(RESERVATIONS, body)
            except AlreadyExists:
                pass  # ours: the answer to an earlier try was lost
            except RETRIABLE as error:
                _log.warning("Reservation not written", problem=str(error))
                raise

        try:
            if not await retry(create, fence, self._clock):
                return "the lease is lost"
        except KubeError as error:
            RESERVATIONS_WRITTEN.labels("refused").inc()
            _log.error("Reservation refused", problem=str(error))
            return str(error)
        RESERVATIONS_WRITTEN.labels("written").inc()
        return None

    async def _delete(self, fence: Fence) -> None:
        while True:
            record = await self._done.get()
            try:
                deleted = await retry(partial(self._delete_one, record.name), fence, self._clock)
            except KubeError as error:
                # The next leader finds it done with, and tries again.
                _log.error("Reservation not deleted", name=record.name, problem=str(error))
                continue
            if deleted:
                RESERVATIONS_OPEN.dec()

    async def _delete_one(self, name: str) -> None:
        with suppress(NotFound):
            await self._api.delete(RESERVATIONS, name)


def _parts(entries: list[Entry], limit: int) -> Iterator[list[tuple[int, list[Reserved]]]]:
    """Entries, by their index, in parts of at most `limit` bytes; a large one is in several."""
    part: list[tuple[int, list[Reserved]]] = []
    size = 0
    for at, entry in enumerate(entries):
        part.append((at, []))
        size += _size(_intent(entry, []))
        for pod in entry.pods:
            more = _PUNCTUATION + len(pod.uid) + len(pod.node)
            if size + more > limit and any(pods for _, pods in part):
                yield [(index, pods) for index, pods in part if pods]
                part, size = [(at, [])], _size(_intent(entry, []))
            part[-1][1].append(pod)
            size += more
    if part:
        yield part


def _size(text: str) -> int:
    """Bytes of a string inside a JSON document, with what surrounds it."""
    return len(msgspec.json.encode(text)) + 1


def _body(name: str, intents: list[str]) -> Json:
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name},
        "spec": {"roots": len(intents), "intents": intents},
    }


def _intent(entry: Entry, pods: list[Reserved]) -> str:
    nodes = {pod.uid: pod.node for pod in pods}
    written = Written(Root(*entry.root), entry.attempt, entry.since, nodes)
    return msgspec.json.encode(written).decode()


def _read(intent: object, record: Record) -> Open | None:
    """None, and a line in the log, for what is none of ours."""
    try:
        written = msgspec.json.decode(msgspec.convert(intent, str), type=Written)
    except msgspec.MsgspecError as error:
        _log.error(
            "an intent that cannot be read is left out", name=record.name, problem=str(error)
        )
        return None
    root = written.root
    pods = tuple(Reserved(uid, node) for uid, node in written.pods.items())
    key = (root.kind, root.namespace, root.name)
    return Open(key, written.attempt, written.since, pods, (record,))


def _merge(first: Open, second: Open) -> Open:
    """Two entries of one root: parts of one decision, or a decision and its later addition."""
    pods = {pod.uid: pod for pod in (*first.pods, *second.pods)}
    attempt, since = max(first.attempt, second.attempt), first.since or second.since
    return Open(first.root, attempt, since, tuple(pods.values()), first.records + second.records)


def _age(item: Json) -> tuple[str, int]:
    """Creation, then the number in the series: two of one second are in order too."""
    meta = item["metadata"]
    number = meta["name"].rpartition("-")[2]
    return (meta.get("creationTimestamp") or "", int(number) if number.isdigit() else 0)
