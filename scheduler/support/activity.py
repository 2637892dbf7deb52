"""What the scheduler is doing at this moment: one value, made first, which its parts share."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.values.model import GroupKey


@dataclass(slots=True)
class Activity:
    """Each field has one writer: the loop, the binder and the evictor, in this order.

    `deciding`: more roots are ready, and other tasks run between two decisions. `binding` are the
    roots with a Binding that has no answer yet, `evicting` the numbers of unfinished evictions.
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
        """Whether Bindings or evictions are under way."""
        return bool(self.binding or self.evicting)
