"""The time for which groups created from pods have had no pods.

The controller writes the time to the group once it has lasted for a while. A new leader then
continues to count, and `muster gc` finds groups that no controller deletes. A short gap between
pods costs no write.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from api.constants import ANNOTATION_NO_PODS_SINCE
from kube.base.clock import Clock, moment, rfc3339
from kube.client.meta import Key, ObjectMeta
from kube.client.patch import PatchBuilder, pointer

IDLE_SECONDS: Final = 60.0
"""Seconds for which a group without pods is kept while its owner exists and may recreate them."""

IDLE_ALONE_SECONDS: Final = 5.0
"""Seconds for which a group without pods is kept if it has no owner."""

NOTED_SECONDS: Final = 10.0
"""Seconds without pods before the annotation is written: at most two writes a group in them."""

_PATH: Final = pointer("metadata", "annotations", ANNOTATION_NO_PODS_SINCE)


class IdleGroups:
    """The only writer of the annotation `no-pods-since`."""

    def __init__(self, clock: Clock) -> None:
        """Begin a term; only annotations from before it count."""
        self._clock = clock
        self._since: dict[Key, float] = {}
        self._began = clock.now()

    def forget(self, key: Key) -> None:
        """Forget a group that has pods or is deleted."""
        self._since.pop(key, None)

    def seconds(self, key: Key, meta: ObjectMeta) -> float:
        """Return the seconds for which the group, which has no pods, has had none."""
        # A monotonic clock: the wall clock may be set back while the process runs.
        now = self._clock.monotonic()
        if key not in self._since:
            self._since[key] = now - self._noted_before(meta)
        return now - self._since[key]

    def note(self, ops: PatchBuilder, idle: float, meta: ObjectMeta) -> None:
        """Add the annotation that the group has had no pods for `idle` seconds, unless it is there.

        The group must have annotations.
        """
        since = self._clock.now() - timedelta(seconds=idle)
        noted = no_pods_since(meta.annotations)
        if noted is None or abs((since - noted).total_seconds()) > NOTED_SECONDS:
            ops.add(_PATH, rfc3339(since))

    def _noted_before(self, meta: ObjectMeta) -> float:
        """Return the seconds since the time in an annotation from an earlier term."""
        noted = no_pods_since(meta.annotations)
        # An annotation from this term is about an earlier gap. Pods have come since, and the cache
        # does not show its removal yet.
        if noted is None or noted >= self._began:
            return 0.0
        return max(0.0, (self._clock.now() - noted).total_seconds())


def no_pods_since(annotations: Mapping[str, str]) -> datetime | None:
    """Return the time since which the group has had no pods, if its annotation states it."""
    return moment(annotations.get(ANNOTATION_NO_PODS_SINCE, ""))


def has_pods(ops: PatchBuilder, meta: ObjectMeta) -> None:
    """Add the removal of the annotation, if there is one."""
    if ANNOTATION_NO_PODS_SINCE in meta.annotations:
        ops.remove(_PATH)
