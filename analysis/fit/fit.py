"""Whether workloads would fit now, on a state that stays as it is, or on a copy of it.

Each workload is decided as the scheduler would decide it now, alone or after the others. What waits
already is not decided before it: it may take the capacity first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from analysis.fit.known_ends import Times, fits_from, terminated_at
from analysis.fit.messages import (
    MOST_SHOWN,
    FitAnswer,
    FitDomain,
    FitNode,
    FitRequest,
    FitResult,
    FitRoot,
    FitVictim,
    FitWorkload,
    Verdict,
)
from analysis.simulate.deciding import (
    Decided,
    Setup,
    carry_out,
    decided,
    known_in,
    new_among,
    roots_not_ready,
    victims_by_root,
    waiting_roots,
)
from analysis.simulate.documents import check_values, documents_of, objects_among
from analysis.simulate.simulate import TooManyError, add_all, id_of
from analysis.simulate.stored_pods import PodAdmission
from api.features import FeatureGates
from api.priority import PriorityClass
from api.scheduler_names import SchedulerNames
from kube.base.clock import rfc3339
from kube.base.errors import ConfigError
from scheduler.core.explain.explain import explain
from scheduler.core.groups.forest import Group, Pod, outer_topology_keys
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.hypothetical import NeedsCopyError, hypothetical
from scheduler.core.state.state import State
from scheduler.status.conditions import held_condition, waiting_for

Json = dict[str, Any]

MOST_LIVE: Final = 512
"""Groups and pods of workloads that are decided on a live state. More need a copy of it."""

MOST_OBJECTS: Final = 20_000
"""Groups and pods that the workloads of one decision may expand to. More are rejected."""

MOST_LIVE_VALUES: Final = 5_000
"""Values of one document that is decided on a live state: each of its pods is a copy of them. A
larger document needs a copy of the state."""

_NOT_KNOWN: Final = "Not known within the budget of the search."
_NO_TIME: Final = "Not decided within the time limit."


@dataclass(frozen=True, slots=True)
class Entry:
    """A workload of a question: its documents, and its `path` in the question for errors.

    `values` is the number of values in the largest document.
    """

    path: str
    documents: Sequence[Json]
    values: int


@dataclass(slots=True)
class _Added:
    """A workload in a state: what was new then, as roots to decide or with the reason."""

    roots: list[Group | Pod]
    waiting: list[FitRoot]
    notes: list[str]


def setup_of(
    budget: SearchBudget,
    effort: SearchEffort,
    priorities: Iterable[PriorityClass],
    *,
    preempts: bool,
    schedulers: SchedulerNames,
    gates: FeatureGates,
) -> Setup:
    """Return the settings of a decision on a live state, by the budget of the search.

    If the time is over before everything is added, only a copy can tell.
    """

    def pause() -> None:
        budget.pause()
        if budget.expired():
            raise NeedsCopyError("more time")

    return Setup(
        budget=budget,
        effort=effort,
        preempts=preempts,
        pods=PodAdmission(tuple(priorities)),
        schedulers=schedulers,
        gates=gates,
        expired=budget.expired,
        pause=pause,
    )


def entry_of(workload: FitWorkload, path: str, pause: Callable[[], None]) -> Entry:
    """Return a workload of a question, checked. Raises ConfigError, which names the field."""
    found = list(documents_of(workload.manifests, f"{path}.manifests", pause))
    found += objects_among(workload.objects, f"{path}.objects")
    if not found:
        raise ConfigError(f"{path}: has no manifests: set manifests or objects")
    named = ((each, f"{path}: document {at}") for at, each in enumerate(found))
    return Entry(path, found, max(check_values(*each, pause=pause) for each in named))


def entries_of(request: FitRequest, pause: Callable[[], None]) -> list[Entry]:
    """Return all workloads of a question. Raises ConfigError."""
    numbered = enumerate(request.workloads)
    return [entry_of(each, f"workloads[{at}]", pause) for at, each in numbered]


def decisions(entries: Sequence[Entry], *, together: bool) -> list[Sequence[Entry]]:
    """Return the workloads that are decided on one state."""
    return [entries] if together else [[each] for each in entries]


def fit(
    state: State,
    request: FitRequest,
    setup: Setup,
    times: Times | None,
    copied: Callable[[], State],
) -> FitAnswer:
    """Return the answer; the state stays as it is. Raises ConfigError.

    `copied` returns a copy of the state for what cannot be decided on the state itself. Without
    `times`, no ends of pods are known.
    """
    entries = entries_of(request, setup.pause)
    found: list[FitResult] = []
    for some in decisions(entries, together=request.together):
        try:
            found += answer_live(state, some, request.namespace, setup, times)
        except NeedsCopyError:
            found += answers(copied(), some, request.namespace, setup, times, most=MOST_OBJECTS)
    return FitAnswer(workloads=found)


def answer_live(
    state: State, entries: Sequence[Entry], namespace: str, setup: Setup, times: Times | None
) -> list[FitResult]:
    """Return the answers of one decision; the state stays as it is.

    Raises ConfigError, and NeedsCopyError if only `answers` on a copy can tell.
    """
    if any(each.values > MOST_LIVE_VALUES for each in entries):
        raise NeedsCopyError("large documents")
    with hypothetical(state, setup.pause) as trial:
        try:
            return answers(trial, entries, namespace, setup, times, most=MOST_LIVE)
        except TooManyError as error:
            raise NeedsCopyError("many pods") from error


def answers(
    state: State,
    entries: Sequence[Entry],
    namespace: str,
    setup: Setup,
    times: Times | None,
    *,
    most: int,
) -> list[FitResult]:
    """Add the workloads to the state and decide one after the other. Raises ConfigError."""
    added = [_add(state, each, namespace, setup, most) for each in entries]
    state.complete()
    order = {id(root): at for at, root in enumerate(waiting_roots(state, setup.budget.pause))}
    results: list[FitResult] = []
    before: Decided | None = None
    for each in added:
        roots = list(each.waiting)
        ready = [root for root in each.roots if id(root) in order]
        for entity in sorted(ready, key=lambda root: order[id(root)]):
            # As late as possible: the last one's eviction needs no state of its own.
            before = None if setup.expired() else _next(state, before, entity, setup)
            roots.append(_root(state, entity, before, setup, times))
        roots += map(_held, (root for root in each.roots if id(root) not in order))
        results.append(FitResult(fits=_all(roots), roots=roots[:MOST_SHOWN], notes=each.notes))
    return results


def _next(state: State, before: Decided | None, entity: Group | Pod, setup: Setup) -> Decided:
    """Decide on a root after the decision on the one before it is carried out."""
    if before is not None:
        carry_out(state, before)
    return decided(state, entity, setup)


def _add(state: State, entry: Entry, namespace: str, setup: Setup, most: int) -> _Added:
    """Add one workload to the state. Raises ConfigError, which names it."""
    before = known_in(state)
    try:
        notes = add_all(state, entry.documents, namespace, setup, most=most)
    except TooManyError:
        raise
    except ConfigError as error:
        raise ConfigError(f"{entry.path}: {error}") from error
    waiting = roots_not_ready(state, before)
    held = [_not_ready(state, group, setup) for group in waiting]
    known = {group.key for group in waiting}
    tops = (group for group in state.forest.groups.values() if group.parent is None)
    everything: tuple[Group | Pod, ...] = (*tops, *state.singles.values(), *state.held.values())
    new = new_among(everything, before)
    return _Added([root for root in new if root.key not in known], held, notes)


def _root(
    state: State, entity: Group | Pod, decision: Decided | None, setup: Setup, times: Times | None
) -> FitRoot:
    if decision is None:
        return FitRoot(id=id_of(entity.key), fits="unknown", sentence=_NO_TIME)
    if decision.placement is None:
        assert isinstance(decision.outcome, Refusal)
        return _refused(state, entity, decision.outcome, setup, times)
    found = _placed(state, entity, decision.placement)
    if decision.plan is not None:
        _set_plan(state, found, decision.plan, times)
    return found


def _refused(
    state: State, entity: Group | Pod, refusal: Refusal, setup: Setup, times: Times | None
) -> FitRoot:
    blocker = explain(state, refusal)
    cut = refusal.timed_out or setup.budget.expired()
    # What does not fit on empty nodes either is refused whatever the rest of the search finds.
    if cut and not blocker.impossible:
        sentence = f"{_NOT_KNOWN} {blocker.summary}"
        return FitRoot(id=id_of(entity.key), fits="unknown", sentence=sentence)
    moment = None
    if times is not None and refusal.shortage.resolvable and not blocker.impossible:
        moment = fits_from(state, entity, setup, times)
    return FitRoot(
        id=id_of(entity.key), fits="no", sentence=blocker.summary, known_from=_rfc3339(moment)
    )


def _placed(state: State, entity: Group | Pod, placement: Placement) -> FitRoot:
    nodes = Counter(map(state.nodes.name_of, placement.rows))
    return FitRoot(
        id=id_of(entity.key),
        fits="now",
        pods=len(placement.pods),
        domains=list(_domains(state, entity, placement))[:MOST_SHOWN],
        nodes=[FitNode(name=name, pods=pods) for name, pods in sorted(nodes.items())][:MOST_SHOWN],
    )


def _domains(state: State, entity: Group | Pod, placement: Placement) -> Iterator[FitDomain]:
    """Yield the domains of each topology key that the root's groups name."""
    found: dict[str, Counter[str]] = {}
    placed = list(zip(placement.pods, placement.rows, strict=True))
    for group in entity.walk() if isinstance(entity, Group) else ():
        if group.topology is None:
            continue
        key = group.topology.key
        domains = state.topologies.of_groups(key, outer_topology_keys(group, key))
        own = {uid for leaf in group.leaves() for uid in leaf.members}
        codes = [int(domains.codes[row]) for pod, row in placed if pod.info.uid in own]
        # A constraint that is preferred may leave nodes without the label.
        found.setdefault(key, Counter()).update(domains.paths[code] for code in codes if code >= 0)
    for key, counts in found.items():
        for value, pods in sorted(counts.items()):
            yield FitDomain(key=key, value=value, pods=pods)


def _set_plan(state: State, found: FitRoot, plan: Plan, times: Times | None) -> None:
    if plan.cost is None:
        found.fits = "afterTermination"
        if times is not None:
            found.known_from = _rfc3339(terminated_at(state, plan.placement, times))
        return
    found.fits = "afterEviction"
    units = Counter(next(iter(unit.pods.values())).top.key for unit in plan.victims)
    found.evicted_pods = len(plan.pods)
    for key, pods in victims_by_root(plan).items():
        priority = min(pod.priority for pod in pods)
        victim = FitVictim(id=id_of(key), pods=len(pods), units=units[key], priority=priority)
        found.evicts.append(victim)


def _not_ready(state: State, group: Group, setup: Setup) -> FitRoot:
    blocker = waiting_for(state, group, setup.gates)
    sentence = "" if blocker is None else blocker.summary
    return FitRoot(id=id_of(group.key), fits="no", sentence=sentence)


def _held(entity: Group | Pod) -> FitRoot:
    """Return the answer for what is not decided: a pod that is held, or a group without pods."""
    sentence = "No pod waits."
    if isinstance(entity, Pod) and entity.hold is not None:
        sentence = f"{held_condition(entity, entity.hold)[1]}."
    return FitRoot(id=id_of(entity.key), fits="no", sentence=sentence)


def _all(roots: Iterable[FitRoot]) -> Literal["yes", "no", "unknown"]:
    found: set[Verdict] = {root.fits for root in roots}
    if "no" in found:
        return "no"
    return "unknown" if "unknown" in found else "yes"


def _rfc3339(moment: float | None) -> str | None:
    return None if moment is None else rfc3339(datetime.fromtimestamp(moment, UTC))
