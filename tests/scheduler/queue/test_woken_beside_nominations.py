"""Capacity is not checked for roots that lack a resource because of nominations."""

from collections import Counter

import pytest

from scheduler.core.decide import decide
from scheduler.core.framework.framework import Framework
from scheduler.core.groups.forest import Pod
from scheduler.core.search.place import Refusal, SearchBudget
from scheduler.core.values.model import ClaimInfo, PodSelector, PodTerm, Requirements, VolumeInfo
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.state_builder import StateBuilder, requests

COUNT = 40


def with_volume(builder: StateBuilder, name: str, *, priority: int = 5) -> Pod:
    """Add a pod with its own volume, and so with its own shape."""
    builder.state.volumes.set_claim(ClaimInfo(("ns", name), f"pv-{name}", "now"))
    builder.state.volumes.set_volume(VolumeInfo(f"pv-{name}", driver="csi.example"))
    wants = Requirements(requests(3), claims=(("ns", name),))
    return builder.single(builder.pod(name=name, requirements=wants, priority=priority))


class Crowd:
    """Full nodes; for each an unschedulable root that has nominated it."""

    def __init__(self) -> None:
        self.builder = StateBuilder()
        self.builder.nodes(COUNT, cpu=4)
        for number in range(COUNT):
            self.builder.pod(name=f"runs{number}", node=f"n{number}", cpu=3)
        self.state = self.builder.state
        self.queue = Queue(self.state)
        self.roots = [with_volume(self.builder, f"p{number}") for number in range(COUNT)]
        for number, root in enumerate(self.roots):
            self.refuse(root)
            self.builder.nominate(root, f"n{number}")
        self.state.take_changes()

    def refuse(self, root: Pod) -> None:
        refusal = decide(self.state, root, SearchBudget())
        assert isinstance(refusal, Refusal)
        self.queue.refuse(root.key, refusal, 0.0)

    def free(self, *numbers: int) -> list[str]:
        """Delete these nodes' pods; return the names of the roots that are ready then."""
        for number in numbers:
            self.state.remove_pod(f"uid-runs{number}")
        self.queue.refresh(self.state.take_changes(), 1.0)
        names = []
        while (key := self.queue.pop()) is not None:
            names.append(key[2])
        return names


def test_only_the_roots_that_nominated_the_nodes_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd, calls = Crowd(), Counter[str]()
    slots_in = Framework.slots_in

    def counted(self: Framework, *arguments: object) -> object:
        calls["slots_in"] += 1
        return slots_in(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Framework, "slots_in", counted)
    assert crowd.free(7, 21) == ["p7", "p21"]
    assert calls["slots_in"] <= 8


def test_one_of_a_higher_priority_is_looked_at_as_well() -> None:
    crowd = Crowd()
    crowd.refuse(with_volume(crowd.builder, "high", priority=6))
    crowd.refuse(with_volume(crowd.builder, "low", priority=4))
    crowd.state.take_changes()
    assert crowd.free(7) == ["high", "p7"]


def test_room_that_nobody_nominated_wakes_all() -> None:
    crowd = Crowd()
    crowd.state.nominations.drop(crowd.roots[7].key)
    assert len(crowd.free(7)) == COUNT


def test_a_pod_that_comes_or_goes_with_a_volume_makes_no_room_elsewhere() -> None:
    crowd = Crowd()
    crowd.free(7)
    crowd.state.assume([crowd.roots[7]], [7])
    assert crowd.state.take_changes().rows == set()
    crowd.state.forget(crowd.roots[7].info.uid)
    assert crowd.state.take_changes().rows == {7}


def test_a_pod_that_comes_may_be_a_wanted_peer_wherever_it_is() -> None:
    builder = StateBuilder()
    builder.nodes(3)
    term = PodTerm(PodSelector((), ("ns",)), "host")
    wants = Requirements(requests(1), required_affinity=(term,))
    waits = builder.single(builder.pod(name="near", requirements=wants))
    peer = builder.single(builder.pod(name="peer"))
    builder.state.take_changes()
    builder.state.assume([peer], [0])
    assert not builder.state.take_changes().match_ids.isdisjoint(waits.shape.filter_match_ids)
