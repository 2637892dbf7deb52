"""NodeVolumeLimits: the number of volumes of each CSI driver that a node can attach."""

import gc
import random
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.framework.node_volume_limits import Attached
from scheduler.core.search.place import Placement
from scheduler.core.values import changed_keys
from scheduler.core.values.model import (
    Attachment,
    ClaimInfo,
    NodeInfo,
    PodInfo,
    Requirements,
    StorageClassInfo,
    VolumeInfo,
)
from scheduler.core.volumes.volume_table import UNLIMITED
from tests.scheduler.core.framework.cluster import (
    SSD,
    attaching,
    bound,
    cluster_in_zones,
    open_nodes,
    unbound,
    using,
    why,
)
from tests.scheduler.state_builder import StateBuilder


def test_a_node_attaches_no_more_volumes_than_it_can() -> None:
    builder = cluster_in_zones()
    for name in ("one", "two", "three"):
        bound(builder, name, driver="csi.example")
    builder.state.volumes.set_limits("a", {"csi.example": 2})
    builder.pod(node="a", requirements=using("one"))
    builder.pod(node="a", requirements=using("one", "two"))

    shared = builder.pod(requirements=using("two"))
    more = builder.pod(requirements=using("three"))

    assert open_nodes(builder, shared) == "a b c"
    assert open_nodes(builder, more) == "b c"
    assert why(builder, more) == {"node(s) exceed max volume count"}


def test_a_driver_that_must_be_there_keeps_pods_off_nodes_without_it() -> None:
    """KEP-5030: `CSIDriver.spec.preventPodSchedulingIfMissing`, as kube-scheduler since 1.37."""
    builder = cluster_in_zones()
    volumes = builder.state.volumes
    bound(builder, "data", driver="csi.example")
    bound(builder, "other", driver="csi.other")
    volumes.set_limits("a", {"csi.example": UNLIMITED})
    volumes.set_limits("b", {"csi.other": 5})
    builder.pod(node="c", requirements=using("data"), ours=False)
    pod = builder.pod(requirements=using("data"))
    other = builder.pod(requirements=using("other"))
    assert open_nodes(builder, pod) == "a b c"

    volumes.set_driver("csi.example", required=True)

    # Not on the node that has the volume attached either.
    assert open_nodes(builder, pod) == "a"
    (reason,) = why(builder, pod)
    assert reason == "csi.example CSI driver is not installed on the node"
    advice = builder.state.framework.advice(builder.single(pod).shape, reason)
    assert advice.startswith("install the driver on nodes")
    assert open_nodes(builder, other) == "a b c"
    volumes.set_limits("b", {"csi.example": 0, "csi.other": 5})
    assert open_nodes(builder, pod) == "a"
    volumes.set_limits("c", {"csi.example": 1})
    assert open_nodes(builder, pod) == "a c"
    volumes.set_driver("csi.example", required=False)
    assert open_nodes(builder, pod) == "a c"


def test_a_gang_waits_where_no_node_has_the_driver_and_starts_with_it() -> None:
    builder = cluster_in_zones()
    builder.gang("g", 2)
    builder.state.volumes.set_driver("csi.example", required=True)
    for name in ("one", "two"):
        bound(builder, name, driver="csi.example")
        builder.pod("g", requirements=using(name))
    assert not isinstance(builder.place("g"), Placement)

    builder.state.volumes.set_limits("a", {"csi.example": UNLIMITED})

    assert isinstance(builder.place("g"), Placement)


def test_a_node_beyond_its_limit_takes_pods_that_add_no_volume() -> None:
    """Other schedulers may have bound pods there, or the limit was lowered."""
    builder = cluster_in_zones()
    for name in ("one", "two"):
        bound(builder, name, driver="csi.example")
    builder.pod(node="a", requirements=using("one", "two"), ours=False)
    builder.state.volumes.set_limits("a", {"csi.example": 1})

    assert open_nodes(builder, builder.pod(requirements=using("one"))) == "a b c"


def test_members_of_a_gang_count_each_others_volumes() -> None:
    builder = cluster_in_zones()
    builder.gang("g", 3)
    for name in ("one", "two", "three"):
        bound(builder, name, driver="csi.example", affinity=SSD)
        builder.pod("g", requirements=using(name))
    placed = isinstance(builder.place("g"), Placement)
    builder.state.volumes.set_limits("a", {"csi.example": 2})

    assert placed
    assert not isinstance(builder.place("g"), Placement)


def test_volumes_still_to_be_made_count_for_the_limit() -> None:
    builder = cluster_in_zones()
    unbound(builder)
    builder.state.volumes.set_limits("a", {"csi.example": 0})

    assert open_nodes(builder, builder.pod(requirements=using("data"))) == "b c"


def test_volumes_that_a_removed_provider_would_make_count_for_its_driver() -> None:
    builder = cluster_in_zones()
    unbound(builder, provisioner="kubernetes.io/aws-ebs")
    builder.state.volumes.set_limits("a", {"ebs.csi.aws.com": 0})

    assert open_nodes(builder, builder.pod(requirements=using("data"))) == "b c"


def test_disks_without_a_claim_count_for_the_driver_that_attaches_them() -> None:
    builder = cluster_in_zones()
    builder.state.volumes.set_limits("a", {"ebs.csi.aws.com": 2})
    builder.state.volumes.set_limits("b", {"ebs.csi.aws.com": 3})
    bound(builder, "claimed", driver="ebs.csi.aws.com")
    both = replace(attaching("ebs.csi.aws.com", "vol-1"), claims=(("ns", "claimed"),))
    for node in "ab":
        builder.pod(node=node, requirements=both, ours=False)

    shared = builder.pod(requirements=attaching("ebs.csi.aws.com", "vol-1"))
    more = builder.pod(requirements=attaching("ebs.csi.aws.com", "vol-1", "vol-2"))
    claims = builder.pod(requirements=replace(more.requirements, claims=(("ns", "claimed"),)))
    other = builder.pod(requirements=attaching("disk.csi.azure.com", "vol-2"))

    assert open_nodes(builder, shared) == "a b c"
    assert open_nodes(builder, more) == "b c"
    assert open_nodes(builder, claims) == "b c"
    assert open_nodes(builder, other) == "a b c"
    assert why(builder, more) == {"node(s) exceed max volume count"}


def test_attachments_leave_nothing_behind() -> None:
    builder = cluster_in_zones()
    state = builder.state
    before = (len(state.selectors), len(state.nodes.match_counts))
    handles = [f"vol-{number}" for number in range(256)]
    info = builder.pod(node="a", requirements=attaching("ebs.csi.aws.com", *handles))
    during = len(state.nodes.match_counts)
    state.remove_pod(info.uid)
    state.take_changes()

    assert during == before[1] + 256
    assert (len(state.selectors), len(state.nodes.match_counts)) == before


class Changes:
    """Random changes of volumes, pods and limits, and the expected counts."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.builder = StateBuilder()
        self.state = self.builder.state
        self.serial = 0
        self.nodes = [f"n{index}" for index in range(4)]
        for name in self.nodes:
            self.builder.node(name)

    def step(self) -> None:
        acts = (self.pod, self.pod, self.gone, self.claim, self.volume, self.sort, self.node)
        self.chance.choice(acts)()

    def pod(self) -> None:
        self.serial += 1
        claims = {("ns", f"c{self.chance.randrange(5)}") for _ in range(self.chance.randint(0, 2))}
        disks = (
            {Attachment("d1", f"h{self.chance.randrange(2)}")} if self.serial % 3 == 0 else set()
        )
        wants = Requirements(claims=tuple(sorted(claims)), attachments=tuple(disks))
        node = self.chance.choice((*self.nodes, ""))
        self.builder.pod(name=f"p{self.serial}", node=node, requirements=wants)

    def gone(self) -> None:
        if self.state.pods:
            self.state.remove_pod(self.chance.choice(sorted(self.state.pods)))

    def claim(self) -> None:
        key = ("ns", f"c{self.chance.randrange(5)}")
        if self.chance.random() < 0.2:
            self.state.volumes.remove_claim(key)
            return
        volume = self.chance.choice(("", "v0", "v1", "v2"))
        storage = self.chance.choice(("", "s0", "s1"))
        self.state.volumes.set_claim(ClaimInfo(key, volume, storage))

    def volume(self) -> None:
        name = f"v{self.chance.randrange(3)}"
        if self.chance.random() < 0.3:
            self.state.volumes.remove_volume(name)
        else:
            driver = self.chance.choice(("", "d1", "d2"))
            self.state.volumes.set_volume(VolumeInfo(name, driver=driver))

    def sort(self) -> None:
        name = f"s{self.chance.randrange(2)}"
        if self.chance.random() < 0.3:
            self.state.volumes.remove_class(name)
        else:
            provisioner = self.chance.choice(("d1", "d2"))
            self.state.volumes.set_class(StorageClassInfo(name, provisioner))

    def node(self) -> None:
        name = self.chance.choice(self.nodes)
        if name in self.state.nodes.row_of and self.chance.random() < 0.5:
            self.state.remove_node(name)
        else:
            self.builder.node(name)
        if self.chance.random() < 0.2:
            self.nodes.append(f"n{len(self.nodes)}")

    def by_rule(self, driver: str) -> dict[str, int]:
        """Return by node the number of different volumes of the driver that its pods use."""
        volumes = self.state.volumes
        found: dict[str, set[object]] = {name: set() for name in self.state.nodes.row_of}
        for pod in self.state.pods.values():
            for use in pod.info.requirements.volumes if pod.row >= 0 else ():
                if isinstance(use, Attachment):
                    attached = use.driver
                else:
                    claim = volumes.claims.get(use)
                    attached = "" if claim is None else volumes.driver(claim)
                if attached == driver:
                    found[pod.node].add(use)
        return {name: len(uses) for name, uses in found.items()}


@pytest.mark.parametrize("seed", range(40))
def test_numbers_of_attached_volumes_follow_every_change(seed: int) -> None:
    case = Changes(seed)
    attached = Attached(case.state.nodes, case.state.selectors, case.state.volumes)
    for number in range(60):
        case.step()
        if number % 7 == 0:
            case.state.take_changes()  # frees entries that no pod uses any more
        for driver in ("d1", "d2") if case.chance.random() < 0.6 else ():
            counts = attached.of(driver)
            rows = case.state.nodes.row_of
            assert {name: int(counts[row]) for name, row in rows.items()} == case.by_rule(driver)
    with case.state.nodes.trial():
        for pod in case.state.pods.values():
            if pod.waiting and case.state.nodes.row_of:
                row = next(iter(case.state.nodes.row_of.values()))
                case.state.framework.reserve(pod.shape, np.array([row]), np.array([1]))
        attached.of("d1")
    for driver in ("d1", "d2"):
        counts = attached.of(driver)
        found = {name: int(counts[row]) for name, row in case.state.nodes.row_of.items()}
        assert found == case.by_rule(driver)


def test_nothing_is_kept_of_claims_that_are_gone_where_no_node_has_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver of a volume is not needed then."""
    monkeypatch.setattr(changed_keys, "_MOST", 20)
    state = StateBuilder().state
    state.set_node(NodeInfo("n", {"cpu": 1000, "pods": 110}))

    def churn(first: int, count: int) -> None:
        for number in range(first, first + count):
            key, uid = ("ns", f"data-{number:08}"), f"uid-{number:032}"
            state.volumes.set_volume(VolumeInfo(f"pvc-{number:032}", claim=key))
            state.volumes.set_claim(ClaimInfo(key, volume=f"pvc-{number:032}"))
            state.set_pod(PodInfo(uid, "ns", uid, Requirements((("cpu", 1),), claims=(key,))))
            state.take_changes()
            state.remove_pod(uid)
            state.volumes.remove_claim(key)
            state.volumes.remove_volume(f"pvc-{number:032}")
            state.take_changes()

    churn(0, 300)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    churn(300, 600)
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    assert kept / 600 < 50


def test_volumes_are_counted_after_more_changes_than_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changed_keys, "_MOST", 2)
    builder = cluster_in_zones()
    builder.state.volumes.set_limits("a", {"csi.example": 9})
    attached = Attached(builder.state.nodes, builder.state.selectors, builder.state.volumes)
    for number in range(7):
        bound(builder, f"c{number}", driver="csi.example")
        pod = builder.pod(node="a", requirements=using(f"c{number}"))
        if number % 2:
            builder.state.remove_pod(pod.uid)

    row = builder.state.nodes.row_of["a"]

    assert attached.of("csi.example")[row] == 4
