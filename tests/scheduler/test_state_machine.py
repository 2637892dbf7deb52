"""Invariants during changes of nodes, pods and groups, and failures of bindings."""

from collections import Counter
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.values.model import (
    POD_GROUP,
    Disk,
    Expression,
    GroupKey,
    HostPort,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    WeightedPodTerm,
)
from scheduler.queue.scheduling_queue import Queue
from scheduler.snapshot.snapshot import Limits, decode, encode, restore, take
from tests.scheduler.state_builder import StateBuilder, requests

STEPS = 40

NAMES = ("n0", "n1", "n2", "n3", "n4")
LEAVES = ("g0", "g1", "g2", "g3")
TREES = ("t0", "t1")

_WEB = PodSelector((Expression("app", "In", ("web",)),), ("ns",))
_KINDS = {
    "plain": {},
    "ssd": {"selector": (("disk", "ssd"),)},
    "port": {"ports": (HostPort("TCP", 80),)},
    "writer": {"disks": (Disk("iscsi", "x"),)},
    "reader": {"disks": (Disk("iscsi", "x", shared=True),)},
    "required_affinity": {"required_affinity": (PodTerm(_WEB, "rack"),)},
    "required_anti_affinity": {"required_anti_affinity": (PodTerm(_WEB, "rack"),)},
    "spread": {"spread": (Spread(_WEB, "rack"),)},
    "twice": {"spread": (Spread(_WEB, "rack"), Spread(_WEB, "disk", 2))},
    "preferred_affinity": {
        "preferred_affinity": (
            WeightedPodTerm(3, PodTerm(_WEB, "rack")),
            WeightedPodTerm(-5, PodTerm(_WEB, "disk")),
        )
    },
    "preferred_spread": {"preferred_spread": (Spread(_WEB, "rack"),)},
}

names, leaves, trees = st.sampled_from(NAMES), st.sampled_from(LEAVES), st.sampled_from(TREES)


class Cluster(RuleBasedStateMachine):
    """Events in any order; `settle` decides everything that is ready, as the scheduler does."""

    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.builder = StateBuilder()
        self.queue = Queue(self.builder.state)
        self.now = 0.0
        self.disrupted: set[str] = set()
        self.settled = False

    @initialize(cpus=st.lists(st.integers(2, 6), min_size=3, max_size=3))
    def nodes(self, cpus: list[int]) -> None:
        for index, cpu in enumerate(cpus):
            self.builder.node(f"n{index}", cpu, labels={"rack": f"r{index % 2}", "disk": "ssd"})

    @rule(name=names, cpu=st.integers(1, 6), rack=st.sampled_from(("", "r0", "r1")),
          ssd=st.booleans())  # fmt: skip
    def node_comes(self, name: str, cpu: int, rack: str, ssd: bool) -> None:
        if name in self.builder.state.nodes.row_of:
            return
        labels = ({"rack": rack} if rack else {}) | ({"disk": "ssd"} if ssd else {})
        self.builder.node(name, cpu, labels=labels)
        self.settled = False

    @rule(name=names)
    def node_goes(self, name: str) -> None:
        self.builder.state.remove_node(name)
        for pod in list(self.builder.state.pods.values()):
            if pod.node == name:
                self._disrupt(pod)
                self.builder.state.remove_pod(pod.info.uid)
        self.settled = False

    @rule(name=leaves, minimum=st.integers(1, 4), tree=st.sampled_from((None, *TREES)),
          rack=st.booleans())  # fmt: skip
    def group_comes_or_changes(self, name: str, minimum: int, tree: str | None, rack: bool) -> None:
        self.builder.gang(name, minimum, parent=tree, rack=rack)
        # Running pods may be in another rack, or too few for another minimum.
        self.disrupted.add(name)
        if not self._members(name):
            self.disrupted.discard(name)
        self.settled = False

    @rule(
        name=leaves,
        size=st.integers(1, 4),
        tree=st.sampled_from((None, *TREES)),
        kind=st.sampled_from(sorted(_KINDS)),
        web=st.booleans(),
    )
    def job_comes(self, name: str, size: int, tree: str | None, kind: str, web: bool) -> None:
        """Create a gang with all its pods, in the existing tree, decided at once."""
        if name in self.disrupted or self._members(name):
            return
        self.builder.gang(name, size, parent=tree)
        if tree is not None:
            self.builder.composite(tree, 1)
        wants = Requirements(requests(1), **_KINDS[kind])  # type: ignore[arg-type]
        for _ in range(size + 1):
            self.builder.pod(name, requirements=wants, labels={"app": "web"} if web else {})
        self.settle()

    @rule(name=leaves)
    def job_goes(self, name: str) -> None:
        for pod in self._members(name):
            self.builder.state.remove_pod(pod.info.uid)
        self.builder.state.remove_group((POD_GROUP, "ns", name))
        self.disrupted.discard(name)
        self.settle()

    @rule(name=trees, minimum=st.integers(1, 3))
    def tree_comes_or_changes(self, name: str, minimum: int) -> None:
        self.builder.composite(name, minimum)
        self.settled = False

    @rule(name=leaves)
    def group_goes(self, name: str) -> None:
        self.builder.state.remove_group((POD_GROUP, "ns", name))
        self.disrupted.add(name)
        self.settled = False

    @rule(group=st.sampled_from((None, *LEAVES)), cpu=st.integers(1, 3),
          kind=st.sampled_from(sorted(_KINDS)), web=st.booleans(), gated=st.booleans())  # fmt: skip
    def pods_come(self, group: str | None, cpu: int, kind: str, web: bool, gated: bool) -> None:
        wants = Requirements(requests(cpu), **_KINDS[kind])  # type: ignore[arg-type]
        for _ in range(2):
            labels = {"app": "web"} if web else {}
            self.builder.pod(group, requirements=wants, labels=labels, gated=gated)
        self.settled = False

    @rule(at=st.integers(0, 30), phase=st.sampled_from(("Succeeded", "Failed", "")))
    def pod_ends_or_goes(self, at: int, phase: str) -> None:
        pods = list(self.builder.state.pods.values())
        if not pods:
            return
        pod = pods[at % len(pods)]
        if phase and pod.info.node:
            self.builder.state.set_pod(replace(pod.info, phase=phase))
        else:
            self.builder.state.remove_pod(pod.info.uid)
        self._disrupt(pod)
        self.settled = False

    @rule(at=st.integers(0, 30))
    def binding_fails(self, at: int) -> None:
        assumed = [pod for pod in self.builder.state.pods.values() if pod.assumed]
        if assumed:
            pod = assumed[at % len(assumed)]
            self._disrupt(pod)
            self.builder.state.forget(pod.info.uid)
            self.settled = False

    @rule()
    def bindings_are_heard_of(self) -> None:
        for pod in list(self.builder.state.pods.values()):
            if pod.assumed:
                self.builder.state.set_pod(replace(pod.info, node=pod.node, phase="Running"))

    @rule()
    def settle(self) -> None:
        state, queue = self.builder.state, self.queue
        for _ in range(100):
            queue.refresh(state.take_changes(), self.now)
            key = queue.pop()
            if key is None:
                self.settled = True
                return
            self._decide(key)
        raise AssertionError("it goes round in circles")

    @rule()
    def a_snapshot_put_back_is_the_same(self) -> None:
        state, limits = self.builder.state, Limits.of(SearchBudget())
        self.queue.refresh(state.take_changes(), self.now)
        data = encode(take(state, self.queue, limits))
        again = restore(decode(data, "the machine's"))
        assert encode(take(*again, limits)) == data

    def _decide(self, key: GroupKey) -> None:
        state = self.builder.state
        entity = self.queue.entity(key)
        assert entity is not None
        free = state.nodes.free.copy()
        decision, again = place(state, entity, SearchBudget()), place(state, entity, SearchBudget())
        assert _answer(decision) == _answer(again)
        assert (state.nodes.free == free).all()
        if isinstance(decision, Refusal):
            self.queue.refuse(key, decision, self.now)
            return
        state.assume(decision.pods, decision.rows)
        self.queue.review(key)
        self._check(entity, decision)

    def _check(self, entity: Group | Pod, decision: Placement) -> None:
        """Check that the last decision follows all rules."""
        nodes = self.builder.state.nodes
        assert (nodes.free[:, list(decision.rows)] >= 0).all()
        for pod in decision.pods:
            assert self.builder.state.framework.permitted(pod.shape)[pod.row]
            self._check_company(pod)
        if isinstance(entity, Group):
            assert entity.standing
            for leaf in entity.leaves():
                assert leaf.standing or not any(pod.group is leaf for pod in decision.pods)
                self._check_rack(leaf, decision)

    def _check_company(self, pod: Pod) -> None:
        """Check that no pod shares a rack with one that either of them excludes."""
        rack = self._rack(pod)
        for other in self.builder.state.pods.values():
            if other is pod or other.row < 0 or not rack or self._rack(other) != rack:
                continue
            assert not _keeps_away(pod.info, other.info)
            assert not _keeps_away(other.info, pod.info)
        if pod.info.requirements.required_affinity:
            assert rack
            assert any(
                other.info.labels.get("app") == "web" and self._rack(other) == rack
                for other in self.builder.state.pods.values()
                if other.row >= 0 and (other is not pod or pod.info.labels.get("app") == "web")
            )

    def _check_rack(self, leaf: Group, decision: Placement) -> None:
        confined = leaf.spec is not None and leaf.spec.topology is not None
        racks = {self._rack(pod) for pod in decision.pods if pod.group is leaf}
        assert not confined or len(racks) <= 1
        assert not confined or "" not in racks

    def _rack(self, pod: Pod) -> str:
        node = self.builder.state.nodes.infos[pod.row] if pod.row >= 0 else None
        return node.labels.get("rack", "") if node is not None else ""

    def _members(self, name: str) -> list[Pod]:
        return [pod for pod in self.builder.state.pods.values() if pod.info.group == name]

    def _disrupt(self, pod: Pod) -> None:
        if pod.info.group is not None:
            self.disrupted.add(pod.info.group)

    @invariant()
    def all_is_accounted_for(self) -> None:
        Cluster.steps += 1
        nodes = self.builder.state.nodes
        used: Counter[tuple[int, int]] = Counter()
        counted: Counter[tuple[int, int]] = Counter()
        for pod in self.builder.state.pods.values():
            if pod.row >= 0:
                for resource, amount in pod.shape.request.demands:
                    used[resource, pod.row] += amount
                for match_id in pod.shape.matches.counted:
                    counted[match_id, pod.row] += 1
                assert pod.shape.matches == self.builder.state.selectors.matches(pod.info)
        for row in nodes.row_of.values():
            for resource in nodes.resources.indices.values():
                whole = int(nodes.allocatable[resource, row])
                assert int(nodes.free[resource, row]) == whole - used[resource, row]
        for match_id in {match_id for match_id, _ in counted}:
            rows, amounts = nodes.match_counts.rows(match_id), nodes.match_counts.amounts(match_id)
            kept = dict(zip(rows.tolist(), amounts.tolist(), strict=True))
            assert kept == {row: n for (t, row), n in counted.items() if t == match_id}

    @invariant()
    def nothing_is_kept_that_no_pod_uses(self) -> None:
        if not self.settled:
            return
        state = self.builder.state
        shapes = {pod.shape for pod in state.pods.values()}
        assert set(state.shapes) == shapes
        assert len(state.selectors) <= len(state.nodes.match_counts) <= 5 * len(shapes)

    @invariant()
    def no_gang_is_half_there(self) -> None:
        if not self.settled:
            return
        for name in LEAVES:
            group = self.builder.state.forest.groups.get((POD_GROUP, "ns", name))
            if group is not None and group.known and name not in self.disrupted:
                assert not group.incomplete, name

    @invariant()
    def nothing_that_fits_waits(self) -> None:
        """Check that `settle` tried every pending entity after each event that could help it."""
        if not self.settled:
            return
        state = self.builder.state
        tops = [g for g in state.forest.groups.values() if g.parent is None]
        keys = [*(group.key for group in tops), *state.singles]
        for key in keys:
            entity = self.queue.entity(key)
            if entity is not None:
                assert isinstance(place(state, entity, SearchBudget()), Refusal), key


def _keeps_away(pod: PodInfo, other: PodInfo) -> bool:
    return bool(pod.requirements.required_anti_affinity) and other.labels.get("app") == "web"


def _answer(decision: Placement | Refusal) -> object:
    if isinstance(decision, Refusal):
        return decision.shortage
    return ([pod.info.uid for pod in decision.pods], decision.rows)


@pytest.mark.timeout(1200)
def test_what_must_always_hold(long: bool) -> None:
    Cluster.steps = 0
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        Cluster,
        settings=settings(
            max_examples=200 if long else 40,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=checks,
        ),
    )
    assert Cluster.steps >= (2_000 if long else 250)
