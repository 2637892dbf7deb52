"""The values that all tasks around the decision core share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kube.base.clock import Clock
from kube.concurrency.freeze import Freeze
from scheduler.core.state.state import State
from scheduler.queue.scheduling_queue import Queue
from scheduler.support.activity import Activity


@dataclass(frozen=True, slots=True)
class Shell:
    """The state, the queue and their guards; call `on_change` when the state may have changed.

    The state and the queue must not be changed during a `freeze`.
    """

    state: State
    queue: Queue
    clock: Clock
    activity: Activity
    freeze: Freeze
    on_change: Callable[[], None]
