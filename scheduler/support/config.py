"""The scheduler's part of the configuration file; every field is optional."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kube.base.clock import Clock
from kube.base.settings import Count, Seconds, Section
from kube.client.quantity import QuantityError
from scheduler.core.values.run_protection import RunProtection
from scheduler.decoding.requests import amounts

RunSeconds = Annotated[float, Meta(ge=0, le=31_536_000)]
"""Seconds up to a year."""


class SearchLimits(Section, frozen=True):
    """The budget of one decision: placements of a PodGroup that it may try, and milliseconds."""

    steps: Count = 500
    milliseconds: Count = 100


class Status(Section, frozen=True):
    """The times of conditions: `delay` after a change, at most `busy` later during Bindings.

    Pods that are held, or whose group is not ready, get theirs `pods_seconds` after a change.
    """

    delay_seconds: Seconds = 0.5
    busy_seconds: Seconds = 2.5
    pods_seconds: Seconds = 2.5
    writers: Count = 8


class Preemption(Section, frozen=True):
    """The permission of roots to preempt, and the limits of evictions.

    A victim that still runs `patience_seconds` after its grace period is no longer waited for.
    The same holds for pods that others deleted and that exist longer than that. A deletion that
    fails for so long is given up. `writers` requests at a time are for victims of one namespace,
    and twice as many in all. A unit is not evicted before it has run for as long as it asks, at
    most `most_min_run_seconds`, or for `min_run_seconds` if it does not ask. Preemptions of a gang
    within `repeat_window_seconds` count together: of victims that cost the same, gangs with more of
    them come later. With 0, they are not counted.
    """

    enabled: bool = True
    patience_seconds: Seconds = 60.0
    min_run_seconds: RunSeconds = 0.0
    most_min_run_seconds: RunSeconds = 0.0
    repeat_window_seconds: RunSeconds = 3600.0
    # In all twice as many, as Bindings have. With eight, the API server idled between requests.
    writers: Count = 80

    def __post_init__(self) -> None:
        """Raise ValueError, which names the fields, if the usual time is longer than any may be."""
        if self.min_run_seconds > self.most_min_run_seconds:
            raise ValueError(
                f"mostMinRunSeconds must be at least minRunSeconds, {self.min_run_seconds:g}: "
                "raise it, or lower minRunSeconds"
            )

    def protection(self, clock: Clock) -> RunProtection:
        """Return what spares units at this time: they started, or were preempted, not long ago."""
        # The starts of pods are known by the time of day only.
        now = clock.now().timestamp()
        return RunProtection(
            now, self.min_run_seconds, self.most_min_run_seconds, self.repeat_window_seconds
        )


@dataclass(frozen=True, slots=True)
class ExpectedLimits:
    """Limits of expected pods in a namespace: their number, and what they may request in all."""

    pods: int = 1000
    requests: Mapping[str, int] = field(default_factory=dict)


class HoldingLimits(Section, frozen=True):
    """The time for which places are held for expected pods of groups, and limits for a namespace.

    A group's annotation `hold-seconds` may set another time, up to `most_seconds`. All that these
    pods request of a resource is at most what `requests_per_namespace` states, if it states
    anything.
    """

    seconds: Seconds = 600.0
    most_seconds: Seconds = 3600.0
    pods_per_namespace: Count = 1000
    requests_per_namespace: dict[str, str | int] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for a value that is no quantity."""
        self.limits()

    def limits(self) -> ExpectedLimits:
        """Return how many expected pods a namespace may have, and what they may request."""
        try:
            return ExpectedLimits(self.pods_per_namespace, amounts(self.requests_per_namespace))
        except QuantityError as error:
            raise ValueError(f"requestsPerNamespace: {error}") from error

    def duration(self, asked: float | None) -> timedelta:
        """Return how long places are held for a group that asks for so many seconds or none."""
        return timedelta(seconds=min(self.seconds if asked is None else asked, self.most_seconds))


class Defragmentation(Section, frozen=True):
    """Moves of gangs that agreed to it, so that a root that waits fits.

    By default none is moved. With `OnRequest`, gangs are moved for roots with the annotation
    `defragment-until`, with `Always` for all. A move has at most `gangs_per_move` gangs, and at
    most `gangs_per_hour` of a namespace are moved in an hour.
    """

    mode: Literal["Never", "OnRequest", "Always"] = "Never"
    gangs_per_move: Annotated[int, Meta(ge=1, le=8)] = 3
    gangs_per_hour: Count = 6


class Starvation(Section, frozen=True):
    """The precedence of a starving root over others of no higher priority.

    It starves once it was refused for `after_seconds` in which `after_passed` of those were placed.
    They wait for it for `closed_seconds` at most.
    """

    enabled: bool = False
    after_seconds: Seconds = 300.0
    after_passed: Count = 10
    closed_seconds: Seconds = 1800.0


class Metrics(Section, frozen=True):
    """The topology keys with metrics of their domains' free resources, at most 8 of them."""

    topology_keys: Annotated[tuple[str, ...], Meta(max_length=8)] = ("topology.kubernetes.io/zone",)


class Config(Section, frozen=True):
    """The settings of decisions and Bindings; `log_decisions` logs a line for each decision.

    All requests that may be sent at a time stay below the client's connections, so that a slow
    webhook for some of them delays no others; renewing the lease has connections of its own.
    `profile` is what 0.1.0 calls `profiles[].scoring`: replicas of both versions can read one file.
    """

    profile: Literal["pack", "spread"] | None = None
    # The fastest: 1,420 pods a second in gangs of three, 1,350 with 96, and no more with 240.
    bind_workers: Count = 160
    bind_timeout_seconds: Seconds = 120.0
    retry_seconds: Seconds = 60.0
    search: SearchLimits = SearchLimits()
    preemption: Preemption = Preemption()
    defragmentation: Defragmentation = Defragmentation()
    starvation: Starvation = Starvation()
    holding: HoldingLimits = HoldingLimits()
    status: Status = Status()
    metrics: Metrics = Metrics()
    log_decisions: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError, which names the fields, if gangs would be moved without a rest."""
        rests = self.preemption.enabled and self.preemption.repeat_window_seconds > 0
        if self.defragmentation.mode != "Never" and not rests:
            raise ValueError(
                "defragmentation.mode must be Never unless preemption.enabled is true and "
                "preemption.repeatWindowSeconds is above 0: set both, or Never"
            )
