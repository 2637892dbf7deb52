"""Clusters for the tests of the plugins, what pods ask for there, and the answers in names."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduler.core.explain.explain import reasons
from scheduler.core.search.place import Placement, Refusal, SearchBudget, place
from scheduler.core.values.model import (
    Attachment,
    ClaimInfo,
    ClaimKey,
    Disk,
    Expression,
    HostPort,
    NodeTerm,
    PodInfo,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    StorageClassInfo,
    Taint,
    VolumeInfo,
    WeightedPodTerm,
)
from tests.scheduler.state_builder import GIB, StateBuilder, requests

CORE = requests(1)
WEB: Mapping[str, str] = {"app": "web"}
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
SSD = (NodeTerm((Expression("disk", "In", ("ssd",)),)),)


# What a pod asks for.


def wants(**fields: object) -> Requirements:
    return Requirements(CORE, **fields)  # type: ignore[arg-type]


def app(*values: str, namespaces: tuple[str, ...] = ("ns",)) -> PodSelector:
    return PodSelector((Expression("app", "In", values),), namespaces)


def required_affinity(*values: str, key: str = "rack") -> Requirements:
    return wants(required_affinity=(PodTerm(app(*values), key),))


def required_anti_affinity(
    *values: str, key: str = "rack", selector: PodSelector | None = None
) -> Requirements:
    return wants(required_anti_affinity=(PodTerm(selector or app(*values), key),))


def preferred_affinity(weight: int, key: str = "rack") -> Requirements:
    """Return an affinity to pods of `WEB`; with a negative weight an anti-affinity."""
    return wants(preferred_affinity=(WeightedPodTerm(weight, PodTerm(app("web"), key)),))


def required_spread(skew: int = 1, key: str = "rack", **fields: object) -> Requirements:
    return wants(spread=(Spread(app("web"), key, skew, **fields),))  # type: ignore[arg-type]


def preferred_spread(key: str = "rack", **fields: object) -> Requirements:
    return wants(preferred_spread=(Spread(app("web"), key, **fields),))  # type: ignore[arg-type]


def prefers_disk(value: str, weight: int = 1) -> tuple[int, NodeTerm]:
    """Return a preferred term of node affinity."""
    return (weight, NodeTerm((Expression("disk", "In", (value,)),)))


def port(number: int = 80, address: str = "0.0.0.0", protocol: str = "TCP") -> Requirements:
    return wants(ports=(HostPort(protocol, number, address),))


def mounting(name: str, kind: str = "iscsi", *location: str, shared: bool = False) -> Requirements:
    """Return a disk in a volume without a claim."""
    return wants(disks=(Disk(kind, name, location, shared=shared),))


def attaching(driver: str, *handles: str) -> Requirements:
    """Return disks in volumes without a claim that a CSI driver attaches."""
    return wants(attachments=tuple(Attachment(driver, handle) for handle in handles))


def using(*claims: str) -> Requirements:
    return wants(claims=tuple(("ns", name) for name in claims))


# Nodes and pods.


def racks(builder: StateBuilder, *sizes: int, cpu: int = 4) -> None:
    """Add nodes r0a, r0b, ... in racks r0, r1, ... of these sizes."""
    for rack, size in enumerate(sizes):
        for index in range(size):
            name = f"r{rack}{'abcdef'[index]}"
            builder.node(name, cpu, labels={"rack": f"r{rack}", "host": name})


def two_racks(builder: StateBuilder) -> None:
    """Add a and b in r0, c in r1, d in none."""
    for name, rack in (("a", "r0"), ("b", "r0"), ("c", "r1")):
        builder.node(name, labels={"rack": rack})
    builder.node("d")


def members(builder: StateBuilder, count: int, requirements: Requirements) -> None:
    for _ in range(count):
        builder.pod("g", requirements=requirements, labels=WEB)


# Volumes and claims.

DATA: ClaimKey = ("ns", "data")
DISK = VolumeInfo(
    "disk",
    storage_class="local",
    size=2 * GIB,
    access=("ReadWriteMany", "ReadWriteOnce"),
    labels={"tier": "gold"},
    available=True,
)
_CLAIM = ClaimInfo(DATA, storage_class="local", uid="u", size=2 * GIB, access=("ReadWriteOnce",))


def cluster_of(nodes: str = "a b c", cpu: int = 4) -> StateBuilder:
    """Return nodes by name, and two classes: `local` without provisioner, `made` with one.

    Both bind late.
    """
    builder = StateBuilder()
    for name in nodes.split():
        builder.node(name, cpu, labels={HOST: name})
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "csi.example")):
        builder.state.volumes.set_class(StorageClassInfo(name, provisioner, waits=True))
    return builder


def cluster_in_zones() -> StateBuilder:
    """Return a in zone x, b in zone y, c in none; class `now` binds at once, `later` late."""
    builder = StateBuilder()
    builder.node("a", labels={ZONE: "x", "disk": "ssd"})
    builder.node("b", labels={ZONE: "y"})
    builder.node("c")
    builder.state.volumes.set_class(StorageClassInfo("now", "csi.example"))
    builder.state.volumes.set_class(StorageClassInfo("later", "csi.example", waits=True))
    return builder


def on(*nodes: str) -> tuple[NodeTerm, ...]:
    """Return the node affinity of a volume."""
    return (NodeTerm((Expression(HOST, "In", nodes),)),)


def disk(builder: StateBuilder, name: str, node: str = "", **fields: Any) -> None:
    """Add a free volume of 2 GiB on that node, or on all."""
    volume = replace(DISK, name=name, affinity=on(node) if node else None, **fields)
    builder.state.volumes.set_volume(volume)


def claim(builder: StateBuilder, name: str = "data", **fields: Any) -> None:
    builder.state.volumes.set_claim(replace(_CLAIM, key=("ns", name), uid=f"u-{name}", **fields))


def bound(builder: StateBuilder, name: str, *, one_pod: bool = False, **volume: Any) -> None:
    """Add a claim and the volume it is bound to."""
    builder.state.volumes.set_claim(ClaimInfo(("ns", name), f"pv-{name}", "now", one_pod=one_pod))
    builder.state.volumes.set_volume(VolumeInfo(f"pv-{name}", **volume))


def unbound(
    builder: StateBuilder,
    selected: str = "",
    *,
    topologies: tuple[NodeTerm, ...] = (),
    provisioner: str = "csi.example",
) -> None:
    """Add a claim that waits for its first consumer."""
    storage = builder.state.volumes
    storage.set_class(StorageClassInfo("later", provisioner, waits=True, topologies=topologies))
    storage.set_claim(ClaimInfo(("ns", "data"), "", "later", selected))


def user(builder: StateBuilder, *claims: str, group: str | None = None, cpu: int = 1) -> PodInfo:
    """Return a pod with these claims."""
    return builder.pod(group, requirements=replace(using(*claims), requests=requests(cpu)))


# Answers.


def permitted_nodes(requirements: Requirements) -> list[str]:
    """Return the nodes that permit a pod: a and b are in zone x, c in none.

    Another node is cordoned and one tainted.
    """
    builder = StateBuilder()
    builder.node("a", labels={"zone": "x", "size": "3"})
    builder.node("b", labels={"zone": "x", "size": "7"})
    builder.node("c", labels={"size": "big"})
    builder.node("cordoned", unschedulable=True)
    builder.node("tainted", taints=(Taint("gpu", "yes", "NoSchedule"),))
    nodes = builder.state.nodes

    shape = builder.state.shapes.intern(requirements)

    return sorted(
        nodes.name_of(row) for row in builder.state.framework.permitted(shape).nonzero()[0].tolist()
    )


def chosen_disk(requirements: Requirements, profile: str) -> set[str]:
    """Return the chosen nodes, named after their disks; nvme has a taint PreferNoSchedule."""
    builder = StateBuilder()
    for name in ("nvme", "ssd", "hdd"):
        taints = (Taint("slow", "", "PreferNoSchedule"),) if name == "nvme" else ()
        builder.node(name, labels={"disk": name}, taints=taints)
    builder.gang("g", 1)
    builder.pod("g", requirements=requirements)

    decision = builder.place(
        "g", budget=SearchBudget(profile="spread" if profile == "spread" else "pack")
    )

    return set(builder.where(decision).values())


def open_nodes(builder: StateBuilder, info: PodInfo) -> str:
    """Return the nodes that the pod fits now."""
    nodes = builder.state.nodes
    slots = builder.state.framework.slots(builder.single(info).shape)
    return " ".join(sorted(nodes.name_of(row) for row in slots.nonzero()[0].tolist()))


def why(builder: StateBuilder, info: PodInfo) -> set[str]:
    """Return the reasons why the pod does not fit other nodes."""
    found = {reason for reason, _ in reasons(builder.state.framework, builder.single(info).shape)}
    return found - {"Insufficient cpu"}


def nodes_beside(
    there: Mapping[str, Mapping[str, str]], labels: Mapping[str, str], requirements: Requirements
) -> str:
    """Return the nodes in `two_racks` that a pod fits, with pods of these labels by node."""
    builder = StateBuilder()
    two_racks(builder)
    builder.state.set_namespace("ns", {"team": "red"})
    for node, of_pod in there.items():
        builder.pod(node=node, labels=of_pod)

    return open_nodes(builder, builder.pod(requirements=requirements, labels=labels))


def goes_to(builder: StateBuilder, info: PodInfo) -> str:
    decision = place(builder.state, builder.single(info), SearchBudget())
    return builder.where(decision)[info.name]


def goes_beside(
    there: Mapping[str, Mapping[str, str]], labels: Mapping[str, str], requirements: Requirements
) -> str:
    """Return the node of a pod in two racks of two and x in none, with pods of these labels."""
    builder = StateBuilder()
    racks(builder, 2, 2)
    builder.node("x")
    for node, of_pod in there.items():
        builder.pod(node=node, labels=of_pod)

    return goes_to(builder, builder.pod(requirements=requirements, labels=labels))


def racks_of(builder: StateBuilder, decision: Placement | Refusal) -> list[str]:
    assert isinstance(decision, Placement), decision
    nodes = builder.state.nodes.infos
    return sorted(n.labels.get("rack", "") for r in decision.rows if (n := nodes[r]) is not None)


TWO_EACH = ["r000"] * 2 + ["r001"] * 2 + ["r002"] * 2


def racks_of_gang(requirements: Requirements, count: int) -> list[str] | None:
    """Return the racks of a gang in three racks of two nodes."""
    builder = StateBuilder()
    for index in range(6):
        builder.node(f"n{index}", labels={"rack": f"r{index // 2:03}", "host": f"n{index}"})
    builder.gang("g", count)
    members(builder, count, requirements)

    decision = builder.place("g")

    return racks_of(builder, decision) if isinstance(decision, Placement) else None


def spread_of(builder: StateBuilder, decision: object, key: str) -> list[int]:
    """Return the number of placed pods by domain, highest first."""
    assert isinstance(decision, Placement), decision
    nodes = builder.state.nodes.infos
    found = Counter(n.labels.get(key, "") for r in decision.rows if (n := nodes[r]) is not None)
    return sorted(found.values(), reverse=True)


def spread_of_gang(requirements: Requirements, count: int, key: str) -> list[int]:
    """Return the spread of a gang in two racks of two nodes and one of one."""
    builder = StateBuilder()
    racks(builder, 2, 2, 1)
    builder.gang("g", count)
    members(builder, count, requirements)

    return spread_of(builder, builder.place("g"), key)


def run(builder: StateBuilder, info: PodInfo) -> str:
    """Decide the pod alone; return its node, or "" if it has none."""
    decision = builder.place_single(info)
    if isinstance(decision, Refusal):
        return ""
    builder.run(decision)
    return builder.where(decision)[info.name]


def assumed_volumes(builder: StateBuilder) -> dict[str, tuple[str, str]]:
    """Return volume and node by the claim's name."""
    name_of = builder.state.nodes.name_of
    return {key[1]: (p.volume, name_of(p.row)) for key, p in builder.state.volumes.assumed}
