"""The current activity of the scheduler: one value, created first, which its parts share."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.values.model import GroupKey


@dataclass(slots=True)
class Activity:
    """The activity; each field has one writer: the loop, the binder and the evictor, in this order.

    `deciding` is true if more roots are ready and other tasks run between two decisions. `binding`
    are the roots with a Binding that has no result yet, `evicting` the numbers of unfinished
    evictions.
    """

    deciding: bool = False
    binding: set[GroupKey] = field(default_factory=set)
    evicting: set[int] = field(default_factory=set)

    def reset(self) -> None:
        """Begin a new term: nothing is under way."""
        self.deciding = False
        self.binding.clear()
        self.evicting.clear()

    @property
    def busy(self) -> bool:
        """True if Bindings or evictions are under way."""
        return bool(self.binding or self.evicting)
