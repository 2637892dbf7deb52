"""The sinks for the outcome of Bindings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.core.explain.explain import Blocker
from scheduler.core.values.model import GroupKey
from scheduler.events.group_events import GroupEvents
from scheduler.support.wait_times import GangTimes


@dataclass(frozen=True, slots=True)
class Reports:
    """The sinks; `on_refused` is called with a root that could not be bound, and the reason."""

    events: GroupEvents
    times: GangTimes
    on_refused: Callable[[GroupKey, Blocker], None]
