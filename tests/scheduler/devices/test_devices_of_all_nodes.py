"""Devices that many nodes reach: such nodes form one group, and a pod costs few searches."""

import random

import pytest

from scheduler.core.devices.layouts import DeviceUsage
from scheduler.core.devices.table import DeviceTable
from scheduler.core.devices.taint_rules import DeviceTaintRule
from scheduler.core.devices.viewers import ViewGroup
from scheduler.core.state.state import State
from scheduler.core.values.device_asks import exactly
from scheduler.core.values.devices import (
    AllocatedDevice,
    Allocation,
    DeviceClaimInfo,
    DeviceTaint,
    NodeScope,
    SliceInfo,
)
from scheduler.core.values.model import ClaimKey, Expression, NodeInfo, NodeTerm
from tests.scheduler.devices.builders import CLASS, ask, device, gpu, pool, units
from tests.scheduler.devices.cluster import DeviceCluster

EVERYWHERE = NodeScope(everywhere=True)
CLIQUE = "gpu.example.com/clique"
BROKEN = DeviceTaint("broken", "yes", "NoExecute")
SHARE = ask(exactly("nic", CLASS, capacity=units(rate=4)))


def zone(name: str) -> NodeScope:
    return NodeScope(terms=(NodeTerm((Expression("zone", "In", (name,)),)),))


def test_one_pod_more_of_a_large_pool_costs_few_searches() -> None:
    made = DeviceCluster()
    made.nodes(20, cpu=64)
    for at in range(200):
        nic = device("nic", capacity={"rate": 10}, shared=True)
        made.slice(pool(nic, name=f"p{at:03}", pool=f"p{at:03}", scope=EVERYWHERE))
    searches = []
    for _ in range(20):
        info = made.asks(None, SHARE)
        before = made.table.states.searches
        made.write(made.place_single(info))
        searches.append(made.table.states.searches - before)

    assert made.complaints() == []
    assert max(searches[1:]) <= 3, searches


def test_what_is_known_of_the_room_is_what_a_fresh_look_finds() -> None:
    """The counts go beyond the usual limit, while pods arrive and claims are deallocated."""
    made, lot = DeviceCluster(), random.Random(5)
    made.node("n0", 512)
    made.slice(pool(*(device(f"d{at:03}") for at in range(150)), scope=EVERYWHERE))
    keys: list[ClaimKey] = []
    for _ in range(40):
        if keys and lot.random() < 0.3:
            made.table.remove_claim(keys.pop(lot.randrange(len(keys))))
        info = made.asks(None, ask(gpu(2)))
        shape = made.single(info).shape
        known = made.state.framework.plugins.dynamic_resources.copies(shape, slice(1))
        made.table.states.clear()
        made.table.version += 1
        made.table._stale_groups.update(dict.fromkeys(made.table.groups.all()))
        assert known == made.state.framework.plugins.dynamic_resources.copies(shape, slice(1))
        made.write(made.place_single(info))
        keys.append(info.device_claims[0])


def seen_by_nodes(table: DeviceTable) -> list[list[str]]:
    """Return the devices that each row can access."""
    rows = range(table.nodes.size)
    return [sorted(key[2] for key in table.view(row).keys) for row in rows]


@pytest.mark.parametrize("at", range(0, 14, 2))
def test_what_changes_while_nodes_are_looked_at_is_seen(at: int) -> None:
    """Nodes and pools are added, deleted and changed after some of the steps."""

    def change(made: DeviceCluster, number: int) -> None:
        made.node("n3", labels={"zone": "z1"})
        made.slice(pool(device("more"), name="more", pool="more", scope=zone(f"z{number % 2}")))
        made.slice(pool(device("own2"), name="own150", pool="own150", scope=NodeScope("n150")))
        made.node(f"new{number}", labels={"zone": "z0"})
        made.table.slices.remove(f"own{number}")

    def cluster() -> DeviceCluster:
        made = DeviceCluster()
        for row in range(200):
            made.node(f"n{row}", labels={"zone": f"z{row % 2}"})
            made.slice(
                pool(device("own"), name=f"own{row}", pool=f"own{row}", scope=NodeScope(f"n{row}"))
            )
        made.slice(pool(device("d"), name="z0", pool="z0", scope=zone("z0")))
        return made

    stepped, anew = cluster(), cluster()
    steps = stepped.table.catch_up()
    for number, _ in enumerate(steps):
        if number in (at, at + 1):
            change(stepped, number)
        if number > at + 1 and at % 4:
            break  # the rest is found on the next request
    for number in (at, at + 1):
        change(anew, number)
    assert seen_by_nodes(stepped.table) == seen_by_nodes(anew.table)


def test_many_nodes_are_looked_at_in_short_steps() -> None:
    """So a decision after changes of thousands of slices yields to other tasks."""
    made = DeviceCluster()
    made.nodes(500)
    for row in range(500):
        made.slice(pool(device("d"), name=f"s{row}", pool=f"s{row}", scope=NodeScope(f"n{row}")))

    assert sum(1 for _ in made.state.catch_up()) >= 500 / 16
    assert list(made.state.catch_up()) == []


def test_nodes_that_reach_the_same_are_one_group() -> None:
    made = DeviceCluster()
    for at in range(6):
        made.node(f"n{at}", labels={"zone": f"z{at % 2}"})
    for name in ("z0", "z1"):
        made.slice(pool(device("d"), name=name, pool=name, scope=zone(name)))
    made.slice(pool(device("all"), name="all", pool="all", scope=EVERYWHERE))
    made.table.refresh()

    assert sorted(sorted(group.rows) for group in made.table.groups.all()) == [[0, 2, 4], [1, 3, 5]]

    made.node("n0", labels={"zone": "z1"})
    made.table.refresh()

    assert sorted(sorted(group.rows) for group in made.table.groups.all()) == [[0, 1, 3, 5], [2, 4]]


def test_a_group_that_comes_back_knows_what_is_in_use_by_then() -> None:
    made = DeviceCluster()
    made.node("n0", labels={"zone": "z0"})
    made.slice(pool(device("d"), name="z0", pool="z0", scope=zone("z0")))
    assert made.table.use.usage(group_of(made.table, 0)).used == 0
    made.node("n0", labels={"zone": "elsewhere"})
    made.table.refresh()
    take(made.table, "c", "z0", "d")
    made.node("n0", labels={"zone": "z0"})
    made.table.refresh()

    assert made.table.use.usage(group_of(made.table, 0)).used == 1


@pytest.mark.parametrize("seed", range(12))
def test_views_and_usages_are_those_of_a_table_made_anew(seed: int) -> None:
    """Nodes change labels, slices and taint rules come and go, claims use devices and shares."""
    lot, state = random.Random(seed), State()
    for _ in range(120):
        something(state, lot)
        if lot.random() < 0.5:
            everything(state)
    fresh = State()
    for info in state.nodes.infos:
        assert info is not None
        fresh.set_node(info)
    for each in state.devices.slices.written.values():
        fresh.devices.slices.set(each)
    for claim in state.devices.claims.values():
        fresh.devices.set_claim(claim)
    for rule in state.devices.slices.rules.all.values():
        fresh.devices.slices.set_rule(rule)

    assert everything(state) == everything(fresh)


def something(state: State, lot: random.Random) -> None:
    """Apply a random event."""
    table, what = state.devices, lot.random()
    if what < 0.25:
        labels = {"zone": f"z{lot.randrange(3)}"}
        state.set_node(NodeInfo(f"n{lot.randrange(5)}", {"cpu": 1}, labels))
    elif what < 0.55:
        table.slices.set(some_slice(lot))
    elif what < 0.65 and table.slices.written:
        table.slices.remove(lot.choice(sorted(table.slices.written)))
    elif what < 0.7:
        of = lot.choice([None, f"p{lot.randrange(4)}"])
        table.slices.set_rule(DeviceTaintRule(f"r{lot.randrange(2)}", BROKEN, pool=of))
    elif what < 0.75:
        table.slices.remove_rule(f"r{lot.randrange(2)}")
    elif what < 0.9:
        share, device = lot.choice([None, "s"]), f"d{lot.randrange(3)}"
        take(table, f"c{lot.randrange(6)}", f"p{lot.randrange(4)}", device, share)
    elif table.claims:
        table.remove_claim(lot.choice(sorted(table.claims)))


def everything(state: State) -> object:
    """Return each node's view and attributes, the usage, and the usage without each claim."""
    table = state.devices
    table.refresh()
    clique = table.attribute(CLIQUE)
    nodes = []
    for row in range(state.nodes.size):
        view, group = table.view(row), table.groups.of(row)
        usage = None if group is None else table.use.usage(group)
        assert usage is None or usage == state_of(table, row)
        said = (clique.column.value(row), row in clique.mixed) if clique else (None, False)
        nodes.append((view.sources, view.visible, view.flaws, usage, said))
    pools = sorted({each.pool_key for each in table.slices.written.values()})
    seen = [(key, table.groups.rows_seeing(key), key in table.groups.wide_pools) for key in pools]
    without = {
        (key, row): change.of(state_of(table, row), 0)
        for key in table.claims
        for row, change in table.use.changes([key], {key}, again=False).items()
    }
    changed = {
        where: usage for where, usage in without.items() if usage != state_of(table, where[1])
    }
    return nodes, seen, changed


def state_of(table: DeviceTable, row: int) -> DeviceUsage:
    """Return the usage on a node."""
    return table.states.all[int(table.states_of(slice(row, row + 1))[0])].after


def some_slice(lot: random.Random) -> SliceInfo:
    """Return a slice of one of four pools, for one node, a zone or all, or per device."""
    at = lot.randrange(4)
    scope = lot.choice([None, EVERYWHERE, zone(f"z{lot.randrange(3)}")])
    count, said = lot.randrange(1, 4), {CLIQUE: f"c{lot.randrange(2)}"}
    if scope is None and lot.random() < 0.5:
        devices = [
            device(f"d{each}", said, scope=lot.choice([EVERYWHERE, zone("z0"), NodeScope("n1")]))
            for each in range(count)
        ]
        return pool(*devices, name=f"s{at}", pool=f"p{at}", per_device=True)
    devices = [device(f"d{each}", said) for each in range(count)]
    return pool(*devices, name=f"s{at}", pool=f"p{at}", node=f"n{lot.randrange(5)}", scope=scope)


def take(table: DeviceTable, name: str, of: str, what: str, share: str | None = None) -> None:
    """Add a claim with the device, or a share of it."""
    consumed = () if share is None else (("rate", 1),)
    given = AllocatedDevice("r", ("gpu.example.com", of, what), share=share, consumed=consumed)
    key = ("ns", name)
    table.set_claim(DeviceClaimInfo(key, name, SHARE, allocation=Allocation((given,))))


def group_of(table: DeviceTable, row: int) -> ViewGroup:
    table.refresh()
    group = table.groups.of(row)
    assert group is not None
    return group
