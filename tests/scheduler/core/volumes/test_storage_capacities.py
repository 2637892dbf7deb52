"""CSIStorageCapacity (KEP-1472): volumes are provisioned only where their driver has space."""

import random

import numpy as np
import pytest

from scheduler.core.nodes.label_expressions import matches
from scheduler.core.nodes.node_table import Bools, Ints
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.model import (
    ClaimInfo,
    Expression,
    NodeInfo,
    NodeTerm,
    StorageCapacityInfo,
    StorageClassInfo,
    VolumeInfo,
)
from scheduler.core.volumes.storage_capacities import NOTHING, StorageCapacities
from tests.scheduler.core.framework.cluster import (
    ZONE,
    cluster_in_zones,
    open_nodes,
    using,
    why,
)
from tests.scheduler.state_builder import GIB, StateBuilder

NO_SPACE = "node(s) did not have enough free storage"
IN_X = (Expression(ZONE, "In", ("x",)),)


def capacity(
    name: str, gib: int, *topology: Expression, of: str = "later", namespace: str = "kube-system"
) -> StorageCapacityInfo:
    return StorageCapacityInfo((namespace, name), of, gib * GIB, topology)


def cluster(*, gib: int = 10, driver: str = "csi.example") -> StateBuilder:
    """Return nodes a in zone x, b in y and c, and a claim of class `later` of this size."""
    builder = cluster_in_zones()
    builder.state.volumes.set_driver(driver, measured=True)
    builder.state.volumes.set_claim(ClaimInfo(("ns", "data"), "", "later", size=gib * GIB))
    return builder


def test_a_volume_is_provisioned_where_its_driver_has_published_enough_space() -> None:
    builder = cluster()
    pod = builder.pod(requirements=using("data"))
    assert (open_nodes(builder, pod), why(builder, pod)) == ("", {NO_SPACE})

    capacities = builder.state.volumes.capacities
    capacities.set(capacity("x", 10, *IN_X))
    assert open_nodes(builder, pod) == "a"
    capacities.set(capacity("x", 9, *IN_X))
    assert open_nodes(builder, pod) == ""
    # Another class of the driver, and a capacity of all nodes.
    capacities.set(capacity("other", 99, of="now"))
    assert open_nodes(builder, pod) == ""
    capacities.set(capacity("all", 10))
    assert open_nodes(builder, pod) == "a b c"
    capacities.remove(("kube-system", "all"))
    assert open_nodes(builder, pod) == ""


def test_other_drivers_and_existing_volumes_need_no_published_space() -> None:
    builder = cluster(driver="csi.other")
    pod = builder.pod(requirements=using("data"))
    assert open_nodes(builder, pod) == "a b c"

    builder.state.volumes.set_driver("csi.example", measured=True)
    assert open_nodes(builder, pod) == ""
    volume = VolumeInfo("pv", storage_class="later", size=20 * GIB, available=True)
    builder.state.volumes.set_volume(volume)
    assert open_nodes(builder, pod) == "a b c"


def test_nodes_outside_the_topology_of_the_class_have_the_other_reason() -> None:
    builder = cluster()
    builder.state.volumes.set_class(
        StorageClassInfo("later", "csi.example", waits=True, topologies=(NodeTerm(IN_X),))
    )

    assert why(builder, builder.pod(requirements=using("data"))) == {
        NO_SPACE,
        "node(s) didn't find available persistent volumes to bind",
    }


def test_a_claim_with_a_selected_node_keeps_it_while_its_volume_takes_the_space() -> None:
    builder = cluster()
    claim = ClaimInfo(("ns", "data"), "", "later", "a", size=10 * GIB)
    builder.state.volumes.set_claim(claim)

    assert open_nodes(builder, builder.pod(requirements=using("data"))) == "a"


def test_a_gang_waits_for_space_with_advice_and_starts_with_it() -> None:
    builder = cluster()
    builder.gang("g", 2)
    for name in ("one", "two"):
        builder.state.volumes.set_claim(ClaimInfo(("ns", name), "", "later", size=10 * GIB))
        builder.pod("g", requirements=using(name))
    refusal = builder.place("g")
    assert isinstance(refusal, Refusal)
    shape = refusal.shortage.shape
    assert shape is not None
    assert builder.state.framework.advice(shape, NO_SPACE).startswith("free storage")

    builder.state.volumes.capacities.set(capacity("x", 10, *IN_X))

    placed = builder.place("g")
    assert isinstance(placed, Placement)
    assert set(builder.where(placed).values()) == {"a"}


def test_a_replaced_in_tree_provisioner_publishes_nothing() -> None:
    """As in kube-scheduler: the CSIDriver is that of the class's own provisioner."""
    builder = cluster(driver="csi.vsphere.vmware.com")
    builder.state.volumes.set_class(
        StorageClassInfo("later", "kubernetes.io/vsphere-volume", waits=True)
    )

    assert open_nodes(builder, builder.pod(requirements=using("data"))) == "a b c"


def test_the_second_claim_lacks_space_once_the_first_takes_the_only_volume() -> None:
    builder = cluster()
    builder.state.volumes.set_claim(ClaimInfo(("ns", "more"), "", "later", size=10 * GIB))
    volume = VolumeInfo("pv", storage_class="later", size=20 * GIB, available=True)
    builder.state.volumes.set_volume(volume)

    assert why(builder, builder.pod(requirements=using("data", "more"))) == {NO_SPACE}


def test_a_capacity_for_each_of_many_nodes_costs_no_more_than_its_nodes() -> None:
    """Each capacity has two labels, and one of them is unique to its node."""

    def work(nodes: int) -> int:
        builder = StateBuilder()
        capacities = builder.state.volumes.capacities
        for at in range(nodes):
            builder.node(f"n{at}", labels={ZONE: f"z{at % 3}", "disk": f"d{at}"})
            own = (Expression(ZONE, "In", (f"z{at % 3}",)), Expression("disk", "In", (f"d{at}",)))
            capacities.set(capacity(f"c{at}", 1 + at % 5, *own))
        checked = 0
        labels = builder.state.nodes.labels
        meets = labels.meets

        def counted(expression: Expression, rows: Ints | None = None) -> Bools:
            nonlocal checked
            checked += nodes if rows is None else len(rows)
            return meets(expression, rows)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(labels, "meets", counted)
            found = capacities.largest("later")
        assert found.tolist() == [GIB * (1 + at % 5) for at in range(nodes)]
        return checked

    assert (work(100), work(200)) == (100, 200)


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_is_that_of_all_capacities_that_select_the_node(seed: int) -> None:
    """Capacities and labels of nodes change at random."""
    chance = random.Random(seed)
    builder = StateBuilder()
    capacities = StorageCapacities(builder.state.nodes)

    def expression() -> Expression:
        values = tuple(chance.sample("abc", chance.randint(1, 2)))
        operator = chance.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
        return Expression(chance.choice("kl"), operator, values if "In" in operator else ())

    for _ in range(30):
        node, name = f"n{chance.randrange(6)}", f"c{chance.randrange(8)}"
        action = chance.randrange(4)
        if action == 0:
            labels = {key: chance.choice("abc") for key in "kl" if chance.random() < 0.7}
            builder.state.set_node(NodeInfo(node, {"cpu": 1000, "pods": 1}, labels))
        elif action == 1:
            topology = tuple(expression() for _ in range(chance.randrange(3)))
            capacities.set(capacity(name, chance.randrange(9), *topology, of=chance.choice("st")))
        elif action == 2:
            capacities.remove(("kube-system", name))
        elif node in builder.state.nodes.row_of:
            builder.state.remove_node(node)

        for storage_class in "st":
            want = [
                max(
                    (it.largest for it in capacities.known.values()
                     if it.storage_class == storage_class
                     and matches(it.topology, info.labels)),
                    default=NOTHING,
                )
                for info in builder.state.nodes.infos if info is not None
            ]  # fmt: skip
            rows = [i for i, info in enumerate(builder.state.nodes.infos) if info is not None]
            assert np.array_equal(capacities.largest(storage_class)[rows], want)
