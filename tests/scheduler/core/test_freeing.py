"""What no pod uses any more is freed: shapes, tallies, marks, labels, node classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.model import (
    POD_GROUP,
    Expression,
    HostPort,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    WeightedPodTerm,
)
from scheduler.core.nominations import Nomination
from scheduler.core.place import Placement, SearchBudget
from scheduler.core.pod_selectors import NO_MATCHES
from scheduler.core.state import State
from scheduler.queue import Queue
from scheduler.snapshot import Limits, restore, take
from tests.scheduler.world import World, requests


def of_job(number: int) -> PodSelector:
    return PodSelector((Expression("job", "In", (f"j{number}",)),), ("ns",))


def wants(number: int) -> Requirements:
    """Requirements that no other job has, with terms of every kind."""
    own = of_job(number)
    return Requirements(
        requests(1),
        ports=(HostPort("TCP", 80),),
        required_anti_affinity=(PodTerm(own, "host"),),
        spread=(Spread(own, "rack"),),
        claims=(("ns", f"claim{number}"),),
        preferred_affinity=(WeightedPodTerm(1, PodTerm(own, "rack")),),
        preferred_spread=(Spread(own, "zone"),),
    )


def job(world: World, number: int) -> None:
    """Two pods come, are placed, run, and are gone, and their group with them."""
    name = f"g{number}"
    world.gang(name, 2)
    labels = {"job": f"j{number}"}
    requirements = replace(wants(number), claims=())
    infos = [world.pod(name, requirements=requirements, labels=labels) for _ in range(2)]
    world.pod(None, requirements=wants(number), labels=labels, name=f"claims{number}")
    decision = world.place(name)
    assert isinstance(decision, Placement), decision
    world.run(decision)
    for pod in decision.pods:
        world.state.set_pod(replace(pod.info, node=pod.node, phase="Running"))
    world.state.take_changes()
    for info in infos:
        world.state.remove_pod(info.uid)
    world.state.remove_pod(f"uid-claims{number}")
    world.state.remove_group((POD_GROUP, "ns", name))
    world.state.take_changes()


def sizes(state: State) -> tuple[int, ...]:
    return (
        len(state.shapes),
        len(state.selectors),
        len(state.nodes.match_counts),
        len(state.nodes.resources),
        len(state.forest.groups),
        len(state.units._pods),
        len(state.units._dirty),
        len(state._label_index),
        max((shape.index for shape in state.shapes), default=0),
    )


def cluster() -> World:
    world = World()
    for index in range(4):
        labels = {"host": f"n{index}", "rack": f"r{index % 2}", "zone": "z"}
        world.node(f"n{index}", labels=labels)
    return world


def test_jobs_that_come_and_go_leave_nothing() -> None:
    world = cluster()
    job(world, 0)
    before = sizes(world.state)
    for number in range(1, 100):
        job(world, number)

    assert sizes(world.state) == before


def test_a_pod_that_stays_forgets_the_terms_of_those_that_went() -> None:
    world = cluster()
    stays = world.pod(node="n0", labels={"job": "j7"})
    world.state.take_changes()
    tyrant = world.pod(requirements=wants(7), labels={"job": "j7"})
    with_terms = world.single(stays).shape.matches
    world.state.remove_pod(tyrant.uid)
    world.state.take_changes()

    assert with_terms != NO_MATCHES
    assert world.single(stays).shape.matches == NO_MATCHES
    assert (len(world.state.shapes), len(world.state.selectors)) == (1, 0)


def test_a_term_that_comes_back_is_heeded_again() -> None:
    world = cluster()
    labels = {"job": "j7"}
    for _ in range(3):
        apart = (PodTerm(of_job(7), "rack"),)
        wants = Requirements(requests(1), required_anti_affinity=apart)
        tyrant = world.pod(node="n0", requirements=wants, labels=labels)
        info = world.pod(labels=labels)
        open_to = int((world.state.framework.slots(world.single(info).shape) > 0).sum())
        world.state.remove_pod(tyrant.uid)
        world.state.take_changes()
        after = int((world.state.framework.slots(world.single(info).shape) > 0).sum())
        world.state.remove_pod(info.uid)
        world.state.take_changes()

        assert (open_to, after) == (2, 4)


def test_whoever_was_refused_is_looked_at_again_when_its_shape_is_another() -> None:
    """The queue knows what waits by shape, and shapes change with the terms of others."""
    world = cluster()
    queue = Queue(world.state)
    world.gang("g", 99)
    for _ in range(99):
        world.pod("g", labels={"job": "j1"})
    queue.refresh(world.state.take_changes(), 0.0)
    key = queue.pop()
    assert key is not None
    decision = world.place("g")
    assert not isinstance(decision, Placement)
    queue.refuse(key, decision, 0.0)
    world.pod(node="n0", requirements=wants(1), labels={"job": "x"})
    queue.refresh(world.state.take_changes(), 1.0)

    assert queue.pop() == key


def test_a_shape_for_which_places_are_held_stays() -> None:
    world = cluster()
    info = world.pod(requirements=wants(1), labels={"job": "j1"})
    shape = world.single(info).shape
    key = (POD_GROUP, "ns", "g")
    world.state.nominations.set(Nomination(key, 0, ((shape, (("n0", 1),)),)))
    world.state.remove_pod(info.uid)
    world.state.take_changes()
    while_held = len(world.state.shapes)
    with world.state.nominations.respected((POD_GROUP, "ns", "other"), 0):
        taken = int(world.state.nodes.free[0, 0])
    world.state.end_nomination(key)
    world.state.take_changes()

    assert (while_held, len(world.state.shapes)) == (1, 0)
    assert taken == 109


def test_a_snapshot_after_churn_decides_the_same() -> None:
    world = cluster()
    for number in range(5):
        job(world, number)
    world.gang("g", 3)
    for number in (8, 9, 9):
        world.pod("g", requirements=replace(wants(number), ports=(), claims=()),
                  labels={"job": f"j{number}"})  # fmt: skip
    queue = Queue(world.state)
    queue.refresh(world.state.take_changes(), 0.0)
    limits = Limits.of(SearchBudget())
    snapshot = take(world.state, queue, limits)
    state, again = restore(snapshot)

    assert take(state, again, limits) == snapshot


def test_arrays_of_shapes_of_which_no_pod_waits_are_let_go() -> None:
    world = cluster()
    world.gang("g", 2)
    world.pods("g", 2)
    decision = world.place("g")
    shape = next(iter(world.state.shapes))
    computed = world.state.framework.slots(shape).nbytes
    cache = shape.cache
    world.run(decision)
    world.state.take_changes()

    assert computed == 32
    assert shape.cache is not cache
    assert all(getattr(shape.cache, name).key is None for name in shape.cache.__slots__)
    world.gang("h", 2)
    world.pods("h", 2)
    assert isinstance(world.place("h"), Placement)


@pytest.mark.parametrize("nodes", [3, 30])
def test_node_classes_of_nodes_that_are_gone_are_forgotten(nodes: int) -> None:
    world = World()
    chosen = Requirements(requests(1), selector=(("host", "keep"),))
    info = world.pod(requirements=chosen)
    world.node("keep", labels={"host": "keep"})
    seen = 0
    for number in range(20 * nodes):
        world.node(f"n{number}", labels={"host": f"n{number}"})
        if number >= nodes:
            world.state.remove_node(f"n{number - nodes}")
        if number % 7 == 0:
            assert int(world.state.framework.slots(world.single(info).shape).sum()) == 4
        seen = max(seen, len(world.state.nodes.classes.all))

    assert seen <= 64 + 2 * (nodes + 2) + 1
