"""The reason why a pod or group waits, or where it would go now: the scheduler's own result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from types import MappingProxyType
from typing import Final

from analysis.explain import owners
from analysis.explain.slices import slice_lines
from api import features
from api.constants import (
    COMPOSITE_POD_GROUP,
    JOBSET,
    NATIVE_GROUP,
    POD_GROUP,
    TRAIN_JOB,
)
from api.eviction import eviction_of, preemptions_of
from api.features import Feature, FeatureGates
from api.wording import count
from kube.base.clock import rfc3339
from kube.base.errors import ConfigError
from scheduler.core.decide import decide
from scheduler.core.explain.advice import SHOWN_REASONS
from scheduler.core.explain.devices_used import devices_used
from scheduler.core.explain.domain_capacity import domains
from scheduler.core.explain.explain import Blocker, explain
from scheduler.core.explain.holders import held_on, holders
from scheduler.core.groups.forest import Group, Pod, outer_topology_keys
from scheduler.core.preemption.plan import Plan, may_preempt, preempt
from scheduler.core.search.place import Placement, Refusal, SearchBudget
from scheduler.core.state.eviction_costs import is_past
from scheduler.core.state.state import State
from scheduler.core.topology.topology import UNLABELLED
from scheduler.core.values.model import SINGLE_POD, GroupKey
from scheduler.decoding.objects import GroupObject
from scheduler.preemption.messages import places_text, unit_size
from scheduler.status.conditions import held_condition, reason_of, retry_on, waiting_for
from scheduler.watch.published_places import published_until

_MOST_DOMAINS: Final = 20
"""Domains that `muster explain` lists. Further ones are counted."""

_MOST_HOLDERS: Final = 10
"""Groups with held places that `muster explain` lists. Further ones are counted."""

_MOST_EVICTED: Final = 5
"""Evicted groups of a tree that `muster explain` lists."""

_NATIVE = f".{NATIVE_GROUP}"

_KINDS = {
    name: kinds
    for kinds, names in {
        (SINGLE_POD,): ("pod", "pods", "po"),
        # A name without an API group means Muster's, and Kubernetes' own if there is none.
        (POD_GROUP.kind, POD_GROUP.kind + _NATIVE): ("podgroup", "podgroups", "pg", "mpg"),
        (COMPOSITE_POD_GROUP.kind, COMPOSITE_POD_GROUP.kind + _NATIVE): (
            "compositepodgroup", "compositepodgroups", "cpg", "mcpg",
        ),
    }.items()
    for name in names
}  # fmt: skip
"""The kinds of the keys that a word may mean, the first one first."""


def find(
    state: State, observed: Mapping[GroupKey, GroupObject], what: str, namespace: str
) -> list[Group | Pod]:
    """Return the pod or group that `kind/name` refers to, or the groups of an owner.

    For a TrainJob these are the groups of its JobSet, to which Trainer gives the same name.
    `observed` has the owner of each group. Raises ConfigError, which names the possible kinds.
    """
    word, separator, name = what.partition("/")
    kinds = _kinds_of(word.lower())
    if not separator or not name or not word:
        raise ConfigError(
            f"invalid argument {what!r}: use KIND/NAME, where KIND is pod, podgroup,"
            " compositepodgroup or the kind of a group's owner, such as job, jobset or statefulset"
        )
    if not kinds:
        kind = owners.KINDS.get(word.lower().partition(".")[0]) or _kind_of_owner(observed, word)
        found: list[Group | Pod] = list(_owned(state, observed, kind, namespace, name))
        if not found and kind == TRAIN_JOB.kind:
            found = list(_owned(state, observed, JOBSET.kind, namespace, name))
    elif kinds == (SINGLE_POD,):
        kind = SINGLE_POD
        pods = (pod for pod in state.pods.values() if pod.info.name == name)
        found = [pod for pod in pods if pod.info.namespace == namespace]
    else:
        kind = kinds[0]
        named = (state.forest.groups.get((it, namespace, name)) for it in kinds)
        # One with an object first: pods create the others by naming them.
        groups = sorted(filter(None, named), key=lambda it: it.spec is None)
        found = list(groups[:1])
    if not found and kinds:
        raise ConfigError(f'{kind} "{name}" not found in namespace "{namespace}"')
    if not found:
        raise ConfigError(
            f'{kind} "{name}" has no group in namespace "{namespace}": it does not exist, or asks'
            " for none. In a snapshot, name the group itself, such as podgroup/NAME"
        )
    return found


def _kinds_of(word: str) -> tuple[str, ...]:
    """Return the kinds of keys that a word such as `podgroup.scheduling.muster.dev` may mean."""
    plain, _, group = word.partition(".")
    kinds = _KINDS.get(plain, ())
    if NATIVE_GROUP in group:
        return kinds[1:]
    return kinds[:1] if group else kinds


def explain_lines(
    state: State,
    entity: Group | Pod,
    budget: SearchBudget,
    gates: FeatureGates = features.USUAL,
    observed: Mapping[GroupKey, GroupObject] = MappingProxyType({}),
) -> Iterator[str]:
    """Yield one group with its needs and blockers, or one pod; `gates` are the feature gates.

    `observed` has the time until which places are held, and for whom a group was evicted and how
    often.
    """
    if isinstance(entity, Pod):
        yield from _pod_lines(state, entity, budget, gates)
        return
    yield headline(entity)
    if entity.of_others and entity.has_foreign_pods:
        yield "  is scheduled by another scheduler"
        return
    yield from (f"  {line}" for line in _eviction_lines(entity, observed))
    yield from (f"  {line}" for line in _checkpoint_lines(state, entity))
    yield from (f"  {line}" for line in _holding_lines(entity, observed))
    members = (uid for leaf in entity.leaves() for uid in leaf.members)
    yield from (f"  {line}" for line in _device_lines(state, members))
    yield from (f"  {line}" for line in _domain_lines(state, entity))
    yield from (f"  {line}" for line in slice_lines(state, entity))
    top = entity.top
    if top is not entity:
        yield f"  is scheduled together with its root, {qualified_name(top.key)}"
    yield from (f"  {line}" for line in _decision_lines(state, top, entity, budget, gates))


def _domain_lines(state: State, group: Group) -> Iterator[str]:
    """Yield the domains of its topology constraint in which its members run."""
    pods = (pod for leaf in group.leaves() for pod in leaf.members.values())
    rows = [pod.row for pod in pods if pod.running and pod.row >= 0]
    if group.topology is None or not rows:
        return
    key = group.topology.key
    found = state.topologies.of_groups(key, outer_topology_keys(group, key))
    names = (found.paths[code] for code in sorted(found.of(rows) - {UNLABELLED}))
    yield f"runs in {key}: {', '.join(names) or 'none'}"


def _eviction_lines(group: Group, observed: Mapping[GroupKey, GroupObject]) -> Iterator[str]:
    """Yield for whom the group was evicted, or else the first evicted ones of its descendants."""

    def evicted(each: Group) -> str:
        obj = observed.get(each.key)
        return eviction_of(obj.status or {}) if obj is not None else ""

    obj = observed.get(group.key)
    number, since = preemptions_of(obj.status or {}) if obj is not None else (0, 0.0)
    if number:
        begun = rfc3339(datetime.fromtimestamp(since, UTC))
        yield f"was preempted {count(number, 'time')} since {begun}"
    own = evicted(group)
    if own:
        yield f"was {own}"
        return
    below = ((each, why) for each in group.walk() if (why := evicted(each)))
    for each, why in islice(below, _MOST_EVICTED):
        yield f"{qualified_name(each.key)} was {why}"


def _checkpoint_lines(state: State, group: Group) -> Iterator[str]:
    """Yield that the last checkpoint of a group or of one of its pods is in the future."""
    pods = (pod for leaf in group.leaves() for pod in leaf.members.values())
    reported = [(pod.key, pod.info.preemption.checkpoint) for pod in pods]
    if group.spec is not None:
        reported.insert(0, (group.key, group.spec.checkpoint))
    for key, moment in reported:
        if not is_past(moment, state.units.protection):
            yield f"last-checkpoint of {qualified_name(key)} is in the future: it does not count"
            return


def _holding_lines(group: Group, observed: Mapping[GroupKey, GroupObject]) -> Iterator[str]:
    """Yield the nodes with held places for its expected pods, and when the places end."""
    for leaf in group.leaves() if group.expected_held else ():
        places = held_on(leaf)
        if places:
            until = published_until(observed.get(leaf.key))
            name = f" of {qualified_name(leaf.key)}" if leaf is not group else ""
            yield (
                f"has {count(sum(places.values()), 'held place')} for pods{name} that do not exist"
                f" yet{f', until {rfc3339(until)}' if until is not None else ''}:"
                f" {on_nodes(places)}"
            )


def headline(group: Group) -> str:
    """Return kind, name, and how many of its pods or children are placed."""
    minimum = ""
    if group.minimum is not None and (group.spec is None or group.spec.gang):
        field = "minGroupCount" if group.composite else "minCount"
        minimum = f", {field} {group.minimum}"
    if group.composite:
        of = f"{group.standing_children} of {len(group.children)} child groups scheduled"
    # Expected pods do not exist: they count neither as pods nor, with a held place, as placed.
    else:
        expected = group.expected_held + group.expected_waiting
        there, placed = len(group.members) - expected, group.running - group.expected_held
        of = f"{placed} of {there} pods scheduled"
        of += f", {expected} expected" if expected else ""
    held = f", {count(group.expected_held, 'held place')}" if group.expected_held else ""
    return f"{qualified_name(group.key)}: {of}{held}{minimum}"


def qualified_name(key: GroupKey) -> str:
    """Return `PodGroup ns/name`."""
    return f"{key[0]} {key[1]}/{key[2]}"


def placed_line(where: Mapping[str, str]) -> str:
    """Return nodes with the number of pods, from the node of each pod by name."""
    return on_nodes(Counter(where.values()))


def on_nodes(places: Mapping[str, int]) -> str:
    """Return nodes with these numbers of pods, by the names of the nodes."""
    return ", ".join(f"{node} x{count}" for node, count in sorted(places.items()))


def placement_lines(state: State, placement: Placement, verb: str) -> Iterator[str]:
    """Yield the nodes of the pods that exist, and those of the held places for expected pods."""
    names = state.nodes.name_of
    found = {False: Counter[str](), True: Counter[str]()}
    for pod, row in zip(placement.pods, placement.rows, strict=True):
        found[pod.info.expected][names(row)] += 1
    yield f"{verb}: {on_nodes(found[False])}"
    if found[True]:
        yield f"  held places for pods that do not exist yet: {on_nodes(found[True])}"


def blocker_lines(blocker: Blocker) -> Iterator[str]:
    """Yield the reason with all its numbers."""
    yield f"{reason_of(blocker)} ({blocker.kind}): {blocker.summary}"
    for reason, nodes in blocker.counts[SHOWN_REASONS:]:
        yield f"  {_excluded(reason, nodes)}"
    yield f"  retried on: {', '.join(retry_on(blocker))}"


def _excluded(reason: str, nodes: int) -> str:
    """Return how many nodes a reason excludes, in the notation of kube-scheduler."""
    return f"nodes: {nodes} {reason}"


def preemption(
    state: State,
    entity: Group | Pod,
    refusal: Refusal,
    budget: SearchBudget,
    gates: FeatureGates = features.USUAL,
) -> Plan | None:
    """Return the preemption by which the refused root would start, if any; evict nothing."""
    if Feature.PREEMPTION not in gates:
        return None
    plan = preempt(state, entity, refusal, budget)
    return plan if isinstance(plan, Plan) else None


def refusal_lines(
    state: State,
    entity: Group | Pod,
    refusal: Refusal,
    plan: Plan | None,
    gates: FeatureGates = features.USUAL,
) -> Iterator[str]:
    """Yield the capacity of each domain, and the pods that the preemption evicts, if there is one.

    Without one, the last line says why.
    """
    rooms = domains(state, entity, refusal)
    for room in rooms[:_MOST_DOMAINS]:
        out = "".join(f"; {_excluded(*each)}" for each in room.excluded)
        yield (
            f"  {room.key}={room.value}: capacity for {count(room.free, 'pod')},"
            f" {room.reclaimable} more by preemption, {room.missing} missing{out}"
        )
    if len(rooms) > _MOST_DOMAINS:
        yield f"  and {count(len(rooms) - _MOST_DOMAINS, 'domain')} with less capacity"
    yield from (f"  {line}" for line in _others_places(state, entity))
    if Feature.PREEMPTION not in gates:
        yield f"  no preemption: {gates.off_text(Feature.PREEMPTION)}"
        return
    if plan is not None:
        yield from (f"  {line}" for line in plan_lines(plan))
    elif refusal.shortage.resolvable:
        yield f"  {_why_no_eviction(state, entity)}"


def _others_places(state: State, entity: Group | Pod) -> Iterator[str]:
    """Yield the held places of other groups, highest priority first: it may not take those."""
    found = [each for each in holders(state) if each.top != entity.key]
    found.sort(key=lambda each: -each.priority)
    for each in found[:_MOST_HOLDERS]:
        lower = each.priority < entity.priority
        taken = "which preemption may take" if lower else "which preemption may not take"
        yield (
            f"{qualified_name(each.group)}, priority {each.priority}, has"
            f" {count(each.total, 'held place')} for pods that do not exist yet, {taken}:"
            f" {on_nodes(each.places)}"
        )
    if len(found) > _MOST_HOLDERS:
        yield f"and {count(len(found) - _MOST_HOLDERS, 'more group')} with held places"


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the pods that a preemption evicts, and what they cost."""
    cost = plan.cost
    if cost is None:
        yield "fits when the terminating pods are deleted"
        return
    victims = plan.pods
    held = sum(pod.info.expected for pod in victims)
    yield f"would preempt {places_text(cost.pods - held, held)} of lower priority:"
    for unit in plan.victims:
        yield f"  {unit.name}, priority {unit.priority}, {unit_size(unit)}"
    lost = Counter(pod.group for pod in victims if pod.running and pod.group is not None)
    for group, number in lost.items():
        kept = group.running - number
        if kept and kept < (group.minimum or 0):
            yield f"  {qualified_name(group.key)} keeps {kept} of its minCount {group.minimum}"
    proof = "none can be left out" if plan.minimal else "the search for fewer ended early"
    yield (
        f"cheapest choice found: {count(cost.violations, 'PodDisruptionBudget violation')},"
        f" highest priority {cost.priority}; {proof}"
    )


def _why_no_eviction(state: State, entity: Group | Pod) -> str:
    """Return why no pod is evicted for the root."""
    if isinstance(entity, Group) and entity.only_reserves:
        return "no preemption: it reserves capacity, and none of its pods exists yet"
    if not may_preempt(state, entity):
        return "no preemption: preemptionPolicy is Never"
    units, spared = len(state.units.below(entity.priority)), _spared(state, entity.priority)
    if not units:
        what = "nothing" if not spared else "nothing else"
        return f"no preemption: {what} with a priority below {entity.priority} runs{spared}"
    victims = "the unit" if units == 1 else f"all {units} units"
    return (
        f"no preemption: it does not fit even without {victims} with a priority below"
        f" {entity.priority}{spared}"
    )


def _spared(state: State, priority: int) -> str:
    """Return how many units may not be evicted yet, and when the first may; empty for none."""
    ends = state.units.protected(priority)
    if not len(ends):
        return ""
    first = rfc3339(datetime.fromtimestamp(math.ceil(ends.min()), UTC))
    if len(ends) == 1:
        return f"; one pod or group of lower priority has a min-run-time until {first}"
    return (
        f"; {len(ends)} pods or groups of lower priority have a min-run-time, the first until"
        f" {first}"
    )


def _kind_of_owner(observed: Mapping[GroupKey, GroupObject], word: str) -> str:
    """Return the kind of a group's owner that a word means (`statefulsets`), else the word."""
    wanted = word.lower().partition(".")[0]
    for obj in observed.values():
        owner = obj.metadata.controller
        if owner is not None and wanted in (owner.kind.lower(), f"{owner.kind.lower()}s"):
            return owner.kind
    return word


def _owned(
    state: State, observed: Mapping[GroupKey, GroupObject], kind: str, namespace: str, name: str
) -> Iterable[Group]:
    """Return the groups of an owner that are below no other one of it.

    They may be below the root of several owners.
    """
    owned = []
    for key, obj in sorted(observed.items()):
        owner = obj.metadata.controller
        if owner is not None and (owner.kind, owner.name, key[1]) == (kind, name, namespace):
            owned.append(state.forest.groups.get(key))
    return [it for it in owned if it is not None and it.parent not in owned]


def _pod_lines(state: State, pod: Pod, budget: SearchBudget, gates: FeatureGates) -> Iterator[str]:
    info = pod.info
    yield f"Pod {info.namespace}/{info.name}"
    yield from (f"  {line}" for line in _device_lines(state, (info.uid,)))
    if info.node:
        yield f"  is bound to {info.node}"
    elif not info.ours:
        yield "  is scheduled by another scheduler"
    elif pod.hold is not None:
        yield f"  {': '.join(held_condition(pod, pod.hold))}"
    elif pod.group is not None:
        yield f"  is scheduled together with its group, {qualified_name(pod.group.key)}"
        yield from (f"  {line}" for line in explain_lines(state, pod.group, budget, gates))
    else:
        yield from (f"  {line}" for line in _outcome(state, pod, None, budget, gates))


def _device_lines(state: State, uids: Iterable[str]) -> Iterator[str]:
    """Yield the devices that pods use, by class."""
    used = devices_used(state.devices, uids)
    if used:
        classes = (f"{count(number, 'device')} of class {name}" for name, number in used.items())
        yield f"uses {', '.join(sorted(classes))}"


def _decision_lines(
    state: State, top: Group, asked: Group, budget: SearchBudget, gates: FeatureGates
) -> Iterator[str]:
    held = waiting_for(state, top, gates)
    if held is not None:
        if held.at != asked.key:
            yield f"waits for {qualified_name(held.at)}"
        yield from blocker_lines(held)
    elif not top.pending_total:
        yield "no pod waits"
    else:
        yield from _outcome(state, top, asked.key, budget, gates)


def _outcome(
    state: State,
    entity: Group | Pod,
    asked: GroupKey | None,
    budget: SearchBudget,
    gates: FeatureGates,
) -> Iterator[str]:
    outcome = decide(state, entity, budget)
    if isinstance(outcome, Placement):
        yield from placement_lines(state, outcome, "would be scheduled now")
        return
    blocker = explain(state, outcome)
    if asked is not None and blocker.at != asked:
        yield f"waits for {qualified_name(blocker.at)}"
    yield from blocker_lines(blocker)
    plan = preemption(state, entity, outcome, budget, gates)
    yield from refusal_lines(state, entity, outcome, plan, gates)
    if plan is not None and plan.cost is not None:
        yield from (
            f"  {line}"
            for line in placement_lines(state, plan.placement, "would then be scheduled")
        )
