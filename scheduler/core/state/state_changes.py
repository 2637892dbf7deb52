"""What events changed since the queue asked last."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Final

from scheduler.core.framework.events import Reach
from scheduler.core.values.model import GroupKey


@dataclass(slots=True)
class Changes:
    """What changed since the last call of `State.take_changes`.

    `entities` changed in any way; `reconsider` are those of them whose decision may be different
    now. `rows` are nodes on which a pod may fit that did not fit before; one whose filters read one
    of the `match_ids` may fit anywhere, and with `anywhere` each may. `victims` are the UIDs of
    evicted pods that are gone. With `more`, not all that follows from the events was worked out
    yet: call again soon. With `everything`, what was found out about refused roots does not hold
    any more.
    """

    entities: set[GroupKey] = field(default_factory=set)
    reconsider: set[GroupKey] = field(default_factory=set)
    rows: set[int] = field(default_factory=set)
    match_ids: set[int] = field(default_factory=set)
    victims: list[str] = field(default_factory=list)
    anywhere: bool = False
    more: bool = False
    everything: bool = False

    def __bool__(self) -> bool:
        """Whether the queue has anything to do for them."""
        return bool(self.entities or self.rows or self.match_ids or self.victims or self.anywhere)

    def note(
        self, reach: Collection[Reach], rows: Iterable[int] = (), match_ids: Iterable[int] = ()
    ) -> None:
        """Note an event of this reach, on nodes of these rows, which changed these match counts."""
        if Reach.NODES in reach:
            self.rows.update(rows)
        if Reach.READERS in reach:
            self.match_ids.update(match_ids)
        if Reach.CLUSTER in reach:
            self.anywhere = True

    def take(self) -> Changes:
        """All of them; nothing has changed since."""
        taken = Changes()
        for name in _NAMES:
            value: Any = getattr(self, name)
            setattr(self, name, getattr(taken, name))
            setattr(taken, name, value)
        return taken


_NAMES: Final = tuple(each.name for each in fields(Changes))
