"""A topology key may name an attribute of devices: its domains are nodes with equal values."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.devices.node_attributes import MOST_COLUMNS
from scheduler.core.explain.domain_capacity import domains as domain_capacity
from scheduler.core.explain.explain import explain
from scheduler.core.explain.free_capacity import amounts_of_domains
from scheduler.core.preemption.plan import Plan
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.devices import DeviceInfo, NodeScope
from scheduler.core.values.model import (
    Expression,
    GroupKey,
    NodeTerm,
    PodSelector,
    PodTerm,
    Requirements,
)
from scheduler.queue.scheduling_queue import Queue
from tests.scheduler.devices.builders import DRIVER, ask, device, gpu, pool
from tests.scheduler.devices.cluster import DeviceCluster
from tests.scheduler.devices.preemption import DevicePreemption
from tests.scheduler.state_builder import requests
from tests.support.counting import calls
from tools.testing.effort import examples

CLIQUE = f"{DRIVER}/clique"
RACK = "example.com/rack"


class Cliques(DeviceCluster):
    """Nodes whose devices have a clique as attribute."""

    def clique_node(
        self, name: str, *values: str, cpu: int = 1, labels: dict[str, str] | None = None
    ) -> None:
        """Add a node with one device for each value."""
        self.gpu_node(name, *of(*values), cpu=cpu, labels=labels)

    def publish(self, name: str, *values: str, generation: int = 2) -> None:
        """Publish the node's slice again."""
        self.slice(pool(*of(*values), pool=name, node=name, generation=generation))

    def cliques(self, **of_nodes: str) -> None:
        for name, value in of_nodes.items():
            self.clique_node(name, *value.split())

    def gang_in(
        self,
        name: str,
        pods: int,
        *,
        key: str = CLIQUE,
        preferred: bool = False,
        parent: str | None = None,
    ) -> GroupKey:
        made = self.gang(
            name, pods, rack=not preferred, prefer_rack=preferred, key=key, parent=parent
        )
        self.pods(name, pods)
        return made

    def nodes_of(self, name: str) -> list[str]:
        """Return the nodes of its pods; none if it is unschedulable."""
        decision = self.place(name)
        return sorted(self.where(decision).values()) if isinstance(decision, Placement) else []

    def why(self, name: str) -> str:
        decision = self.place(name)
        assert isinstance(decision, Refusal)
        return explain(self.state, decision).summary


def of(*values: str) -> tuple[DeviceInfo, ...]:
    return tuple(
        device(f"gpu-{at}", {"clique": value} if value != "-" else {})
        for at, value in enumerate(values)
    )


def test_a_gang_goes_to_the_nodes_whose_devices_are_in_one_clique() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="b", n2="a", n3="b", n4="b")
    made.gang_in("three", 3)

    assert made.nodes_of("three") == ["n1", "n3", "n4"]


def test_its_pods_need_no_devices_and_those_that_do_get_them_there() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="b", n2="b")
    made.gang("pair", 2, rack=True, key=CLIQUE)
    pods = [made.asks("pair", ask(gpu())) for _ in range(2)]
    decision = made.write(made.place("pair"))

    assert sorted(made.where(decision).values()) == ["n1", "n2"]
    assert sorted(made.devices_of(key for pod in pods for key in pod.device_claims)) == [
        "n1:gpu-0",
        "n2:gpu-0",
    ]
    assert made.complaints() == []


@pytest.mark.parametrize(
    ("key", "name"),
    [
        pytest.param(CLIQUE, "clique", id="the driver's own, written without a domain"),
        pytest.param("nvlink.example/clique", "nvlink.example/clique", id="a domain of its own"),
    ],
)
@pytest.mark.parametrize(
    "values",
    [
        pytest.param(("x", "y"), id="strings"),
        pytest.param((1, 2), id="integers"),
        pytest.param((True, False), id="booleans"),
        pytest.param(("v1.0.0", "v2.0.0"), id="versions"),
    ],
)
def test_attributes_of_all_types_are_values(
    key: str, name: str, values: tuple[str | int | bool, ...]
) -> None:
    made = Cliques()
    for at, value in enumerate((values[0], values[1], values[0])):
        made.gpu_node(f"n{at}", device("d", {name: value}), cpu=1)
    made.gang_in("pair", 2, key=key)

    assert made.nodes_of("pair") == ["n0", "n2"]


def test_a_driver_cannot_name_the_attribute_of_another_without_its_domain() -> None:
    made = Cliques()
    made.clique_node("n0", "a")
    made.node("n1", 1)
    made.slice(pool(device("nic", {"clique": "a"}), driver="nic.example.com", pool="n1", node="n1"))
    made.gang_in("pair", 2)

    assert made.nodes_of("pair") == []


def test_the_name_without_a_domain_is_a_label_and_nothing_else() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="a")
    made.gang_in("pair", 2, key="clique")

    assert made.nodes_of("pair") == []
    assert 'has the label "clique"' in made.why("pair")


def test_devices_without_the_attribute_say_nothing() -> None:
    made = Cliques()
    made.cliques(n0="- a", n1="a -", n2="-")
    made.gang_in("pair", 2)

    assert made.nodes_of("pair") == ["n0", "n1"]


def test_a_node_whose_devices_have_several_values_is_in_no_domain_and_the_refusal_says_so() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="a b")
    made.gang_in("pair", 2)

    assert made.nodes_of("pair") == []
    assert made.why("pair").endswith(
        f' Of the domains of "{CLIQUE}", 1 node is in none because its devices have several values.'
    )
    made.publish("n0", "a", "b")
    assert made.why("pair") == (
        f'None of 2 nodes is in a domain of "{CLIQUE}": 2 nodes are in none because their devices'
        " have several values. Label these nodes, or let their drivers publish one value."
    )


def test_a_refusal_names_the_attribute_and_the_best_domain_in_numbers() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="b", n2="b")
    root = made.gang_in("three", 3)
    refusal = made.place("three")
    assert isinstance(refusal, Refusal)
    blocker = explain(made.state, refusal)

    assert f"3 more pods in one {CLIQUE}; 2 fit in b, the best one." in blocker.summary
    assert blocker.best_domain is not None
    assert (blocker.best_domain.key, blocker.best_domain.value) == (CLIQUE, "b")
    assert blocker.best_domain.missing == 1
    rooms = domain_capacity(made.state, made.state.forest.groups[root], refusal)
    assert [(room.value, room.free, room.missing) for room in rooms] == [("b", 2, 1), ("a", 1, 2)]


def test_without_any_value_the_refusal_names_both_ways_out() -> None:
    made = Cliques()
    made.cliques(n0="-", n1="-")
    made.gang_in("pair", 2)

    assert made.why("pair") == (
        f'None of 2 nodes has the label "{CLIQUE}" or a device with this attribute.'
        " Label nodes, or create the group again with another topology key."
    )


def test_the_label_of_a_node_goes_before_what_its_devices_say() -> None:
    made = Cliques()
    made.clique_node("n0", "a", labels={CLIQUE: "b"})
    made.clique_node("n1", "a")
    made.clique_node("n2", "b")
    made.clique_node("n3", "a", "b", labels={CLIQUE: "b"})
    made.gang_in("three", 3)

    assert made.nodes_of("three") == ["n0", "n2", "n3"]


def test_one_node_with_the_label_takes_no_other_node_out_of_its_domain() -> None:
    """A kubelet may label its own node: the key must not become a label for all."""
    made = Cliques()
    made.cliques(n0="a", n1="a")
    made.node("bad", 1, labels={CLIQUE: "evil"})
    made.gang_in("pair", 2)

    assert made.nodes_of("pair") == ["n0", "n1"]


def test_a_foreign_value_costs_only_the_node_that_says_it() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="a", n2="b", n3="b", liar="a")
    made.gang_in("four", 4)
    assert made.nodes_of("four") == []
    assert "; 3 fit in " in made.why("four")

    made.publish("liar", "a", "b", "c")
    made.gang_in("pair", 2)
    assert made.nodes_of("pair") in (["n0", "n1"], ["n2", "n3"])


def test_it_nests_with_labels_on_either_side() -> None:
    made = Cliques()
    for at, (rack, clique) in enumerate(map(tuple, ("ra", "rb", "sa", "sa", "sb"))):
        made.clique_node(f"n{at}", clique, labels={RACK: rack})
    for outer, inner, want in ((RACK, CLIQUE, ["n2", "n3"]), (CLIQUE, RACK, ["n2", "n3"])):
        top, leaf = f"top-{outer[-4:]}", f"leaf-{inner[-4:]}"
        made.gang(top, 1, composite=True, rack=True, key=outer)
        made.gang_in(leaf, 2, key=inner, parent=top)
        decision = made.place(top, composite=True)

        assert isinstance(decision, Placement)
        assert sorted(made.where(decision).values()) == want


def test_equal_values_in_different_racks_are_different_domains() -> None:
    made = Cliques()
    made.clique_node("n0", "a", labels={RACK: "r"})
    made.clique_node("n1", "a", labels={RACK: "s"})
    made.gang("top", 1, composite=True, rack=True, key=RACK)
    made.gang_in("leaf", 2, parent="top")

    assert isinstance(made.place("top", composite=True), Refusal)


def test_preferred_is_one_clique_if_one_has_room_and_else_the_fewest() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="b", n2="b", n3="c", n4="c", n5="c")
    made.gang_in("three", 3, preferred=True)
    made.gang_in("five", 5, preferred=True)

    assert made.nodes_of("three") == ["n3", "n4", "n5"]
    assert made.nodes_of("five") == ["n1", "n2", "n3", "n4", "n5"]


def test_members_that_run_pin_the_clique() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="b", n2="b", n3="a")
    made.gang_in("pair", 1)
    made.pod("pair", node="n3", name="running")

    assert made.nodes_of("pair") == ["n0"]


def test_members_whose_slices_are_gone_wait_for_them() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="a", n2="a")
    made.gang_in("gang", 1)
    made.pod("gang", node="n0", name="running")
    made.table.slices.remove(f"{DRIVER}-n0")

    assert made.nodes_of("gang") == []
    assert "or wait until their nodes have" in made.why("gang")
    made.publish("n0", "a")
    assert made.nodes_of("gang")[0] in ("n1", "n2")


def test_a_pool_that_is_incomplete_says_nothing_until_it_is_whole() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="a")
    made.gang_in("pair", 2)
    first = pool(device("x", {"clique": "a"}), name="x", pool="n1", node="n1", generation=2,
                 slices=2)  # fmt: skip
    made.slice(first)
    made.table.slices.remove(f"{DRIVER}-n1")
    assert made.nodes_of("pair") == []

    made.slice(pool(device("y", {"clique": "a"}), name="y", pool="n1", node="n1", generation=2,
                    slices=2))  # fmt: skip
    assert made.nodes_of("pair") == ["n0", "n1"]


def test_devices_that_several_nodes_reach_make_one_domain_of_them() -> None:
    made = Cliques()
    for name, fabric in (("n0", "f"), ("n1", "f"), ("n2", "g"), ("n3", "")):
        made.node(name, 1, labels={"fabric": fabric})
    for fabric in "fg":
        terms = (NodeTerm((Expression("fabric", "In", (fabric,)),)),)
        made.slice(pool(device("d", {"clique": fabric}), pool=fabric, scope=NodeScope(terms=terms)))
    made.gang_in("pair", 2)

    assert made.nodes_of("pair") == ["n0", "n1"]


def test_what_only_takes_from_the_same_counters_says_nothing() -> None:
    """A node reads such devices of other nodes, but cannot use them."""
    made = Cliques()
    made.node("n0", 1)
    made.node("n1", 1)
    uses = {"memory": {"gib": 1}}
    devices = [device(f"d{at}", {"clique": "ab"[at]}, node=f"n{at}", uses=uses) for at in (0, 1)]
    made.slice(pool(*devices, name="devices", pool="p", per_device=True, slices=2))
    counters = pool(name="sets", pool="p", slices=2, counters={"memory": {"gib": 2}})
    made.slice(replace(counters, scope=NodeScope(everywhere=True)))
    domains = made.state.topologies.of_groups(CLIQUE)

    assert len(made.table.view(0).keys) == 2
    assert (domains.values, domains.codes[:2].tolist(), domains.mixed) == (("a", "b"), [0, 1], 0)


def test_pods_mean_labels_only() -> None:
    """In kube-scheduler, too, a topologyKey of their affinity is no attribute."""
    made = Cliques()
    made.cliques(n0="a", n1="a")
    selector = PodSelector((Expression("app", "In", ("x",)),), ("ns",))
    wants = Requirements(requests(1), required_affinity=(PodTerm(selector, CLIQUE),))
    info = made.pod(requirements=wants, labels={"app": "x"})

    assert isinstance(made.place_single(info), Refusal)


def test_a_slice_with_another_value_wakes_the_gang_that_it_lets_fit() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="b", n2="c")
    root = made.gang_in("pair", 2)
    queue = Queue(made.state)
    queue.refresh(made.state.take_changes(), 0)
    assert queue.pop() == root
    refusal = made.place("pair")
    assert isinstance(refusal, Refusal)
    queue.refuse(root, refusal, 0)
    queue.refresh(made.state.take_changes(), 1)
    assert queue.pop() is None

    made.publish("n1", "a")
    changes = made.state.take_changes()
    assert changes.rows == {made.state.nodes.row_of["n1"]}
    queue.refresh(changes, 2)

    assert queue.pop() == root
    assert made.nodes_of("pair") == ["n0", "n1"]


def test_a_group_is_tried_again_when_the_full_node_that_pins_it_has_its_value_back() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="a")
    root = made.gang_in("gang", 1)
    made.pod("gang", node="n0", name="running")
    made.table.slices.remove(f"{DRIVER}-n0")
    queue = Queue(made.state)
    queue.refresh(made.state.take_changes(), 0)
    assert queue.pop() == root
    refusal = made.place("gang")
    assert isinstance(refusal, Refusal)
    queue.refuse(root, refusal, 0)
    queue.refresh(made.state.take_changes(), 1)

    made.publish("n0", "a")
    queue.refresh(made.state.take_changes(), 1.5)
    assert queue.pop() is None  # the node is full
    queue.refresh(made.state.take_changes(), 20)

    assert queue.pop() == root
    assert made.nodes_of("gang") == ["n1"]


def test_a_slice_that_says_the_same_again_leaves_all_domains_as_they_are() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="a")
    before = made.state.topologies.of_groups(CLIQUE)
    made.publish("n1", "a", "a")

    assert made.state.topologies.of_groups(CLIQUE) is before


def test_a_changed_slice_is_looked_at_and_no_other() -> None:
    made = Cliques()
    for at in range(300):
        made.clique_node(f"n{at}", f"c{at % 50}", "-")
    made.state.topologies.of_groups(CLIQUE)
    made.publish("n7", "other")
    cost = calls(lambda: made.state.devices.attribute(CLIQUE))
    assert cost < 300
    assert "other" in made.state.topologies.of_groups(CLIQUE).values


def test_hundreds_of_unequal_values_cost_the_same_for_each_node() -> None:
    few, many = Cliques(), Cliques()
    for made, nodes in ((few, 300), (many, 600)):
        for at in range(nodes):
            made.clique_node(f"n{at}", f"v{at}")
        made.table.refresh()
    once, twice = (calls(partial(it.state.topologies.of_groups, CLIQUE)) for it in (few, many))

    assert len(many.state.topologies.of_groups(CLIQUE).values) == 600
    assert twice < 2.2 * once
    many.gang_in("pair", 2)
    assert many.nodes_of("pair") == []


def test_keys_that_tenants_name_make_few_columns() -> None:
    made = Cliques()
    made.gpu_node("n0", device("d", {f"k{at}": "v" for at in range(200)}))
    for at in range(200):
        assert made.state.topologies.of_groups(f"{DRIVER}/k{at}").values == ("v",)
        assert made.state.topologies.of_groups(f"{DRIVER}/none{at}").values == ()
    # One with changed devices is recreated with their current values.
    made.slice(pool(device("d", {"k0": "w"}), pool="n0", node="n0"))
    assert made.state.topologies.of_groups(f"{DRIVER}/k0").values == ("w",)
    assert len(made.table.attributes) <= MOST_COLUMNS


def test_what_cliques_have_free_can_be_measured() -> None:
    made = Cliques()
    made.cliques(n0="a", n1="b", n2="b", n3="a b")
    (found,) = amounts_of_domains(made.state.nodes, made.state.topologies, [CLIQUE])

    assert found.count == 2
    assert found.free["cpu"] == {"a": 1.0, "b": 2.0}


@given(
    st.lists(st.sampled_from(["a", "b", "c", "a b", "-"]), min_size=4, max_size=8),
    st.lists(st.tuples(st.integers(2, 4), st.booleans()), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["a", "b", "-"])), max_size=4),
)
@examples(20, 100)
def test_a_required_clique_holds_all_of_a_gang_whenever_slices_change(
    cliques: list[str], gangs: list[tuple[int, bool]], changes: list[tuple[int, str]]
) -> None:
    made = Cliques()
    said = {f"n{at}": values.split() for at, values in enumerate(cliques)}
    for name, values in said.items():
        made.clique_node(name, *values, cpu=2)
    for number, (pods, with_devices) in enumerate(gangs):
        made.gang(f"g{number}", pods, rack=True, key=CLIQUE)
        members = [
            made.asks(f"g{number}", *([ask(gpu())] if with_devices else [])) for _ in range(pods)
        ]
        nodes = made.state.nodes
        cpu = nodes.free[nodes.resources.indices["cpu"]] // 1000
        decision = made.place(f"g{number}")
        if isinstance(decision, Placement):
            where = made.where(made.write(decision))
            assert len(where) == len(members)
            found = {frozenset(said[node]) - {"-"} for node in where.values()}
            assert len(found) == 1
            assert len(found.pop()) == 1
        elif not with_devices:
            for value in "abc":
                there = [name for name in said if set(said[name]) - {"-"} == {value}]
                assert sum(cpu[nodes.row_of[name]] for name in there) < pods
        for at, value in changes[number : number + 1]:
            name = f"n{at % len(said)}"
            said[name] = [value] * len(said[name])
            made.publish(name, *said[name], generation=number + 2)
    assert made.complaints() == []


class CliquesWithVictims(Cliques, DevicePreemption):
    pass


def test_victims_are_all_in_one_clique() -> None:
    made = CliquesWithVictims()
    made.cliques(n0="a", n1="b", n2="a", n3="b")
    made.runs(None, "n0", "n1", "n3", priority=0)
    made.runs(None, "n2", priority=9)
    made.group("pair", 2, priority=5, topology=CLIQUE)
    made.waits("pair", 2, priority=5)
    plan = made.preempt("pair")

    assert isinstance(plan, Plan)
    assert {pod.node for unit in plan.victims for pod in unit.pods.values()} == {"n1", "n3"}


NODES = ("n0", "n1", "n2", "n3")
VALUES = st.lists(st.sampled_from(["-", "a", "b", ""]), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("slice"), st.sampled_from(NODES), VALUES),
        st.tuples(st.just("withdraw"), st.sampled_from(NODES), st.just([])),
        st.tuples(st.just("label"), st.sampled_from(NODES), VALUES),
        st.tuples(st.just("gone"), st.sampled_from(NODES), st.just([])),
        st.tuples(st.just("look"), st.just(""), st.just([])),
    ),
    max_size=15,
)


@given(STEPS, st.booleans())
@examples(50, 250)
def test_domains_are_those_of_looking_at_every_device(
    steps: list[tuple[str, str, list[str]]], nested: bool
) -> None:
    made, said, labels = Cliques(), dict[str, list[str]](), dict[str, str | None]()
    outer = (RACK,) if nested else ()
    for step, node, values in steps:
        if step == "slice":
            said[node] = values
            made.publish(node, *values, generation=1)
        elif step == "withdraw":
            said.pop(node, None)
            made.table.slices.remove(f"{DRIVER}-{node}")
        elif step == "label":
            labels[node] = own = values[0] if values and values[0] != "-" else None
            label = {} if own is None else {CLIQUE: own}
            made.node(node, labels={RACK: f"r{node[1:] < '2'}", **label})
        elif step == "gone":
            labels.pop(node, None)
            made.state.remove_node(node)
        else:
            made.state.topologies.of_groups(CLIQUE, outer)
    want: dict[str, str] = {}
    for node, text in labels.items():
        devices = {value for value in said.get(node, []) if value != "-"}
        if text is not None:
            want[node] = text
        elif len(devices) == 1:
            want[node] = devices.pop()
    domains = made.state.topologies.of_groups(CLIQUE, outer)
    found = {
        node: domains.values[domains.codes[row]]
        for node, row in made.state.nodes.row_of.items()
        if domains.codes[row] >= 0
    }

    assert found == want
    paths = {(f"r{node[1:] < '2'}/" if nested else "") + value for node, value in want.items()}
    assert sorted(domains.paths) == sorted(paths)
