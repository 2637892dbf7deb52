"""The decision on what manifests add to a state, for all questions about what would happen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from analysis.simulate.stored_pods import PodAdmission
from api import features
from api.features import FeatureGates
from api.scheduler_names import USUAL, SchedulerNames
from scheduler.core.decide import decide
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.core.values.search_budget import never, nothing
from scheduler.snapshot.snapshot import queue_of

Known = AbstractSet[GroupKey | str]
"""Keys of groups and UIDs of pods."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings of the cluster's scheduler; `expired` returns true when the time is over.

    `pause` is called between short steps, as in a search.
    """

    budget: SearchBudget = field(default_factory=SearchBudget)
    effort: SearchEffort = field(default_factory=SearchEffort)
    preempts: bool = True
    pods: PodAdmission = field(default_factory=PodAdmission)
    schedulers: SchedulerNames = USUAL
    gates: FeatureGates = features.USUAL
    expired: Callable[[], bool] = never
    pause: Callable[[], None] = nothing


@dataclass(frozen=True, slots=True)
class Decided:
    """The decision on a root: where it is placed, or why not.

    With a `plan`, it fits once the victims and all terminating pods are deleted.
    """

    entity: Group | Pod
    outcome: Placement | Refusal
    plan: Plan | None = None

    @property
    def placement(self) -> Placement | None:
        """Where it would be, also after an eviction."""
        if self.plan is not None:
            return self.plan.placement
        return self.outcome if isinstance(self.outcome, Placement) else None


def decided(state: State, entity: Group | Pod, setup: Setup) -> Decided:
    """Decide on one root as the scheduler does. Changes nothing."""
    outcome = decide(state, entity, setup.budget)
    if isinstance(outcome, Placement) or not setup.preempts:
        return Decided(entity, outcome)
    state.check_units(entity.priority)
    plan = preempt(state, entity, outcome, setup.budget, setup.effort)
    return Decided(entity, outcome, plan if isinstance(plan, Plan) else None)


def carry_out(state: State, decision: Decided) -> None:
    """Evict the victims and place the root, as roots that are decided later find the cluster."""
    for pod in decision.plan.pods if decision.plan is not None else ():
        state.remove_pod(pod.info.uid)
    placed = decision.placement
    if placed is not None:
        state.assume(placed.pods, placed.rows, placed.volumes, placed.devices)


def victims_by_root(plan: Plan) -> dict[GroupKey, list[Pod]]:
    """Return the pods that are evicted, by the key of their root."""
    found: dict[GroupKey, list[Pod]] = {}
    for pod in plan.pods:
        found.setdefault(pod.top.key, []).append(pod)
    return found


def known_in(state: State) -> Known:
    """Return what the state contains."""
    return {*state.forest.groups, *state.pods}


def waiting_roots(state: State, pause: Callable[[], None] = nothing) -> Iterator[Group | Pod]:
    """Yield the roots that may be decided, in the scheduler's order."""
    for key in queue_of(state, pause).waiting():
        entity: Group | Pod | None = state.singles.get(key) or state.forest.groups.get(key)
        if entity is not None:
            yield entity


def roots_not_ready(state: State, before: Known) -> list[Group]:
    """Return new roots that are not in the queue, because something of them is missing."""
    new = (group for key, group in state.forest.groups.items() if key not in before)
    return [group for group in new if group.parent is None and not _ready(state, group)]


def new_among(entities: Iterable[Group | Pod], before: Known) -> Iterator[Group | Pod]:
    """Yield the roots that are new, or have a new pod."""
    for entity in entities:
        if isinstance(entity, Pod):
            new = entity.info.uid not in before
        else:
            uids = (uid for leaf in entity.leaves() for uid in leaf.members)
            new = entity.key not in before or any(uid not in before for uid in uids)
        if new:
            yield entity


def _ready(state: State, group: Group) -> bool:
    return state.forest.ready(group) and (group.to_be_decided or not group.expected_waiting)
