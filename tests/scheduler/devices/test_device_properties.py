"""Invariants of devices, whatever happens in any order."""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.devices.layouts import DeviceUsage
from scheduler.core.search.batching import place_batch, signature
from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.model import PodInfo
from tests.scheduler.devices.builders import (
    ask,
    device,
    different,
    first_of,
    gpu,
    has,
    pool,
    same,
)
from tests.scheduler.devices.cluster import DeviceCluster
from tools.testing.effort import examples

ASKS = (
    ask(gpu()),
    ask(gpu(2)),
    ask(gpu(1, has("size", "small"))),
    ask(gpu(2), constraints=[same("rail")]),
    ask(gpu(2), constraints=[different("rail")]),
    ask(first_of("l", gpu(1, has("size", "large"), name="a"), gpu(2, name="b"))),
)
NODES = ("n0", "n1", "n2")

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(ASKS)),
        st.tuples(st.just("named"), st.integers(0, 1)),
        st.tuples(st.just("forget"), st.integers(0, 5)),
        st.tuples(st.just("write"), st.integers(0, 5)),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("slice"), st.tuples(st.sampled_from(NODES), st.integers(0, 4))),
        st.tuples(st.just("node"), st.sampled_from(NODES)),
    ),
    max_size=25,
)


class Story:
    """Pods that are created, placed, released or end, in a changing cluster."""

    def __init__(self) -> None:
        self.made = DeviceCluster()
        for name in NODES:
            self.slice(name, 4)
            self.made.node(name)
        self.named = [self.made.claim(f"named{at}", ASKS[at]) for at in range(2)]
        self.assumed: list[PodInfo] = []
        self.decisions: dict[str, Placement] = {}

    def slice(self, node: str, count: int) -> None:
        found = [device(f"d{at}", {"size": ("small", "large")[at % 2], "rail": at // 2})
                 for at in range(count)]  # fmt: skip
        self.made.slice(pool(*found, pool=node, node=node))

    def place(self, info: PodInfo) -> None:
        decision = self.made.place_single(info)
        if isinstance(decision, Placement):
            self.made.run(decision)
            self.assumed.append(info)
            self.decisions[info.uid] = decision

    def do(self, what: str, of: object) -> None:
        if what == "ask":
            assert isinstance(of, Ask)
            self.place(self.made.asks(None, of))
        elif what == "named":
            assert isinstance(of, int)
            self.place(self.made.asks(None, self.named[of]))
        elif what == "slice":
            assert isinstance(of, tuple)
            self.slice(*of)
        elif what == "node":
            assert isinstance(of, str)
            self.made.state.remove_node(of)
            self.made.node(of)
        elif self.assumed:
            assert isinstance(of, int)
            self.end(what, self.assumed[of % len(self.assumed)])

    def end(self, what: str, info: PodInfo) -> None:
        table = self.made.table
        if what == "write":
            for key in info.device_claims:
                allocation = table.allocation(key)
                if allocation is not None:
                    table.set_claim(replace(table.claims[key], allocation=allocation))
            return
        self.assumed.remove(info)
        if what == "forget":
            self.made.state.forget(info.uid)
            return
        self.made.state.remove_pod(info.uid)
        for key in info.device_claims:
            if key not in self.named:
                table.remove_claim(key)

    def usages(self) -> dict[str, DeviceUsage]:
        """Return the usage of each node's devices, by its state."""
        table = self.made.table
        numbers = table.states_of(np.arange(self.made.state.nodes.size)).tolist()
        infos = self.made.state.nodes.infos
        return {
            info.name: table.states.all[number].after
            for info, number in zip(infos, numbers, strict=True)
            if info is not None
        }

    def held(self) -> dict[str, set[str]]:
        """Return the existing devices allocated to claims, by node."""
        found: dict[str, set[str]] = {name: set() for name in NODES}
        for key in {*self.made.table.claims, *self.made.table.assumed}:
            allocation = self.made.table.allocation(key)
            for each in allocation.devices if allocation else ():
                found[each.key[1]].add(each.key[2])
        return found


@examples(20, 100)
@given(OPERATIONS)
def test_what_is_in_use_is_what_claims_hold(operations: list[tuple[str, object]]) -> None:
    story = Story()
    for what, of in operations:
        story.do(what, of)

        held = story.held()
        for name, usage in story.usages().items():
            view = story.made.table.view(story.made.state.nodes.row_of[name])
            used = {key[2] for at, key in enumerate(view.keys) if usage.used >> at & 1}
            assert used == held[name] & {key[2] for key in view.keys}


@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 3),
    roots=st.integers(2, 5),
    asked=st.sampled_from(ASKS),
)
def test_equal_roots_that_are_decided_together_get_devices_where_they_go(
    seed: int, size: int, roots: int, asked: Ask
) -> None:
    """Their pods arrive, and are pending, in any order."""
    random, made = Random(seed), DeviceCluster()
    for at in range(random.randint(1, 5)):
        devices = (
            device(f"d{n}", {"size": "small" if n % 2 else "large", "rail": str(n // 2)})
            for n in range(random.randint(1, 6))
        )
        made.gpu_node(f"n{at}", *devices)
    for at in range(roots):
        made.gang(f"g{at}", size)
    for at in random.sample(list(range(roots)) * size, roots * size):
        made.asks(f"g{at}", asked)
    waiting = random.sample(range(roots), roots)
    groups = [made.state.forest.groups["PodGroup", "ns", f"g{at}"] for at in waiting]
    assert len({signature(group) for group in groups}) == 1

    for placement in place_batch(made.state, groups, SearchBudget()):
        made.write(placement)

    assert made.complaints() == []
