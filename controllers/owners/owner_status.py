"""Reports on an owner of groups: an annotation states what it waits for, an event states an error.

The scheduler writes to groups why they wait. This copies the reason to the object that the user
knows. It omits groups of a JobSet that come later in its start order, as they need no action.
"""

from typing import Final

from api.constants import ANNOTATION_WAITING_FOR
from api.membership import pods_name
from controllers.cache.informers import BY_OWNER, Caches
from controllers.cache.objects import Group, Owner
from controllers.owners.start_order import not_started
from controllers.runtime.controller import BlockedError, RequeueError, Writer
from controllers.runtime.waiting_for_annotation import REFUSED_SECONDS, WaitingForAnnotation
from kube.base.clock import Clock
from kube.events.events import EventType, ObjectReference, Recorder

# A gang that is placed at once costs no write.
_DELAY_SECONDS: Final = 2.0
"""Seconds that an owner has to wait before the annotation states why."""

# The numbers in the text change all the time while a gang waits.
_REWRITE_SECONDS: Final = 15.0
"""Seconds between two writes of an owner's annotation."""

_CACHE_LAG_SECONDS: Final = 5.0
"""Seconds for which the cache may lack the latest write."""


class OwnerStatusWriter:
    """The only writer of the annotation `waiting-for` on owners."""

    def __init__(self, caches: Caches, writer: Writer, recorder: Recorder, clock: Clock) -> None:
        self._caches = caches
        self._note = WaitingForAnnotation(writer, recorder, clock)
        self._recorder = recorder
        self._clock = clock
        self._reported: dict[str, str] = {}
        self._warned: dict[str, dict[str, str]] = {}
        self._written: dict[str, tuple[float, str]] = {}
        self._first: dict[str, float] = {}

    async def blocked(self, owner: Owner, fault: BlockedError) -> None:
        """Report a fault on which a user must act: an event and the annotation.

        Raises RequeueError, kube errors.
        """
        text = f"{fault.reason}: {fault}"
        uid = owner.metadata.uid
        # The key comes back after a rejection by the API server. Each text is worth one event.
        if self._reported.get(uid) != text:
            self._reported[uid] = text
            self._event(owner, fault.reason, str(fault))
        if later := await self._write(owner, text):
            raise RequeueError("the API server rejected its annotation", later)

    def warn(self, owner: Owner, reason: str, text: str, severity: EventType = "Warning") -> None:
        """Record an event, once for each text; an empty text ends the reason."""
        warned = self._warned.setdefault(owner.metadata.uid, {})
        if text and warned.get(reason) != text:
            self._event(owner, reason, text, severity)
        warned[reason] = text

    async def report(self, owner: Owner, waits_for: str = "", reason: str = "") -> float:
        """Write what the owner waits for; return the seconds until the next check (0: none).

        Without `waits_for` the text comes from its groups. With a `reason`, `waits_for` is worth an
        event, too. Raises kube errors.
        """
        uid = owner.metadata.uid
        self._reported.pop(uid, None)
        wanted = waits_for or self._blocking(owner)
        # A wait that ends is reported at once, as the old text would be wrong.
        if not wanted:
            self._first.pop(uid, None)
            return await self._write(owner, "")
        now = self._clock.monotonic()
        due = self._first.setdefault(uid, now) + _DELAY_SECONDS
        if uid in self._written:
            due = max(due, self._written[uid][0] + _REWRITE_SECONDS)
        if now < due:
            return due - now
        if waits_for and reason:
            self.warn(owner, reason, waits_for)
        return await self._write(owner, wanted)

    def forget(self, uid: str) -> None:
        """Forget an owner that is deleted."""
        for notes in (self._reported, self._warned, self._written, self._first):
            notes.pop(uid, None)
        self._note.forget(uid)

    def _event(self, owner: Owner, reason: str, text: str, severity: EventType = "Warning") -> None:
        reference = ObjectReference.of(owner.resource, owner.metadata)
        self._recorder.event(reference, severity, reason, text)

    def _blocking(self, owner: Owner) -> str:
        """Return the group that blocks the others, with its message; empty if none does."""
        if owner.suspended or owner.finished:
            return ""
        later = not_started(owner, self._caches)
        found = [
            (_rank(group), resource.kind, group.metadata.name, group.waiting)
            for resource, cache in self._caches.generated_groups.items()
            for group in cache.by_index(BY_OWNER, owner.as_index)
            if group.waiting and pods_name(group.metadata) not in later
        ]
        if not found:
            return ""
        _, kind, name, waiting = min(found)
        return f"{kind} {name}: {waiting}"

    def _current(self, owner: Owner) -> str:
        """Return the current annotation: the latest write until the cache must have it."""
        noted = self._written.get(owner.metadata.uid)
        if noted and self._clock.monotonic() - noted[0] < _CACHE_LAG_SECONDS:
            return noted[1]
        return owner.metadata.annotations.get(ANNOTATION_WAITING_FOR, "")

    async def _write(self, owner: Owner, text: str) -> float:
        """Write a changed annotation; return the seconds until the next attempt (0: none)."""
        meta = owner.metadata
        _, last = self._written.get(meta.uid, (0.0, text))
        if text == self._current(owner) and text == last:
            return 0.0
        if not await self._note.write(owner.resource, meta, text):
            return REFUSED_SECONDS
        self._written[meta.uid] = (self._clock.monotonic(), text)
        return 0.0


def _rank(group: Group) -> tuple[bool, bool]:
    # The group that blocks the others comes first, not one that waits for it.
    return bool(group.waits_for), group.scheduled
