"""Freed capacity of pods with volumes or peers wakes exactly the roots that may gain."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduler.core.framework.events import Event
from scheduler.core.groups.forest import Pod
from scheduler.core.pods.shapes import Shape
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.values.model import GroupKey, Requirements
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.core.framework.cluster import (
    HOST,
    WEB,
    ZONE,
    attaching,
    bound,
    claim,
    cluster_of,
    disk,
    on,
    required_affinity,
    required_anti_affinity,
    required_spread,
    using,
)
from tests.scheduler.queue.test_room_for_some import looks
from tests.scheduler.state_builder import StateBuilder, requests
from tools.testing.effort import count, seeds

__all__ = ["looks"]

CSI = "csi.example"


class Course:
    """A queue whose roots are decided as by the cycle: placed if they fit, else unschedulable."""

    def __init__(self, builder: StateBuilder) -> None:
        self.builder = builder
        self.state = builder.state
        self.queue = Queue(self.state)
        self.decided: list[GroupKey] = []

    def settle(self) -> None:
        """Decide until nothing is ready; no time passes."""
        self.decided.clear()
        while True:
            self.queue.refresh(self.state.take_changes(), 0)
            for _ in self.state.catch_up():
                pass
            while (key := self.queue.pop()) is not None:
                self._decide(key)
            if not (self.state.changed or self.queue):
                return

    def _decide(self, key: GroupKey) -> None:
        self.decided.append(key)
        decision = place(self.state, self.state.singles[key], SearchBudget())
        if isinstance(decision, Refusal):
            self.queue.refuse(key, decision, 0)
        else:
            self.state.assume(decision.pods, decision.rows, decision.volumes)

    def waiting(self) -> list[Pod]:
        return list(self.state.singles.values())


def of_one_pod_and_of_few() -> tuple[Course, list[str]]:
    """Create two nodes at their limit of two attached volumes; 20 pods wait to attach one.

    20 others wait on b for a claim each that one pod may use, and that a pod on a uses; returns
    these.
    """
    builder = cluster_of("a b", cpu=200)
    for node in "ab":
        builder.state.volumes.set_limits(node, {CSI: 2})
        for number in range(2):
            bound(builder, f"there-{node}{number}", driver=CSI)
            builder.pod(
                node=node, name=f"{node}{number}", requirements=using(f"there-{node}{number}")
            )
    for number in range(20):
        bound(builder, f"more{number}", driver=CSI)
        bound(builder, f"once{number}", one_pod=True)
        builder.pod(node="a", name=f"user{number}", requirements=using(f"once{number}"))
        builder.pod(name=f"attach{number}", requirements=using(f"more{number}"))
        wanted = replace(using(f"once{number}"), selector=((HOST, "b"),))
        builder.pod(name=f"once{number}", requirements=wanted)
    course = Course(builder)
    course.settle()
    assert len(course.waiting()) == 40
    return course, [f"user{number}" for number in range(20)]


def test_a_claim_for_one_pod_that_is_free_is_room_for_its_users_alone(looks: list[Shape]) -> None:
    course, users = of_one_pod_and_of_few()
    for number, user in enumerate(users):
        looks.clear()
        course.state.remove_pod(f"uid-{user}")
        course.settle()
        assert course.decided == [("Pod", "ns", f"once{number}")]
        assert len(looks) == 1


def test_a_volume_that_is_detached_is_room_on_its_node_alone(looks: list[Shape]) -> None:
    course, _ = of_one_pod_and_of_few()
    looks.clear()
    course.state.remove_pod("uid-a0")
    course.settle()
    assert len(set(looks)) == 20  # none of those whose claims are in use
    assert len(course.waiting()) == 39
    placed = [pod for pod in course.state.pods.values() if pod.info.name.startswith("attach")]
    assert [pod.node for pod in placed if not pod.waiting] == ["a"]


def test_a_pod_that_kept_others_away_makes_room_for_these_alone(looks: list[Shape]) -> None:
    builder = cluster_of("a b", cpu=400)
    for number, name in enumerate("ab"):
        node = builder.state.nodes.infos[number]
        assert node is not None
        builder.state.set_node(replace(node, labels={HOST: name, ZONE: "x"}))
    builder.pod(node="a", cpu=399)
    builder.pod(node="a", name="web", labels=WEB)
    apart = required_anti_affinity("web", key=ZONE)
    builder.pod(name="apart", requirements=replace(apart, selector=((HOST, "b"),)))
    for number in range(100):  # large ones that may use only a
        wants = Requirements(requests(2 + number), selector=((HOST, "a"),))
        builder.pod(requirements=wants)
    course = Course(builder)
    course.settle()
    assert len(course.waiting()) == 101
    looks.clear()

    course.state.remove_pod("uid-web")
    course.settle()

    assert course.decided == [("Pod", "ns", "apart")]
    assert len(looks) == 1


def test_a_node_that_can_attach_no_more_has_room_for_what_is_attached_there() -> None:
    builder = cluster_of("a", cpu=3)
    builder.state.volumes.set_limits("a", {CSI: 2})
    for name in ("one", "two"):
        bound(builder, name, driver=CSI)
        builder.pod(node="a", requirements=using(name))
    builder.pod(node="a", name="plain")
    builder.pod(name="shares", requirements=using("one"))
    course = Course(builder)
    course.settle()
    assert [pod.info.name for pod in course.waiting()] == ["shares"]

    course.state.remove_pod("uid-plain")
    course.settle()

    assert course.waiting() == []


def test_a_volume_that_was_assumed_is_room_on_other_nodes() -> None:
    builder = cluster_of("a b")
    disk(builder, "only")
    for name in ("data", "more"):
        claim(builder, name)
    builder.pod(name="first", requirements=replace(using("data"), selector=((HOST, "a"),)))
    builder.pod(name="second", requirements=replace(using("more"), selector=((HOST, "b"),)))
    course = Course(builder)
    course.settle()
    assert [pod.info.name for pod in course.waiting()] == ["second"]

    course.state.remove_pod("uid-first")
    course.settle()

    assert course.waiting() == []


def random_course(rng: random.Random) -> Course:
    builder = cluster_of("n0 n1 n2", cpu=rng.choice([1, 2, 12]))
    for number, zone in enumerate("xyy"):
        node = builder.state.nodes.infos[number]
        assert node is not None
        labels = {HOST: f"n{number}", ZONE: zone}
        builder.state.set_node(replace(node, labels=labels))
        if rng.random() < 0.7:
            builder.state.volumes.set_limits(f"n{number}", {CSI: rng.randint(0, 1)})
    for number in range(8):
        kind = rng.choice(["plain", CSI, CSI, CSI, "zone", "node", "one", "one", "unbound"])
        name = f"pvc{number}"
        if kind == "unbound":
            disk(builder, f"disk{number}", rng.choice(["", "n0", "n1"]))
            claim(builder, name)
            continue
        volume: dict[str, dict[str, Any]] = {
            CSI: {"driver": CSI},
            "zone": {"labels": {ZONE: "x"}},
            "node": {"affinity": on("n1")},
        }
        bound(builder, name, one_pod=kind == "one", **volume.get(kind, {}))
    return Course(builder)


def wanted(rng: random.Random) -> Requirements:
    names = rng.sample([f"pvc{number}" for number in range(8)], rng.choice([0, 1, 1, 1, 2]))
    if rng.random() < 0.1:
        return attaching(CSI, f"handle{rng.randint(0, 3)}")
    return replace(using(*names), requests=requests(rng.choice([1, 1, 2])))


def come(builder: StateBuilder, rng: random.Random) -> None:
    """Create a pod with volumes, with terms of other pods about it, or with both."""
    asked, labels = wanted(rng), rng.choice([{}, WEB])
    key = rng.choice([HOST, ZONE])
    together, apart = required_affinity("web", key=key), required_anti_affinity("web", key=key)
    about_others: list[dict[str, Any]] = [
        {},
        {"required_affinity": together.required_affinity},
        {"required_anti_affinity": apart.required_anti_affinity},
        {"spread": required_spread(1, key=key).spread},
    ]
    builder.pod(requirements=replace(asked, **rng.choice(about_others)), labels=labels)


def change(course: Course, rng: random.Random) -> str:
    """Apply one change of the cluster, and return its description."""
    builder, state = course.builder, course.state
    what = rng.choice(["come", "come", "come", "go", "go", "give up", "limit", "volume", "volume"])
    running = sorted(uid for uid, pod in state.pods.items() if not pod.waiting)
    waits = sorted(state.pods.keys() - set(running))
    if what == "come" and len(waits) < 12:
        come(builder, rng)
    elif what == "go" and running:
        state.remove_pod(rng.choice(running))
    elif what == "give up" and waits:
        state.remove_pod(rng.choice(waits))
    elif what == "limit":
        state.volumes.set_limits(f"n{rng.randint(0, 2)}", {CSI: rng.randint(0, 2)})
        state.happened(Event.CSI_NODE)
    elif what == "volume":
        known = rng.choice(list(state.volumes.volumes.values()))
        state.volumes.set_volume(replace(known, labels=rng.choice([{}, {ZONE: "x"}, {ZONE: "y"}])))
        state.happened(Event.VOLUME)
    return what


def test_nobody_waits_who_has_room() -> None:
    """After each event all fitting roots are awake; no time passes, so nothing else wakes them."""
    placed = Counter[str]()
    courses = count(30, 150)
    for seed in range(courses):
        rng = random.Random(seed)
        course = random_course(rng)
        for _ in range(40):
            what = change(course, rng)
            course.settle()
            waiting = {pod.key for pod in course.waiting()}
            placed[what] += len({*course.decided} - waiting)
            for pod in course.waiting():
                found = place(course.state, pod, SearchBudget())
                assert not isinstance(found, Placement), (seed, what, pod.info.name)
    assert placed["go"] > 0.7 * courses
    assert placed["limit"] > 0
    assert placed["volume"] > 0, placed


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_slots_of_shapes_that_share_them_are_their_own(seed: int) -> None:
    rng = random.Random(seed)
    course = random_course(rng)
    framework, nodes = course.state.framework, course.state.nodes
    for _ in range(30):
        change(course, rng)
        course.settle()
        waiting = [pod.shape for pod in course.waiting()]
        more = [course.builder.single(course.builder.pod(requirements=wanted(rng))).shape]
        for shape in [*waiting, *more]:
            assert (framework.slots(shape) == framework._own_slots(shape)).all()
        with nodes.trial():
            for shape in [*waiting, *more]:
                rows = np.flatnonzero(framework.slots(shape))[:1]
                framework.reserve(shape, rows, np.ones(len(rows), np.int64))
                for other in [*waiting, *more]:
                    own = framework._own_slots(other)
                    assert (framework.slots(other) == own).all()
