"""A change of a pod that fails anywhere leaves no trace of the pod, and no other change."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.state.state import State
from scheduler.core.values.model import Expression, PodInfo, PodSelector, PodTerm, Requirements
from tests.scheduler.state_builder import StateBuilder, requests

SITES = (
    "framework.account",
    "forest.count",
    "forest._counters._add",
    "forest._counters.settle",
    "shapes.count",
    "shapes.intern",
    "nodes.take_one",
    "nodes.match_counts.add_one",
    "units.stale",
    "pod_shapes.label_index.add",
    "pod_shapes.label_index.remove",
    "_touch_pod",
    "node_pods.vacate",
    "node_pods.put",
    "node_pods.take",
)
"""The functions that a change of a pod calls."""


class InjectedError(Exception):
    """An error that no code expects."""


def small_cluster() -> StateBuilder:
    """Create a tree with two gangs, a pod without a group, and anti-affinity by labels."""
    builder = StateBuilder()
    builder.nodes(3, cpu=16, rack_of=2)
    builder.composite("tree", 1)
    builder.gang("g", 2, parent="tree")
    builder.gang("h", 1, parent="tree")
    builder.pods("g", 2)
    builder.pod("g", node="n0")
    builder.pod("h", node="n0", priority=3)
    builder.pod(node="n1", requirements=apart("a"), labels={"app": "a"})
    builder.pod(labels={"app": "b"})
    return builder


def apart(app: str) -> Requirements:
    """Return anti-affinity to other pods of this app on the same node."""
    selector = PodSelector((Expression("app", "In", (app,)),), ("ns",))
    return Requirements(requests(1), required_anti_affinity=(PodTerm(selector, "rack"),))


@contextmanager
def broken(state: State, site: str, after: int) -> Iterator[None]:
    """Let this method raise at the call after that many calls."""
    *path, name = site.split(".")
    owner: Any = state
    for part in path:
        owner = getattr(owner, part)
    original: Callable[..., Any] = getattr(owner, name)
    left = [after]

    def faulty(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == -1:
            raise InjectedError(site)
        return original(*args, **kwargs)

    try:
        _patch(owner, name, faulty)
        yield
    finally:
        _patch(owner, name, original)


def _patch(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


def counted(state: State) -> dict[str, Any]:
    """Return all counters of pods."""
    nodes = state.nodes
    state.take_changes()  # frees entries that no pod uses
    state.units.refresh()
    return {
        "pods": {uid: (pod.info, pod.node) for uid, pod in sorted(state.pods.items())},
        "free": {
            (resource, name): int(nodes.free[index, row])
            for resource, index in nodes.resources.indices.items()
            for name, row in nodes.row_of.items()
        },
        "matching": sorted(
            sorted((nodes.name_of(row), count) for row, count in rows.items())
            for rows in nodes.match_counts._counts.values()
        ),
        "groups": {key: _counters(group) for key, group in sorted(state.forest.groups.items())},
        # The state is history-dependent: a group that was scheduled once may be disrupted.
        "states are counted": +Counter(state.forest.states)
        == Counter((g.key[0], g.state) for g in state.forest.groups.values() if g.state),
        "held": state.forest.held,
        "singles": sorted(state.singles),
        "shapes": sorted((s.requirements.requests, s.pods, s.waiting) for s in state.shapes),
        "on nodes": {name: sorted(pods) for name, pods in sorted(state.node_pods._pods.items())},
        "units": sorted(state.units.order()),
    }


def _counters(group: Group) -> dict[str, Any]:
    names = (
        "available", "running", "pending_total", "running_total", "quorate_children",
        "standing_children", "quorate", "standing", "foreign", "alive", "bound_pods", "settled",
        "assumed_total", "bound_children", "bound", "faulty", "held",
    )  # fmt: skip
    return {
        **{name: getattr(group, name) for name in names},
        "members": sorted(group.members),
        "pending": sorted(uid for pods in group.pending.values() for uid in pods),
        "priorities": dict(sorted(group.priorities.items())),
    }


def changes_of(info: PodInfo) -> st.SearchStrategy[PodInfo]:
    """Draw the pod after some event."""
    bigger = Requirements(requests=requests(3))
    return st.sampled_from(
        [
            replace(info, node="n2"),
            replace(info, node="n2", requirements=bigger),
            replace(info, requirements=bigger, labels={"app": "b"}),
            replace(info, terminating=True),
            replace(info, phase="Succeeded"),
            replace(info, priority=9),
            replace(info, labels={"app": "a"}),
        ]
    )


@given(st.data(), st.sampled_from(SITES), st.integers(0, 4), st.booleans())
def test_a_pod_whose_change_broke_off_is_discarded_without_a_trace(
    data: st.DataObject, site: str, after: int, known: bool
) -> None:
    builder = small_cluster()
    state = builder.state
    victim = data.draw(st.sampled_from(sorted(state.pods))) if known else "new"
    template = state.pods[victim].info if known else next(iter(state.pods.values())).info
    changed = data.draw(changes_of(replace(template, uid=victim, name=victim)))
    without = small_cluster().state
    without.remove_pod(victim)
    want = counted(without)

    try:
        with broken(state, site, after):
            state.set_pod(changed)
    except InjectedError:
        state.discard_pod(victim)
    else:
        state.remove_pod(victim)

    assert counted(state) == want


@given(st.data(), st.sampled_from(SITES), st.integers(0, 4))
def test_a_removal_that_broke_off_is_completed(data: st.DataObject, site: str, after: int) -> None:
    state, without = small_cluster().state, small_cluster().state
    victim = data.draw(st.sampled_from(sorted(state.pods)))
    without.remove_pod(victim)

    try:
        with broken(state, site, after):
            state.remove_pod(victim)
    except InjectedError:
        state.discard_pod(victim)

    assert counted(state) == counted(without)


@given(st.sampled_from(SITES), st.integers(0, 6))
def test_pods_are_reinstated_when_assuming_them_broke_off(site: str, after: int) -> None:
    state, before = small_cluster().state, counted(small_cluster().state)
    pods: list[Pod] = [pod for pod in state.pods.values() if pod.waiting]
    rows = [state.nodes.row_of["n2"]] * len(pods)

    try:
        with broken(state, site, after):
            state.assume(pods, rows)
    except InjectedError:
        state.reinstate(pods)
    else:
        for pod in pods:
            state.forget(pod.info.uid)

    assert counted(state) == before


def test_discarding_the_unknown_is_nothing() -> None:
    state = small_cluster().state
    before = counted(state)
    state.discard_pod("unknown")

    assert counted(state) == before
