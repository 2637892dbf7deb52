"""Tells those who wait for a claim that it changed: a PersistentVolumeClaim or a ResourceClaim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scheduler.core.values.model import ClaimKey


class ClaimNews:
    """Passes on which claims changed; `changed` is what the state is made with."""

    def __init__(self) -> None:
        self._listeners: dict[ClaimKey, set[Callable[[], None]]] = {}
        self._of_all: list[Callable[[ClaimKey], None]] = []

    def subscribe(self, listener: Callable[[ClaimKey], None]) -> None:
        """Call it with each claim that changes."""
        self._of_all.append(listener)

    def changed(self, key: ClaimKey) -> None:
        """Something is new about the claim, its volume, or what is assumed for it."""
        for of_all in self._of_all:
            of_all(key)
        for listener in tuple(self._listeners.get(key, ())):
            listener()

    @contextmanager
    def listening(self, key: ClaimKey, listener: Callable[[], None]) -> Iterator[None]:
        """Inside, the listener is called with each change of the claim."""
        self._listeners.setdefault(key, set()).add(listener)
        try:
            yield
        finally:
            self._listeners[key].discard(listener)
            if not self._listeners[key]:
                del self._listeners[key]
