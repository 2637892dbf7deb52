"""The parts of a scheduling cycle, with a stand-in for each optional part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.claims.claim_releases import ClaimReleases
from scheduler.core.explain.explain import Blocker
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.values.model import GroupKey
from scheduler.cycle.start_limits import StartLimits
from scheduler.cycle.starvation_monitor import StarvationMonitor
from scheduler.held_places.held_places import HeldPlaces
from scheduler.preemption.defragmenter import Defragmenter
from scheduler.preemption.preemptor import Preemptor
from scheduler.support.device_budget import DeviceWork
from scheduler.support.wait_times import GangTimes


class Binding(Protocol):
    """A sink for placements to bind."""

    def submit(self, placement: Placement) -> None:
        """Bind all pods of the placement, which are assumed already."""
        ...


class Reporting(Protocol):
    """A sink for outcomes to report."""

    def touched(self, keys: Collection[GroupKey]) -> None:
        """Record that these entities or groups changed."""
        ...

    def refused(self, key: GroupKey, blocker: Blocker) -> None:
        """Report that the root does not fit."""
        ...

    def on_root_placed(self, key: GroupKey) -> None:
        """Report that the root fits, and is being bound."""
        ...


class NoPreemption:
    """A stand-in without preemption: nothing is evicted."""

    evicts = False

    def prepare(self) -> Iterator[None]:
        """Do nothing. See Preemptor, for this and all below."""
        yield from ()

    def on_victims_deleted(self, uids: Iterable[str]) -> None:
        """Ignore the pods: no root waits for them."""

    def nodes_changed(self, rows: Iterable[int]) -> None:
        """Ignore the nodes: no root waits for pods there to end."""

    def forget_deleted(self, keys: Iterable[GroupKey]) -> None:
        """Ignore the roots: they have no nominations."""

    def failed(self, key: GroupKey) -> None:
        """Ignore the root: it has no nomination."""

    def on_root_placed(self, key: GroupKey, rows: Sequence[int]) -> None:
        """Ignore the root: it had no nomination."""

    def refused(
        self, key: GroupKey, entity: Group | Pod, refusal: Refusal
    ) -> Generator[None, None, str]:
        """Add nothing to the blocker."""
        yield from ()
        return ""

    def note(self, entity: Group | Pod, refusal: Refusal) -> str:
        """Add nothing to the blocker."""
        return ""

    def plans_of_equals(self, roots: Sequence[Group | Pod]) -> Generator[None, None, list[Plan]]:
        """Return no plans."""
        yield from ()
        return []

    def evict(self, plan: Plan, entity: Group | Pod) -> str:
        """Raise AssertionError: there are no plans."""
        raise AssertionError(plan)


class NoDefragmentation:
    """A stand-in without defragmentation: nothing is moved."""

    def refused(
        self, key: GroupKey, entity: Group | Pod, refusal: Refusal
    ) -> Generator[None, None, str]:
        """Add nothing to the blocker. See Defragmenter, for this and all below."""
        yield from ()
        return ""

    def on_root_placed(self, placement: Placement) -> None:
        """Ignore the root: it was not moved."""

    def expire(self, now: float) -> None:
        """Do nothing."""

    def next_time(self) -> float | None:
        """Return None: nothing is ever due."""
        return None


class NoStarvation:
    """A stand-in without a starvation gate: no root goes before others."""

    def forget_deleted(self, keys: Iterable[GroupKey]) -> None:
        """Do nothing. See StarvationMonitor, for this and all below."""

    def on_root_placed(self, key: GroupKey, entity: Group | Pod) -> None:
        """Ignore the root: placed roots are not counted."""

    def refused(
        self, key: GroupKey, entity: Group | Pod, refusal: Refusal
    ) -> Generator[None, None, None]:
        """Ignore the root: refusals are not counted."""
        yield from ()


class NoStartLimits:
    """A stand-in without limits for starts: no root is given up."""

    def changed(self, key: GroupKey) -> None:
        """Do nothing. See StartLimits, for this and all below."""

    def expire(self, now: float) -> None:
        """Do nothing."""

    def next_time(self) -> float | None:
        """Return None: nothing is ever due."""
        return None


class NoHeldPlaces:
    """A stand-in without held places for expected pods."""

    def use_held_places(
        self, root: Group | Pod, budget: Callable[[], SearchBudget]
    ) -> Placement | None:
        """Return None. See HeldPlaces, for this and all below."""
        return None

    def note(self, root: Group | Pod) -> str:
        """Add nothing to the blocker."""
        return ""


class NoDeviceLimit:
    """A stand-in without a limit to the work on devices."""

    def allowed(self, namespace: str, *, alone: bool) -> AbstractContextManager[None]:
        """Allow everything. See DeviceWork, for this and all below."""
        return nullcontext()

    def postponed(self, namespace: str, *, alone: bool) -> float:
        """Return a time in the past: decide again immediately."""
        return 0.0


class NoClaimReleases:
    """A stand-in that releases no claims of refused roots."""

    def refused(self, entity: Group | Pod) -> None:
        """Do nothing. See ClaimReleases."""


class NoTimes:
    """A stand-in that measures no wait times."""

    def changed(self, key: GroupKey) -> None:
        """Do nothing. See GangTimes, for this and all below."""

    def reset(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class CycleParts:
    """The parts of a cycle. An optional part that is not given does nothing."""

    binding: Binding
    reporting: Reporting
    preemption: Preemptor | NoPreemption = field(default_factory=NoPreemption)
    defragmentation: Defragmenter | NoDefragmentation = field(default_factory=NoDefragmentation)
    starvation: StarvationMonitor | NoStarvation = field(default_factory=NoStarvation)
    start_limits: StartLimits | NoStartLimits = field(default_factory=NoStartLimits)
    held_places: HeldPlaces | NoHeldPlaces = field(default_factory=NoHeldPlaces)
    device_work: DeviceWork | NoDeviceLimit = field(default_factory=NoDeviceLimit)
    claim_releases: ClaimReleases | NoClaimReleases = field(default_factory=NoClaimReleases)
    times: GangTimes | NoTimes = field(default_factory=NoTimes)
