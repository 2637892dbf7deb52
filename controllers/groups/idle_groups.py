"""Since when groups that were made from their pods have had none.

It is noted on the group once that has lasted for a while: so a new leader counts on, and
`muster gc` finds what nobody deletes. Pods that come and go sooner cost no write.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from api.constants import ANNOTATION_NO_PODS_SINCE
from kube.base.clock import Clock, moment, rfc3339
from kube.client.meta import Key, ObjectMeta
from kube.client.patch import PatchBuilder, pointer

IDLE_SECONDS: Final = 60.0
"""How long a group stays without pods while its owner lives, which may make them again."""

IDLE_ALONE_SECONDS: Final = 5.0
"""The same of a group that has no owner."""

NOTED_SECONDS: Final = 10.0
"""How long it has had none before that is written: two writes a group in this time at most."""

_PATH: Final = pointer("metadata", "annotations", ANNOTATION_NO_PODS_SINCE)


class IdleGroups:
    """The only writer of the annotation `no-pods-since`."""

    def __init__(self, clock: Clock) -> None:
        """A term begins: what was noted before it counts."""
        self._clock = clock
        self._since: dict[Key, float] = {}
        self._began = clock.now()

    def forget(self, key: Key) -> None:
        """The group has pods, or is gone."""
        self._since.pop(key, None)

    def seconds(self, key: Key, meta: ObjectMeta) -> float:
        """How long the group, which has no pods, has had none."""
        now = self._clock.monotonic()
        if key not in self._since:
            self._since[key] = now - self._noted_before(meta)
        return now - self._since[key]

    def note(self, ops: PatchBuilder, idle: float, meta: ObjectMeta) -> None:
        """Adds what notes that the group has had no pods for `idle` seconds, if it does not say so.

        The group has annotations.
        """
        since = self._clock.now() - timedelta(seconds=idle)
        noted = no_pods_since(meta.annotations)
        if noted is None or abs((since - noted).total_seconds()) > NOTED_SECONDS:
            ops.add(_PATH, rfc3339(since))

    def _noted_before(self, meta: ObjectMeta) -> float:
        """How long ago the note of an earlier term was true.

        A later one is of a time without pods that is over, and the cache has yet to see that.
        """
        noted = no_pods_since(meta.annotations)
        if noted is None or noted >= self._began:
            return 0.0
        return max(0.0, (self._clock.now() - noted).total_seconds())


def no_pods_since(annotations: Mapping[str, str]) -> datetime | None:
    """Since when the group has had no pods, if that is noted."""
    return moment(annotations.get(ANNOTATION_NO_PODS_SINCE, ""))


def has_pods(ops: PatchBuilder, meta: ObjectMeta) -> None:
    """Adds what takes the note back, if there is one."""
    if ANNOTATION_NO_PODS_SINCE in meta.annotations:
        ops.remove(_PATH)
