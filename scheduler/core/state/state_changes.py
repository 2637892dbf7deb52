"""The changes by events since the queue took them last."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Final

from scheduler.core.framework.events import Reach
from scheduler.core.groups.groups import Pod
from scheduler.core.values.model import GroupKey


@dataclass(slots=True)
class StateChanges:
    """The changes since the last call of `State.take_changes`.

    `entities` changed in any way; for those in `reconsider` the decision may be different now.
    `singles` are the pods without a group that events changed or removed, by key.
    `rows` are nodes on which a pod may fit that did not fit before. A pod whose filters read one of
    the `match_ids` may fit anywhere, and with `anywhere` every pod may. `victims` are the UIDs of
    evicted pods that are deleted. With `more`, some consequences of the events are not computed
    yet: call again soon. With `everything`, earlier findings about refused roots are no longer
    valid.
    """

    entities: set[GroupKey] = field(default_factory=set)
    reconsider: set[GroupKey] = field(default_factory=set)
    rows: set[int] = field(default_factory=set)
    match_ids: set[int] = field(default_factory=set)
    victims: list[str] = field(default_factory=list)
    anywhere: bool = False
    more: bool = False
    everything: bool = False
    singles: dict[GroupKey, Pod] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return True if the queue has anything to do for these changes."""
        return bool(self.entities or self.rows or self.match_ids or self.victims or self.anywhere)

    def note(
        self, reach: Collection[Reach], rows: Iterable[int] = (), match_ids: Iterable[int] = ()
    ) -> None:
        """Record an event of this reach on these rows, which changed these match counts."""
        if Reach.NODES in reach:
            self.rows.update(rows)
        if Reach.READERS in reach:
            self.match_ids.update(match_ids)
        if Reach.CLUSTER in reach:
            self.anywhere = True

    def take(self) -> StateChanges:
        """Return all changes and reset them."""
        taken = StateChanges()
        # Swap instead of copying: the state and its parts keep a reference to this object.
        for name in _NAMES:
            value: Any = getattr(self, name)
            setattr(self, name, getattr(taken, name))
            setattr(taken, name, value)
        return taken


_NAMES: Final = tuple(each.name for each in fields(StateChanges))
