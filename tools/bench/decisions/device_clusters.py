"""Clusters with devices, and pods with claims, for measurements of the decision core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scheduler.core.groups.forest import Group
from scheduler.core.state.state import State
from scheduler.core.values.device_asks import (
    NANO,
    Ask,
    DeviceConstraint,
    DeviceOption,
    DeviceRequest,
    exactly,
)
from scheduler.core.values.devices import (
    AllocatedDevice,
    Allocation,
    Attribute,
    Capacity,
    CapacityPolicy,
    DeviceClaimInfo,
    DeviceClassInfo,
    DeviceInfo,
    NodeScope,
    SliceInfo,
)
from scheduler.core.values.model import (
    POD_GROUP,
    ClaimKey,
    Expression,
    GroupSpec,
    NodeInfo,
    NodeTerm,
    PodInfo,
    Requirements,
    Topology,
)
from tools.bench.decisions.clusters import SMALL, full

DRIVER = "gpu.example.com"
CLASS = DeviceClassInfo("gpu", (f'device.driver == "{DRIVER}"',))
GIB = (1 << 30) * NANO

ONE = Ask((exactly("gpu", "gpu"),))
PAIR_OF_A_RAIL = Ask((exactly("gpu", "gpu", count=2),), (DeviceConstraint(f"{DRIVER}/rail"),))
PAIR_OF_A_POOL = Ask((exactly("gpu", "gpu", count=2),), (DeviceConstraint(f"{DRIVER}/pool"),))
HALF = (("memory", 40 * GIB),)
TWO_SHARES = Ask(
    tuple(DeviceRequest(name, (DeviceOption(name, "gpu", capacity=HALF),)) for name in ("a", "b"))
)


def evaluate(_expression: str, driver: str, _device: DeviceInfo) -> bool | str:
    """Evaluate the one selector of the class: the driver's name."""
    return driver == DRIVER


def nodes_alone(nodes: int) -> State:
    """Return nodes without devices, and the class."""
    state = State(evaluate=evaluate)
    state.devices.set_class(CLASS)
    for at in range(nodes):
        allocatable = {"cpu": 64_000, "memory": 1 << 38, "pods": 110}
        state.set_node(NodeInfo(f"n{at:05}", allocatable, {"rack": f"r{at // 20}"}))
    return state


def devices_of(node: str, each: int) -> tuple[DeviceInfo, ...]:
    """Return devices with a unique name among their attributes, and two to a rail."""
    return tuple(
        DeviceInfo(
            f"gpu-{number}",
            (
                ("model", Attribute("string", "a100")),
                ("rail", Attribute("int", number // 2)),
                ("uuid", Attribute("string", f"{node}-{number}")),
            ),
        )
        for number in range(each)
    )


def slice_of(node: str, each: int) -> SliceInfo:
    return SliceInfo(node, DRIVER, node, devices_of(node, each), NodeScope(node))


def cluster(nodes: int, each: int = 8) -> State:
    """Return nodes with so many devices."""
    state = nodes_alone(nodes)
    for at in range(nodes):
        state.devices.slices.set(slice_of(f"n{at:05}", each))
    return state


def shared_by_all(nodes: int, pools: int) -> State:
    """Return pools that all nodes reach, each of one device that several pods may share."""
    state = nodes_alone(nodes)
    memory = Capacity("memory", 80 * GIB, CapacityPolicy(GIB, GIB))
    device = DeviceInfo("shared", capacity=(memory,), shared=True)
    for at in range(pools):
        name, scope = f"p{at:05}", NodeScope(everywhere=True)
        state.devices.slices.set(SliceInfo(name, DRIVER, name, (device,), scope))
    return state


def parts_for_all(nodes: int, pools: int) -> State:
    """Return pools that all nodes reach, each of one device in halves or quarters.

    One half of each is in use.
    """
    state = nodes_alone(nodes)
    counters = (("set", tuple((f"counter{at}", NANO) for at in range(4))),)
    for at in range(pools):
        name, scope = f"p{at:05}", NodeScope(everywhere=True)
        devices = tuple(
            DeviceInfo(
                f"part-{part}",
                (("pool", Attribute("int", at)),),
                counters=(("set", tuple((f"counter{each}", NANO) for each in part)),),
            )
            for part in ("01", "23", "0", "1", "2", "3")
        )
        whole = SliceInfo(f"{name}-set", DRIVER, name, (), scope, slices=2, counters=counters)
        state.devices.slices.set(whole)
        state.devices.slices.set(SliceInfo(name, DRIVER, name, devices, scope, slices=2))
        taken = AllocatedDevice("gpu", (DRIVER, name, "part-01"))
        hold(state, ("ns", f"taken-{at}"), (taken,), "other")
    return state


def hold(
    state: State, key: tuple[str, str], devices: tuple[AllocatedDevice, ...], uid: str
) -> None:
    """Allocate these devices to a claim, for this pod."""
    allocation = Allocation(devices)
    state.devices.set_claim(
        DeviceClaimInfo(key, key[1], ONE, uid, allocation=allocation, reserved=frozenset({uid}))
    )


def give(state: State, devices: Mapping[ClaimKey, Allocation]) -> None:
    """Write the decision into the claims' statuses."""
    for key, allocation in devices.items():
        claim = state.devices.claims[key]
        reserved = frozenset({claim.owner})
        state.devices.set_claim(replace(claim, allocation=allocation, reserved=reserved))


def gang(
    state: State,
    name: str,
    size: int,
    ask: Ask | None,
    *,
    priority: int = 0,
    key: str | None = None,
    wants: Requirements = SMALL,
) -> Group:
    """Return a gang whose pods have a claim of their own each; with `ask` None, none."""
    topology = Topology(key) if key else None
    spec = GroupSpec((POD_GROUP, "ns", name), size, priority=priority, topology=topology)
    state.set_group(spec)
    if ask is not None:
        wants = replace(wants, asks=(ask,))
    for at in range(size):
        pod, claim = f"{name}-{at}", ("ns", f"{name}-{at}-gpu")
        if ask is not None:
            state.devices.set_claim(DeviceClaimInfo(claim, claim[1], ask, pod))
        state.set_pod(
            PodInfo(
                pod, "ns", pod, wants, group=name, priority=priority, created=name,
                device_claims=(claim,) if ask is not None else (),
            )
        )  # fmt: skip
    return state.forest.groups[spec.key]


def full_of_holders(nodes: int, pods: int = 10) -> State:
    """Return a state as `full` in which each pod has a device, and only these are scarce."""
    state = full(nodes, pods=pods)
    state.devices.sortings.evaluate = evaluate
    state.devices.set_class(CLASS)
    for info in [each for each in state.nodes.infos if each is not None]:
        roomy = {"cpu": 64_000, "memory": 1 << 40, "pods": 110}
        state.set_node(replace(info, allocatable=roomy))
        state.devices.slices.set(slice_of(info.name, pods))
    for pod in list(state.pods.values()):
        _take_its_device(state, pod.info, pods)
    return state


def _take_its_device(state: State, info: PodInfo, pods: int) -> None:
    node, key = info.node or "", ("ns", f"{info.uid}-gpu")
    device = AllocatedDevice("gpu", (DRIVER, node, f"gpu-{int(info.started) % pods}"))
    there = (NodeTerm((), (Expression("metadata.name", "In", (node,)),)),)
    allocation, reserved = Allocation((device,), nodes=there), frozenset({info.uid})
    state.devices.set_claim(
        DeviceClaimInfo(key, key[1], ONE, info.uid, allocation=allocation, reserved=reserved)
    )
    state.set_pod(replace(info, device_claims=(key,)))
