"""Trees with a rule for each leaf, and pods with devices and disks, compared with CP-SAT."""

from collections import Counter

import pytest

from scheduler.core.search.place import Placement, SearchBudget, place
from scheduler.core.state.search_memory import SearchMemory
from scheduler.core.values.model import (
    Attachment,
    Expression,
    NodeInfo,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
)
from tests.scheduler.devices.builders import ask, device, gpu, pool
from tests.scheduler.devices.preemption import DevicePreemption
from tests.scheduler.oracle.instances import PREEMPTOR, ROOT, Instance, Tree, crossed_instance
from tests.scheduler.oracle.solver import ExactSolver
from tests.scheduler.state_builder import GIB, requests

HOST = "kubernetes.io/hostname"
DRIVER = "csi.example"
ATTEMPTS = 10


@pytest.mark.timeout(900)
def test_nearly_all_that_can_be_placed_is(long: bool) -> None:
    solvable, missed = 0, list[int]()
    count = 150 if long else 20
    for seed in range(count):
        instance = crossed_instance(seed)
        can, does = ExactSolver(instance).feasible(), _is_placed(instance)
        assert can or not does, f"instance {seed}"
        solvable += can
        if can and not does:
            missed.append(seed)

    assert count // 5 < solvable < count
    assert len(missed) <= 0.005 * solvable, f"of {solvable} that can be placed, missed {missed}"


def _is_placed(instance: Instance) -> bool:
    """Return True if one of up to ten searches finds a placement, which is checked."""
    cluster, memory = _build(instance), SearchMemory()
    for _ in range(ATTEMPTS):
        found = place(cluster.state, cluster.root(ROOT), SearchBudget(), memory=memory)
        if isinstance(found, Placement):
            _check(instance, cluster, found)
            return True
        if not found.timed_out:
            break
    return False


def _build(instance: Instance) -> DevicePreemption:
    cluster = DevicePreemption()
    for index, node in enumerate(instance.nodes):
        cpu, devices, disks = node.allocatable
        name = f"n{index}"
        allocatable = {"cpu": cpu * 1000, "memory": 64 * GIB, "pods": 110}
        cluster.state.set_node(NodeInfo(name, allocatable, {HOST: name, **node.labels}))
        cluster.state.volumes.set_limits(name, {DRIVER: disks})
        found = (device(f"gpu-{at}") for at in range(devices))
        cluster.slice(pool(*found, pool=name, node=name))
    root = instance.tree
    cluster.group(ROOT, root.minimum, priority=PREEMPTOR, composite=True, topology=root.key)
    for leaf in root.children:
        cluster.group(leaf.name, leaf.minimum, priority=PREEMPTOR, parent=ROOT, topology=leaf.key)
        for number, amounts in enumerate(leaf.pods):
            _add_pod(cluster, leaf, number, amounts)
    list(cluster.state.catch_up())
    return cluster


def _add_pod(cluster: DevicePreemption, leaf: Tree, number: int, amounts: tuple[int, ...]) -> None:
    cpu, devices, disks = amounts
    name = f"{leaf.name}-{number}"
    mates = PodSelector((Expression("leaf", "In", (leaf.name,)),), ("ns",))
    claims = ask(gpu(devices)) if devices else None
    wants = Requirements(
        requests(cpu),
        required_anti_affinity=(PodTerm(mates, HOST),) if leaf.apart else (),
        spread=(Spread(mates, leaf.spread),) if leaf.spread is not None else (),
        attachments=tuple(Attachment(DRIVER, f"{name}-{at}") for at in range(disks)),
        asks=(claims,) if claims is not None else (),
    )
    keys = (cluster.claim(name, claims, owner=f"uid-{name}"),) if claims is not None else ()
    cluster.pod(
        leaf.name, name=name, requirements=wants, priority=PREEMPTOR,
        labels={"leaf": leaf.name}, device_claims=keys,
    )  # fmt: skip


def _check(instance: Instance, cluster: DevicePreemption, found: Placement) -> None:
    """Check the amounts, minimums, rules and devices of a placement."""
    where = cluster.where(found)
    nodes = {f"n{index}": node for index, node in enumerate(instance.nodes)}
    used: Counter[tuple[str, int]] = Counter()
    for leaf in instance.tree.children:
        placed = {at: where[name] for at in range(len(leaf.pods))
                  if (name := f"{leaf.name}-{at}") in where}  # fmt: skip
        assert len(placed) >= leaf.minimum, leaf
        for at, node in placed.items():
            used.update({(node, kind): amount for kind, amount in enumerate(leaf.pods[at])})
        on_node = Counter(placed.values())
        assert not leaf.apart or max(on_node.values()) == 1, leaf
        for tree in (leaf, instance.tree):
            assert tree.key is None or len({nodes[it].labels[tree.key] for it in on_node}) == 1
        if leaf.spread is not None:
            sums = Counter({node.labels[leaf.spread]: 0 for node in instance.nodes})
            for node, number in on_node.items():
                sums[nodes[node].labels[leaf.spread]] += number
            assert max(sums.values()) - min(sums.values()) <= 1, leaf
    for name, offered in nodes.items():
        assert all(used[name, kind] <= most for kind, most in enumerate(offered.allocatable)), name
    cluster.write(found)
    assert not cluster.complaints()
