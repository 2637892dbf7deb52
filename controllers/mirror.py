"""Tells the user of a Job or JobSet what it waits for: one annotation, and an event for a fault.

The scheduler says on the groups why they wait; here it reaches the object that the user knows.
What passes quickly is never written, and numbers that change are written now and then only.
"""

from typing import Final

from api.constants import ANNOTATION_WAITING_FOR
from controllers.objects import Group, Owner
from controllers.runtime import HeldError, Writer
from controllers.world import BY_OWNER, World
from kube.clock import Clock
from kube.events import ObjectReference, Recorder
from kube.patch import PatchBuilder, pointer

# A gang that is placed at once costs no write.
_STANDS_FOR: Final = 2.0
_REWRITTEN_EVERY: Final = 15.0
_SEEN_WITHIN: Final = 5.0
# How the scheduler begins where a group only waits for another one.
_POINTS_ELSEWHERE: Final = "waits for "


class Mirror:
    """Writes the annotation `waiting-for`; the only one who does."""

    def __init__(self, world: World, writer: Writer, recorder: Recorder, clock: Clock) -> None:
        """`recorder` takes the events."""
        self._world = world
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._told: dict[str, str] = {}
        self._warned: dict[str, str] = {}
        self._written: dict[str, tuple[float, str]] = {}
        self._first: dict[str, float] = {}

    async def held(self, owner: Owner, fault: HeldError) -> None:
        """Nothing goes on before a person acts: an event, the annotation. Raises kube errors."""
        text = f"{fault.reason}: {fault}"
        uid = owner.metadata.uid
        if self._told.get(uid) != text:
            self._told[uid] = text
            self._event(owner, fault.reason, str(fault))
        await self._write(owner, text)

    def warn(self, owner: Owner, reason: str, text: str) -> None:
        """An event, once for each text; nothing waits for it. No text ends it."""
        uid = owner.metadata.uid
        if text and self._warned.get(uid) != text:
            self._event(owner, reason, text)
        if text:
            self._warned[uid] = text
        else:
            self._warned.pop(uid, None)

    async def tell(self, owner: Owner) -> float:
        """Say what the owner's groups wait for; how many seconds later to look again (0: never).

        Raises kube errors.
        """
        uid = owner.metadata.uid
        self._told.pop(uid, None)
        wanted = self._blocking(owner)
        if not wanted:
            self._first.pop(uid, None)
            await self._write(owner, "")
            return 0.0
        now = self._clock.monotonic()
        due = self._first.setdefault(uid, now) + _STANDS_FOR
        if uid in self._written:
            due = max(due, self._written[uid][0] + _REWRITTEN_EVERY)
        if now < due:
            return due - now
        await self._write(owner, wanted)
        return 0.0

    def forget(self, uid: str) -> None:
        """The owner is gone."""
        for notes in (self._told, self._warned, self._written, self._first):
            notes.pop(uid, None)

    def _event(self, owner: Owner, reason: str, text: str) -> None:
        reference = ObjectReference.of(owner.resource, owner.metadata)
        self._recorder.event(reference, "Warning", reason, text)

    def _blocking(self, owner: Owner) -> str:
        """The group at fault and its words; empty where nothing waits."""
        if owner.suspended or owner.finished:
            return ""
        uid = owner.metadata.uid
        found = [
            (_rank(group), kind, group.metadata.name, group.waiting)
            for kind, cache in self._world.group_caches()
            for group in cache.by_index(BY_OWNER, uid)
            if group.waiting
        ]
        if not found:
            return ""
        _, kind, name, waiting = min(found)
        return f"{kind} {name}: {waiting}"

    def _said(self, owner: Owner) -> str:
        """What the owner says now: for a moment what was written, until the cache must have it."""
        noted = self._written.get(owner.metadata.uid)
        if noted and self._clock.monotonic() - noted[0] < _SEEN_WITHIN:
            return noted[1]
        return owner.metadata.annotations.get(ANNOTATION_WAITING_FOR, "")

    async def _write(self, owner: Owner, text: str) -> None:
        if text == self._said(owner):
            return
        meta = owner.metadata
        path = pointer("metadata", "annotations", ANNOTATION_WAITING_FOR)
        ops = PatchBuilder().of_uid(meta.uid)
        if meta.annotations or not text:
            ops.add(path, text)
        else:
            # The whole map is made: nobody else may have made it meanwhile.
            ops.at_version(meta.resource_version)
            ops.add("/metadata/annotations", {ANNOTATION_WAITING_FOR: text})
        if not text:
            ops.remove(path)  # after the add it is there, whatever the cache has missed
        await self._writer.patch(owner.resource, meta.name, ops, meta.namespace)
        self._written[meta.uid] = (self._clock.monotonic(), text)


def _rank(group: Group) -> tuple[bool, bool]:
    return group.waiting.startswith(_POINTS_ELSEWHERE), group.scheduled
