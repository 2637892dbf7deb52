"""Unused entries are freed: shapes, match counts, matches, labels, node classes."""

from dataclasses import replace

import numpy as np
import pytest

from kube.client.quantity import MAX_INT64
from scheduler.core.pods.pod_selectors import NO_MATCHES
from scheduler.core.pods.shapes import Cached
from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.state.nominations import Nomination
from scheduler.core.state.state import State
from scheduler.core.values.model import (
    POD_GROUP,
    Expression,
    HostPort,
    NodeTerm,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    Taint,
    Toleration,
    WeightedPodTerm,
)
from scheduler.queue.scheduling_queue import Queue
from scheduler.snapshot.snapshot import Limits, restore, take
from tests.scheduler.state_builder import StateBuilder, requests


def of_job(number: int) -> PodSelector:
    return PodSelector((Expression("job", "In", (f"j{number}",)),), ("ns",))


def wants(number: int) -> Requirements:
    """Return requirements that no other job has, with terms of every kind."""
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


def job(builder: StateBuilder, number: int) -> None:
    """Let two pods be created, placed, run and deleted, with their group."""
    name = f"g{number}"
    builder.gang(name, 2)
    labels = {"job": f"j{number}"}
    requirements = replace(wants(number), claims=())
    infos = [builder.pod(name, requirements=requirements, labels=labels) for _ in range(2)]
    builder.pod(None, requirements=wants(number), labels=labels, name=f"claims{number}")
    decision = builder.place(name)
    assert isinstance(decision, Placement), decision
    builder.run(decision)
    for pod in decision.pods:
        builder.state.set_pod(replace(pod.info, node=pod.node, phase="Running"))
    builder.state.take_changes()
    for info in infos:
        builder.state.remove_pod(info.uid)
    builder.state.remove_pod(f"uid-claims{number}")
    builder.state.remove_group((POD_GROUP, "ns", name))
    builder.state.take_changes()


def sizes(state: State) -> tuple[int, ...]:
    return (
        len(state.shapes),
        len(state.selectors),
        len(state.nodes.match_counts),
        len(state.nodes.resources),
        len(state.nodes.exclusive_uses),
        len(state.nodes.labels),
        len(state.nodes.classes.all),
        len(state.topologies),
        len(state.forest.groups),
        len(state.units._pods),
        len(state.units._dirty),
        len(state.units._shapes),
        len(state.pod_shapes.label_index),
        len(state.pod_shapes.crowded),
        len(state.node_pods),
        len(state.singles),
        len(state.selectors.namespaces),
        len(list(state.nominations)),
        len(state.shapes) - state.framework.cached,
        max((shape.index for shape in state.shapes), default=0),
    )


def cluster() -> StateBuilder:
    builder = StateBuilder()
    for index in range(4):
        labels = {"host": f"n{index}", "rack": f"r{index % 2}", "zone": "z"}
        builder.node(f"n{index}", labels=labels)
    return builder


def test_jobs_that_come_and_go_leave_nothing() -> None:
    builder = cluster()
    job(builder, 0)
    before = sizes(builder.state)
    for number in range(1, 30):
        job(builder, number)

    assert sizes(builder.state) == before


def test_a_pod_that_stays_forgets_the_terms_of_those_that_went() -> None:
    builder = cluster()
    stays = builder.pod(node="n0", labels={"job": "j7"})
    builder.state.take_changes()
    tyrant = builder.pod(requirements=wants(7), labels={"job": "j7"})
    with_terms = builder.single(stays).shape.matches
    builder.state.remove_pod(tyrant.uid)
    builder.state.take_changes()

    assert with_terms != NO_MATCHES
    assert builder.single(stays).shape.matches == NO_MATCHES
    assert (len(builder.state.shapes), len(builder.state.selectors)) == (1, 0)


def test_a_term_that_comes_back_is_heeded_again() -> None:
    builder = cluster()
    labels = {"job": "j7"}
    for _ in range(3):
        apart = (PodTerm(of_job(7), "rack"),)
        wants = Requirements(requests(1), required_anti_affinity=apart)
        tyrant = builder.pod(node="n0", requirements=wants, labels=labels)
        info = builder.pod(labels=labels)
        open_to = int((builder.state.framework.slots(builder.single(info).shape) > 0).sum())
        builder.state.remove_pod(tyrant.uid)
        builder.state.take_changes()
        after = int((builder.state.framework.slots(builder.single(info).shape) > 0).sum())
        builder.state.remove_pod(info.uid)
        builder.state.take_changes()

        assert (open_to, after) == (2, 4)


def test_whoever_was_refused_is_looked_at_again_when_its_shape_is_another() -> None:
    """The queue indexes pending pods by shape, and shapes change with others' terms."""
    builder = cluster()
    queue = Queue(builder.state)
    builder.gang("g", 99)
    for _ in range(99):
        builder.pod("g", labels={"job": "j1"})
    queue.refresh(builder.state.take_changes(), 0.0)
    key = queue.pop()
    assert key is not None
    decision = builder.place("g")
    assert not isinstance(decision, Placement)
    queue.refuse(key, decision, 0.0)
    builder.pod(node="n0", requirements=wants(1), labels={"job": "x"})
    queue.refresh(builder.state.take_changes(), 1.0)

    assert queue.pop() == key


def test_a_shape_for_which_places_are_held_stays() -> None:
    builder = cluster()
    info = builder.pod(requirements=wants(1), labels={"job": "j1"})
    shape = builder.single(info).shape
    key = (POD_GROUP, "ns", "g")
    builder.state.nominations.set(Nomination(key, 0, ((shape, (("n0", 1),)),)))
    builder.state.remove_pod(info.uid)
    builder.state.take_changes()
    while_held = len(builder.state.shapes)
    with builder.state.nominations.respected((POD_GROUP, "ns", "other"), 0):
        taken = int(builder.state.nodes.free[0, 0])
    builder.state.end_nomination(key)
    builder.state.take_changes()

    assert (while_held, len(builder.state.shapes)) == (1, 0)
    assert taken == 109


def test_a_snapshot_after_churn_decides_the_same() -> None:
    builder = cluster()
    for number in range(5):
        job(builder, number)
    builder.gang("g", 3)
    for number in (8, 9, 9):
        builder.pod("g", requirements=replace(wants(number), ports=(), claims=()),
                  labels={"job": f"j{number}"})  # fmt: skip
    queue = Queue(builder.state)
    queue.refresh(builder.state.take_changes(), 0.0)
    limits = Limits.of(SearchBudget())
    snapshot = take(builder.state, queue, limits)
    state, again = restore(snapshot)

    assert take(state, again, limits) == snapshot


def test_arrays_of_shapes_of_which_no_pod_waits_are_let_go() -> None:
    builder = cluster()
    builder.gang("g", 2)
    builder.pods("g", 2)
    decision = builder.place("g")
    shape = next(iter(builder.state.shapes))
    computed = builder.state.framework.slots(shape).nbytes
    cache = shape.cache
    builder.run(decision)
    builder.state.take_changes()

    assert computed == 32
    assert shape.cache is not cache
    kept = (getattr(shape.cache, name) for name in shape.cache.__slots__)
    assert all(each.key is None for each in kept if isinstance(each, Cached))
    builder.gang("h", 2)
    builder.pods("h", 2)
    assert isinstance(builder.place("h"), Placement)


def strange(number: int) -> Requirements:
    """Return requirements that no other pod has, with unknown names, of every kind."""
    key, own = f"example.com/k{number}", of_job(number)
    term = PodTerm(own, key)
    lacking = PodSelector((Expression(key, "DoesNotExist", ()),), (f"ns{number}",))
    return Requirements(
        (("cpu", number + 1), (f"example.com/r{number}", MAX_INT64), (key, 1)),
        selector=((key, "x"),),
        affinity=(NodeTerm((Expression(key, "Gt", (f"{number}",)),)),),
        tolerations=(Toleration(key, "Equal", "x", "NoExecute"),),
        ports=tuple(HostPort("TCP", 1000 + number + more) for more in range(3)),
        required_affinity=(term,),
        required_anti_affinity=(term, PodTerm(lacking, "host")),
        spread=(Spread(own, key),),
        claims=(("ns", f"claim{number}"),),
        preferred_node_affinity=((1, NodeTerm((Expression(key, "Exists", ()),))),),
        preferred_affinity=(WeightedPodTerm(1, term),),
        preferred_spread=(Spread(own, key),),
    )


def flood(builder: StateBuilder, first: int, count: int) -> None:
    """Let strange pods be pending, run and be deleted, with their groups and namespaces."""
    state = builder.state
    infos = []
    for number in range(first, first + count):
        group = f"g{number}" if number % 3 == 0 else None
        if group is not None and number % 2:
            builder.gang(group, 1, key=f"example.com/k{number}", rack=True, parent=f"c{number}")
        state.set_namespace(f"ns{number}", {"team": f"t{number}"})
        info = builder.pod(
            group,
            requirements=strange(number),
            labels={"job": f"j{number}", f"label{number}": f"v{number}"},
            node=("", "n0", "absent")[number % 3] if group is None else "",
            ours=number % 4 > 0,
            namespace=("ns", f"ns{number}")[number % 5 == 0] if group is None else "ns",
        )
        infos.append(info)
        pod = builder.single(info)
        if pod.waiting and group is None:
            builder.place_single(info)
            places = ((pod.shape, (("n1", 1), ("absent", 1))),)
            state.nominations.set(Nomination(pod.key, 0, places))
    state.units.refresh()
    state.take_changes()
    for number, info in zip(range(first, first + count), infos, strict=True):
        state.end_nomination(("Pod", info.namespace, info.name))
        state.set_pod(replace(info, labels={f"other{number}": "x"}))
        state.remove_pod(info.uid)
        state.remove_namespace(f"ns{number}")
        state.remove_group((POD_GROUP, "ns", f"g{number}"))
    state.take_changes()
    state.units.refresh()


def test_hundreds_of_strange_pods_leave_nothing() -> None:
    builder = cluster()
    flood(builder, 0, 60)
    before = sizes(builder.state), builder.state.nodes.free.shape
    flood(builder, 60, 300)
    after = sizes(builder.state), builder.state.nodes.free.shape

    slots = 9  # slots of the table of units; vacant ones are reused
    assert before[0][:slots] + before[0][slots + 1 :] == after[0][:slots] + after[0][slots + 1 :]
    assert before[1] == after[1]


def test_answers_are_cached_for_so_many_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.core.framework.framework._MOST_CACHED", 40)
    builder = cluster()
    infos = [builder.pod(cpu=1 + number % 3, priority=number) for number in range(3)]
    pods = [
        builder.pod(requirements=Requirements((("cpu", 1000 + number),))) for number in range(50)
    ]
    for info in (*infos, *pods):
        assert isinstance(builder.place_single(info), Placement)
    kept = builder.state.framework.cached
    shapes = {builder.single(info).shape for info in (*infos, *pods)}
    computed = [shape for shape in shapes if shape.cache.slots.key is not None]

    assert (kept, len(computed)) == (10, 10)


def test_few_rows_are_looked_at_without_caching_all() -> None:
    builder = cluster()
    shape = builder.single(builder.pod()).shape

    assert builder.state.framework.slots_in(shape, np.array([1, 3])).tolist() == [4, 4]
    assert builder.state.framework.cached == 0


def test_a_shape_forgets_the_reasons_of_taints_that_are_gone() -> None:
    builder = cluster()
    shape = builder.single(builder.pod()).shape
    for number in range(3000):
        builder.node("n0", labels={"host": "n0"}, taints=(Taint("k", f"{number}", "NoSchedule"),))
        codes = builder.state.framework.node_codes(shape)

    assert len(shape.reasons) < 1200
    assert shape.reasons[int(codes[0])] == "node(s) had untolerated taint {k: 2999}"


@pytest.mark.parametrize("nodes", [3, 30])
def test_node_classes_of_nodes_that_are_gone_are_forgotten(nodes: int) -> None:
    builder = StateBuilder()
    chosen = Requirements(requests(1), selector=(("host", "keep"),))
    info = builder.pod(requirements=chosen)
    builder.node("keep", labels={"host": "keep"})
    seen = 0
    for number in range(20 * nodes):
        builder.node(f"n{number}", labels={"host": f"n{number}"})
        if number >= nodes:
            builder.state.remove_node(f"n{number - nodes}")
        if number % 7 == 0:
            assert int(builder.state.framework.slots(builder.single(info).shape).sum()) == 4
        seen = max(seen, len(builder.state.nodes.classes.all))

    assert seen <= 64 + 2 * (nodes + 2) + 1
