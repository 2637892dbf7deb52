"""Notifications that a PersistentVolumeClaim or a ResourceClaim changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scheduler.core.values.model import ClaimKey


class ClaimNews:
    """Notifies subscribers and waiters of changed claims. The state calls `changed`."""

    def __init__(self) -> None:
        self._listeners: dict[ClaimKey, set[Callable[[], None]]] = {}
        self._of_all: list[Callable[[ClaimKey], None]] = []

    def subscribe(self, listener: Callable[[ClaimKey], None]) -> None:
        """Call the listener with each claim that changes."""
        self._of_all.append(listener)

    def changed(self, key: ClaimKey) -> None:
        """Notify of a change: of the claim, its volume, or what is assumed for it."""
        for of_all in self._of_all:
            of_all(key)
        # A copy: a listener may end its wait, and unsubscribe, during the call.
        for listener in tuple(self._listeners.get(key, ())):
            listener()

    @contextmanager
    def listening(self, key: ClaimKey, listener: Callable[[], None]) -> Iterator[None]:
        """Call the listener with each change of the claim inside."""
        self._listeners.setdefault(key, set()).add(listener)
        try:
            yield
        finally:
            self._listeners[key].discard(listener)
            if not self._listeners[key]:
                del self._listeners[key]
