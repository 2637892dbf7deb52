"""The parts of a scheduling cycle, and a default for each optional part that does nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.claims.claim_releases import ClaimReleases
from scheduler.core.explain.explain import Blocker
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.values.model import GroupKey
from scheduler.cycle.starvation_monitor import StarvationMonitor
from scheduler.held_places.held_places import HeldPlaces
from scheduler.preemption.preemptor import Preemptor
from scheduler.support.device_budget import DeviceWork
from scheduler.support.wait_times import GangTimes


class Binding(Protocol):
    """Takes placements to bind."""

    def submit(self, placement: Placement) -> None:
        """Bind all pods of the placement, which are assumed already."""
        ...


class Reporting(Protocol):
    """Takes outcomes to report."""

    def touched(self, keys: Iterable[GroupKey]) -> None:
        """These entities or groups changed."""
        ...

    def refused(self, key: GroupKey, blocker: Blocker) -> None:
        """The root does not fit."""
        ...

    def placed(self, key: GroupKey) -> None:
        """The root fits, and is being bound."""
        ...


class NoPreemption:
    """Nothing is evicted."""

    evicts = False

    def prepare(self) -> Iterator[None]:
        """See Preemptor, for this and all below."""
        yield from ()

    def victims_gone(self, uids: Iterable[str]) -> None:
        """Nobody waits for them."""

    def nodes_changed(self, rows: Iterable[int]) -> None:
        """Nobody waits for pods there to end."""

    def forget_gone(self, keys: Iterable[GroupKey]) -> None:
        """They have no nominations."""

    def failed(self, key: GroupKey) -> None:
        """It keeps no place."""

    def placed(self, key: GroupKey, rows: Sequence[int]) -> None:
        """It had no nomination."""

    def refused(
        self, key: GroupKey, entity: Group | Pod, refusal: Refusal
    ) -> Generator[None, None, str]:
        """Nothing to add."""
        yield from ()
        return ""

    def note(self, entity: Group | Pod, refusal: Refusal) -> str:
        """Nothing to add."""
        return ""

    def plans_of_equals(self, roots: Sequence[Group | Pod]) -> Generator[None, None, list[Plan]]:
        """No plans."""
        yield from ()
        return []

    def evict(self, plan: Plan, entity: Group | Pod) -> str:
        """Nobody has plans."""
        raise AssertionError(plan)


class NoStarvation:
    """No root goes before its turn."""

    def forget_gone(self, keys: Iterable[GroupKey]) -> None:
        """See StarvationMonitor, for this and all below."""

    def placed(self, key: GroupKey, entity: Group | Pod) -> None:
        """It does not count."""

    def refused(
        self, key: GroupKey, entity: Group | Pod, refusal: Refusal
    ) -> Generator[None, None, None]:
        """It does not count."""
        yield from ()


class NoHeldPlaces:
    """No place is held for expected pods."""

    def taken_over(self, root: Group | Pod, budget: Callable[[], SearchBudget]) -> Placement | None:
        """See HeldPlaces, for this and all below."""
        return None

    def note(self, root: Group | Pod) -> str:
        """Nothing to add."""
        return ""


class NoDeviceLimit:
    """Work on devices has no limit."""

    def allowed(self, namespace: str, *, alone: bool) -> AbstractContextManager[None]:
        """See DeviceWork, for this and all below."""
        return nullcontext()

    def postponed(self, namespace: str, *, alone: bool) -> float:
        """At once."""
        return 0.0


class NoClaimReleases:
    """Refused roots keep what their pods have."""

    def refused(self, entity: Group | Pod) -> None:
        """See ClaimReleases."""


class NoTimes:
    """Nobody asks how long groups wait."""

    def changed(self, key: GroupKey) -> None:
        """See GangTimes, for this and all below."""

    def reset(self) -> None:
        """Nothing is remembered."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a cycle. An optional part that is not given does nothing."""

    binding: Binding
    reporting: Reporting
    preemption: Preemptor | NoPreemption = field(default_factory=NoPreemption)
    starvation: StarvationMonitor | NoStarvation = field(default_factory=NoStarvation)
    held_places: HeldPlaces | NoHeldPlaces = field(default_factory=NoHeldPlaces)
    device_work: DeviceWork | NoDeviceLimit = field(default_factory=NoDeviceLimit)
    claim_releases: ClaimReleases | NoClaimReleases = field(default_factory=NoClaimReleases)
    times: GangTimes | NoTimes = field(default_factory=NoTimes)
