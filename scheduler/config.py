"""The scheduler's part of the configuration file; every field is optional."""

from __future__ import annotations

from typing import Literal

from kube.settings import Count, Seconds, Section


class Search(Section, frozen=True):
    """How hard one decision tries: fills of a leaf, and milliseconds."""

    steps: Count = 500
    milliseconds: Count = 100


class Status(Section, frozen=True):
    """When conditions are written: so long after a change, and at most so much later while binding.

    A group that waits for members is reported on its pods once it has not changed for `pods`.
    """

    delay_seconds: Seconds = 0.5
    busy_seconds: Seconds = 2.5
    pods_seconds: Seconds = 5
    writers: Count = 8


class Preemption(Section, frozen=True):
    """Whether groups may evict others, and how far that goes.

    A victim that still runs `patience_seconds` after its grace is over is not waited for any more.
    """

    enabled: bool = True
    patience_seconds: Seconds = 60
    writers: Count = 8


class Starvation(Section, frozen=True):
    """Whether a root that starves may close the door to others of no higher priority.

    It starves once it was refused for `after_seconds` in which `after_passed` of those were placed.
    The door is closed for `closed_seconds` at most.
    """

    enabled: bool = False
    after_seconds: Seconds = 300
    after_passed: Count = 10
    closed_seconds: Seconds = 1800


class Config(Section, frozen=True):
    """How the scheduler decides and binds.

    `bind_workers` and `status.writers` together stay below the client's connections, so that
    neither waits for the other's; renewing the lease has connections of its own.
    """

    profile: Literal["pack", "spread"] = "pack"
    bind_workers: Count = 160
    bind_timeout_seconds: Seconds = 120
    retry_seconds: Seconds = 60
    search: Search = Search()
    preemption: Preemption = Preemption()
    starvation: Starvation = Starvation()
    status: Status = Status()
