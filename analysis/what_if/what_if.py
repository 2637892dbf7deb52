"""The outcome of changes and manifests, tried on a copy of the cluster.

All waiting roots are decided in the scheduler's order, with preemption, until the time is over. No
pod ends or arrives meanwhile, and evicted pods are not recreated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from analysis.simulate.deciding import (
    Known,
    Setup,
    carry_out,
    decided,
    known_in,
    roots_not_ready,
    victims_by_root,
    waiting_roots,
)
from analysis.simulate.documents import documents_of
from analysis.simulate.simulate import add_all, id_of
from analysis.what_if.messages import (
    MOST_CHANGES,
    AddNodes,
    Change,
    PlacedPod,
    RemoveDomain,
    WhatIfAnswer,
    WhatIfRequest,
    WouldEvict,
    WouldPlace,
    WouldWait,
)
from api.wording import count
from kube.base.errors import ConfigError
from scheduler.core.explain.explain import explain
from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.state.state import State
from scheduler.core.values.model import SINGLE_POD, PodInfo
from scheduler.status.conditions import waiting_for

NAMESPACE: Final = "default"
"""The namespace of manifests that name none."""

MOST_NEW_NODES: Final = 10_000
"""Nodes that a question may add. A question with more is rejected."""

MOST_OBJECTS: Final = 50_000
"""Groups and pods that manifests may expand to. Manifests with more are rejected."""

MOST_SHOWN: Final = 500
"""Workloads in each list of the result; the lines count all."""

_HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(slots=True)
class _Outcome:
    placed: list[WouldPlace] = field(default_factory=list)
    waiting: list[WouldWait] = field(default_factory=list)
    evicted: list[WouldEvict] = field(default_factory=list)
    pods_placed: int = 0
    pods_evicted: int = 0
    untried: int = 0


def what_if(state: State, request: WhatIfRequest, setup: Setup) -> WhatIfAnswer:
    """Return the outcome; changes the state. Raises ConfigError for an invalid question."""
    if len(request.changes) > MOST_CHANGES:
        raise ConfigError(
            f"changes: Too many: {len(request.changes)}: must have at most {MOST_CHANGES} items"
        )
    # Before the manifests, which are placed on the changed cluster.
    for at, change in enumerate(request.changes):
        _change(state, change, f"changes[{at}]")
    before = known_in(state)
    documents = documents_of(request.manifests, "manifests")
    notes = add_all(state, documents, NAMESPACE, setup, most=MOST_OBJECTS)
    outcome = _Outcome()
    for entity in waiting_roots(state):
        if setup.expired():
            outcome.untried += 1
        else:
            _decide(state, entity, setup, outcome)
    _add_not_ready(state, before, setup, outcome)
    return _result(outcome, notes)


def _change(state: State, change: Change, path: str) -> None:
    """Apply one change. Raises ConfigError."""
    said = [name for name in change.__struct_fields__ if getattr(change, name) is not None]
    if len(said) != 1:
        raise ConfigError(
            f"{path}: must have exactly one of addNodes, removeDomain, removeNode and evict"
        )
    if change.add_nodes is not None:
        _add_nodes(state, change.add_nodes, path)
    elif change.remove_domain is not None:
        _remove_domain(state, change.remove_domain, path)
    elif change.remove_node is not None:
        if change.remove_node not in state.nodes.row_of:
            raise ConfigError(f'{path}.removeNode: Not found: "{change.remove_node}"')
        _remove_nodes(state, {change.remove_node})
    elif change.evict is not None:
        _evict(state, change.evict, path)


def _add_nodes(state: State, more: AddNodes, path: str) -> None:
    row = state.nodes.row_of.get(more.like)
    like = None if row is None else state.nodes.infos[row]
    if like is None:
        raise ConfigError(f'{path}.addNodes.like: Not found: "{more.like}"')
    room = MOST_NEW_NODES - sum("-what-if-" in name for name in state.nodes.row_of)
    if not 1 <= more.count <= room:
        raise ConfigError(f"{path}.addNodes.count: must be between 1 and {room}, inclusive")
    for _ in range(more.count):
        name = f"{like.name}-what-if-{len(state.nodes.row_of) + 1}"
        labels = {**like.labels, **({_HOSTNAME: name} if _HOSTNAME in like.labels else {})}
        state.set_node(replace(like, name=name, labels=labels, unschedulable=False, uid=name))


def _remove_domain(state: State, domain: RemoveDomain, path: str) -> None:
    domains = state.topologies.of_groups(domain.key, ())
    codes = [code for code, value in enumerate(domains.values) if value == domain.value]
    names = {state.nodes.name_of(int(row)) for code in codes for row in domains.rows(code, None)}
    if not names:
        raise ConfigError(f"{path}.removeDomain: no node has {domain.key}={domain.value}")
    _remove_nodes(state, names)


def _remove_nodes(state: State, names: set[str]) -> None:
    """Remove the nodes; Muster's pods on them wait again, as their owners recreate them."""
    there = [pod.info for pod in state.pods.values() if pod.node in names]
    for info in there:
        state.remove_pod(info.uid)
    for name in sorted(names):
        state.remove_node(name)
    for info in there:
        if info.ours and not info.terminating and not info.expected:
            state.set_pod(_recreated(info))


def _recreated(info: PodInfo) -> PodInfo:
    """Return the pod as its owner recreates it."""
    return replace(
        info, uid=f"{info.uid}-again", node="", nominated="", phase="Pending", started=0.0
    )


def _evict(state: State, id_: str, path: str) -> None:
    """Remove the workload, with its descendants. It is not recreated."""
    pods = list(_pods_of(state, id_))
    if not pods:
        raise ConfigError(f'{path}.evict: Not found: "{id_[:300]}"')
    for pod in pods:
        state.remove_pod(pod.info.uid)


def _pods_of(state: State, id_: str) -> Iterator[Pod]:
    namespace, _, rest = id_.partition("/")
    kind, _, name = rest.partition("/")
    if kind == SINGLE_POD:
        yield from (
            pod
            for pod in state.pods.values()
            if (pod.info.namespace, pod.info.name) == (namespace, name)
        )
        return
    for group in list(state.forest.groups.values()):
        spec = group.spec
        owned = spec is not None and spec.owner == (kind, name) and group.key[1] == namespace
        if group.key == (kind, namespace, name) or owned:
            for leaf in group.leaves():
                yield from list(leaf.members.values())


def _decide(state: State, entity: Group | Pod, setup: Setup, outcome: _Outcome) -> None:
    """Carry out the decision on one root on the copy."""
    decision = decided(state, entity, setup)
    if decision.placement is None:
        assert isinstance(decision.outcome, Refusal)
        summary = explain(state, decision.outcome).summary
        outcome.waiting.append(WouldWait(id=id_of(entity.key), sentence=summary))
        return
    if decision.plan is not None:
        for root, pods in victims_by_root(decision.plan).items():
            outcome.evicted.append(WouldEvict(id=id_of(root), by=id_of(entity.key)))
            outcome.pods_evicted += len(pods)
    carry_out(state, decision)
    outcome.placed.append(_placed(state, entity, decision.placement))
    outcome.pods_placed += len(decision.placement.pods)


def _placed(state: State, entity: Group | Pod, placement: Placement) -> WouldPlace:
    names = state.nodes.name_of
    pairs = zip(placement.pods, placement.rows, strict=True)
    pods = [PlacedPod(name=pod.info.name, node=names(row)) for pod, row in pairs]
    return WouldPlace(id=id_of(entity.key), pods=pods)


def _add_not_ready(state: State, before: Known, setup: Setup, outcome: _Outcome) -> None:
    """Add the new groups that are not decided yet, with the reasons."""
    for group in roots_not_ready(state, before):
        held = waiting_for(state, group, setup.gates)
        if held is not None:
            outcome.waiting.append(WouldWait(id=id_of(group.key), sentence=held.summary))


def _result(outcome: _Outcome, notes: list[str]) -> WhatIfAnswer:
    return WhatIfAnswer(
        placements=outcome.placed[:MOST_SHOWN],
        waiting=outcome.waiting[:MOST_SHOWN],
        evicted=outcome.evicted[:MOST_SHOWN],
        lines=[*_lines(outcome), *notes],
    )


def _lines(outcome: _Outcome) -> Iterator[str]:
    """Yield the outcome, in numbers."""
    pods, placed = outcome.pods_placed, len(outcome.placed)
    yield f"{count(pods, 'pod')} of {count(placed, 'workload')} would be scheduled."
    if outcome.evicted:
        gone = count(outcome.pods_evicted, "pod")
        yield f"{count(len(outcome.evicted), 'workload')} with {gone} would be evicted."
    yield f"{count(len(outcome.waiting), 'workload')} would still wait."
    if outcome.untried:
        verb = "was" if outcome.untried == 1 else "were"
        yield f"{count(outcome.untried, 'workload')} {verb} not decided within the time limit."
    if max(placed, len(outcome.waiting), len(outcome.evicted)) > MOST_SHOWN:
        yield f"Each list shows {MOST_SHOWN} items at most."
