"""A recorder of events for tests."""

from __future__ import annotations

from kube.events.events import EventType, ObjectReference, Recorder


class RecordedEvents(Recorder):
    """A recorder that keeps the events instead of sending them."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all events so far."""
        self.regarding: list[ObjectReference] = []
        self.types: list[EventType] = []
        self.reasons: list[str] = []
        self.messages: list[str] = []
        self.components: list[str] = []

    def event(
        self,
        regarding: ObjectReference,
        event_type: EventType,
        reason: str,
        message: str,
        *,
        component: str = "",
    ) -> None:
        self.regarding.append(regarding)
        self.types.append(event_type)
        self.reasons.append(reason)
        self.messages.append(message)
        self.components.append(component)

    @property
    def objects(self) -> list[str]:
        """Kind and name of the object of each event."""
        return [f"{it.kind}/{it.name}" for it in self.regarding]

    @property
    def told(self) -> list[tuple[str, str, str]]:
        """Object, reason and message of each event."""
        return list(zip(self.objects, self.reasons, self.messages, strict=True))

    @property
    def events(self) -> list[tuple[str, str, str]]:
        """Kind, name and reason of each event."""
        return [
            (it.kind, it.name, reason)
            for it, reason in zip(self.regarding, self.reasons, strict=True)
        ]
