"""LeaderWorkerSets: the groups of their replicas are created, updated and deleted."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from api import features, names
from api.constants import (
    ANNOTATION_MADE_FOR,
    LWS_ANNOTATION_SIZE,
    LWS_LABEL_GROUP_INDEX,
    LWS_LABEL_WORKER_INDEX,
    MAX_REPLICAS,
)
from api.features import Feature, FeatureGates
from api.integration.lws.admission import lws_groups
from api.integration.lws.view import LEADER_FIRST, TOGETHER
from controllers.cache.decoding import decode_lws
from controllers.cache.objects import LEADER_WORKER_SETS
from tests.controllers.conftest import ControllerHarness
from tests.controllers.owners.test_owners import EVERYTHING, GROUPS, waiting_for
from tests.support.builders import make_pod
from tests.support.lws import LwsBuilder, make_lws

Json = dict[str, Any]


def gang(replicas: int = 2, size: int = 4) -> LwsBuilder:
    return make_lws().replicas(replicas, size).asks(gang_mode="Gang")


def composite(replicas: int = 2, size: int = 4) -> LwsBuilder:
    return make_lws().replicas(replicas, size).asks(gang_mode="Composite")


def group(replica: int, *, leader: bool = False) -> str:
    by = LEADER_FIRST.text() if leader else TOGETHER.key
    return names.pod_group_of_value("serve", by, str(replica))


def groups(replicas: Iterable[int]) -> list[str]:
    return sorted(group(at) for at in replicas)


def minimum(harness: ControllerHarness, kind: str, name: str) -> int:
    gang_: Json = harness.api.objects[kind, "default", name]["spec"]["schedulingPolicy"]["gang"]
    return int(next(iter(gang_.values())))


def pods(
    harness: ControllerHarness, replica: int, count: int = 4, *, first: int = 0, size: Any = None
) -> None:
    """Create the pods of a replica, as the LeaderWorkerSet controller does."""
    for worker in range(first, count):
        builder = (
            make_pod(f"serve-{replica}-{worker}")
            .in_group("serve")
            .annotation("scheduling.muster.dev/group-by", TOGETHER.text())
            .label(LWS_LABEL_GROUP_INDEX, str(replica))
            .label(LWS_LABEL_WORKER_INDEX, str(worker))
            .annotation(LWS_ANNOTATION_SIZE, str(count if size is None else size))
        )
        harness.api.put(builder.build() | {"kind": "Pod"})


def end(harness: ControllerHarness, replica: int, count: int = 4) -> None:
    for worker in range(count):
        harness.api.remove("Pod", "default", f"serve-{replica}-{worker}")


async def test_each_replica_gets_its_group_at_one_write(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(3).build())

    await harness.settle()

    assert harness.api.names(*EVERYTHING) == sorted([*groups(range(3)), "w-lws-serve"])
    assert len(harness.api.writes) == 4
    await harness.settle(seconds=30)
    assert len(harness.api.writes) == 4


async def test_a_tree_is_made_from_the_root_to_the_leaves(harness: ControllerHarness) -> None:
    harness.submit_lws(composite(1).leader_ready().build())

    await harness.settle()

    assert [name for _, _, name in harness.api.writes] == [
        "w-lws-serve",
        "cpg-lws-serve",
        names.lws_composite("default", "serve", 0),
        group(0, leader=True),
        group(0),
    ]


@pytest.mark.parametrize(
    "builder",
    [
        pytest.param(make_lws(), id="nothing asked for"),
        pytest.param(make_lws().asks(gang_mode="Off"), id="off"),
        pytest.param(gang(0), id="no replicas"),
    ],
)
async def test_nothing_is_made(harness: ControllerHarness, builder: LwsBuilder) -> None:
    harness.submit_lws(builder.build())

    await harness.settle()

    assert harness.api.writes == []


async def test_one_that_was_stored_without_marks_is_left_alone(harness: ControllerHarness) -> None:
    harness.api.put(gang().build())

    await harness.settle()

    assert harness.api.writes == []


async def test_scaling_up_makes_more(harness: ControllerHarness) -> None:
    harness.submit_lws(composite(2).build())
    await harness.settle()

    harness.submit_lws(composite(4).build())
    await harness.settle()

    assert harness.api.names("PodGroup") == groups(range(4))
    assert minimum(harness, "CompositePodGroup", "cpg-lws-serve") == 4


async def test_scaling_down_lets_surplus_go_once_it_has_no_pods(
    harness: ControllerHarness,
) -> None:
    harness.submit_lws(gang(3).present(3).build())
    for replica in range(3):
        pods(harness, replica)
    await harness.settle()

    harness.submit_lws(gang(1).present(3).build())
    await harness.settle()
    assert harness.api.names("PodGroup") == groups(range(3))

    harness.api.put(gang(1).present(1).admitted())
    await harness.settle()
    assert harness.api.names("PodGroup") == groups(range(3))

    end(harness, 2)
    await harness.settle()
    assert harness.api.names("PodGroup") == groups(range(2))
    end(harness, 1)
    await harness.settle()
    assert harness.api.names("PodGroup") == groups([0])


async def test_scaled_to_zero_it_has_no_groups(harness: ControllerHarness) -> None:
    harness.submit_lws(composite(2).leader_ready().build())
    await harness.settle()

    harness.submit_lws(composite(0).leader_ready().build())
    await harness.settle(seconds=1)

    assert harness.api.names(*GROUPS) == []
    harness.submit_lws(composite(1).leader_ready().build())
    await harness.settle(seconds=1)
    assert len(harness.api.names(*GROUPS)) == 4


async def test_surge_has_groups_as_long_as_it_is_there(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(2).present(2).build())
    await harness.settle()

    harness.api.put(gang(2).present(3).admitted())
    await harness.settle(seconds=1)
    assert harness.api.names("PodGroup") == groups(range(3))

    harness.api.put(gang(2).present(2).admitted())
    await harness.settle(seconds=1)
    assert harness.api.names("PodGroup") == groups(range(2))


async def test_a_group_lives_through_the_restart_of_its_replica(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(1).build())
    pods(harness, 0)
    await harness.settle()
    before = harness.api.objects["PodGroup", "default", group(0)]["metadata"]["uid"]

    end(harness, 0)
    await harness.settle(seconds=120)
    pods(harness, 0)
    await harness.settle(seconds=120)

    assert harness.api.objects["PodGroup", "default", group(0)]["metadata"]["uid"] == before


async def test_a_group_that_is_deleted_is_made_again(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(1).build())
    await harness.settle()

    harness.api.remove("PodGroup", "default", group(0))
    await harness.settle(seconds=10)

    assert harness.api.names("PodGroup") == groups([0])


async def test_the_size_is_followed(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(1, size=4).build())
    await harness.settle()

    harness.submit_lws(gang(1, size=8).build())
    await harness.settle()

    assert minimum(harness, "PodGroup", group(0)) == 8


async def test_workers_of_before_keep_the_size_of_their_replica(
    harness: ControllerHarness,
) -> None:
    """One that restarts alone is scheduled with the other pods of the old size."""
    harness.submit_lws(gang(2, size=4).build())
    for replica in range(2):
        pods(harness, replica)
    await harness.settle()

    harness.submit_lws(gang(3, size=8).build())
    await harness.settle()

    assert [minimum(harness, "PodGroup", group(at)) for at in range(3)] == [4, 4, 8]
    template = harness.api.objects["Workload", "default", "w-lws-serve"]["spec"]
    assert template["podGroupTemplates"][0]["schedulingPolicy"]["gang"]["minCount"] == 8
    end(harness, 1)
    await harness.settle(seconds=1)
    assert [minimum(harness, "PodGroup", group(at)) for at in range(3)] == [4, 8, 8]


async def test_workers_on_their_way_out_say_nothing(harness: ControllerHarness) -> None:
    """Their successors are created in the current size, and may exist before they are deleted."""
    harness.submit_lws(gang(1, size=4).build())
    await harness.settle()
    pods(harness, 0)
    harness.submit_lws(gang(1, size=8).build())
    await harness.settle()
    assert minimum(harness, "PodGroup", group(0)) == 4

    for worker in range(4):
        pod = harness.api.objects["Pod", "default", f"serve-0-{worker}"]
        leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        harness.api.put(pod | {"metadata": pod["metadata"] | leaving})
    await harness.settle(seconds=1)

    assert minimum(harness, "PodGroup", group(0)) == 8


async def test_a_leader_of_before_does_not_speak_for_new_workers(
    harness: ControllerHarness,
) -> None:
    """It has the earlier revision, but its workers have the current size."""
    harness.submit_lws(gang(1, size=8).build())
    pods(harness, 0, 1, size=4)
    await harness.settle(seconds=1)
    assert minimum(harness, "PodGroup", group(0)) == 8

    pods(harness, 0, 8, first=1)
    await harness.settle(seconds=1)

    assert minimum(harness, "PodGroup", group(0)) == 8


async def test_new_workers_beside_some_of_before_count(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(1, size=4).build())
    pods(harness, 0)
    await harness.settle()
    harness.submit_lws(gang(1, size=8).build())
    await harness.settle()

    pods(harness, 0, 8, first=7)
    await harness.settle(seconds=1)

    assert minimum(harness, "PodGroup", group(0)) == 8


async def test_workers_of_before_may_come_after_the_size_grew(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(1, size=8).asks(min_count="6").build())
    await harness.settle()

    pods(harness, 0)
    await harness.settle(seconds=1)

    assert minimum(harness, "PodGroup", group(0)) == 4


async def test_workers_that_come_after_their_leader_keep_their_number(
    harness: ControllerHarness,
) -> None:
    harness.submit_lws(composite(1, size=8).leader_ready().build())
    await harness.settle()

    pods(harness, 0, 4, first=1)
    await harness.settle(seconds=1)

    assert minimum(harness, "PodGroup", group(0)) == 3
    assert minimum(harness, "PodGroup", group(0, leader=True)) == 1


@pytest.mark.parametrize("size", ["0", "-1", "4.0", "\u0664", "9" * 40, "", "16"])
async def test_a_size_that_cannot_be_changes_nothing(harness: ControllerHarness, size: str) -> None:
    harness.submit_lws(gang(1, size=8).build())
    await harness.settle()
    written = len(harness.api.writes)

    pods(harness, 0, size=size)
    await harness.settle(seconds=1)

    assert len(harness.api.writes) == written


async def test_a_size_that_shrinks_is_that_of_all(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(1, size=4).build())
    pods(harness, 0)
    await harness.settle()

    harness.submit_lws(gang(1, size=2).build())
    await harness.settle()

    assert minimum(harness, "PodGroup", group(0)) == 2


async def test_pods_of_the_sets_own_size_cost_no_look_at_it(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(1, size=4).asks(min_count="2").build())
    await harness.settle()

    pods(harness, 0)
    await harness.clock.advance(1)

    assert len(harness.lws.controller.queue) == 0


@pytest.mark.parametrize("builder", [gang(), composite().leader_ready()])
async def test_deleting_it_leaves_nothing(harness: ControllerHarness, builder: LwsBuilder) -> None:
    harness.submit_lws(builder.build())
    await harness.settle()

    harness.api.remove("LeaderWorkerSet", "default", "serve")
    await harness.settle()

    assert harness.api.objects == {}


async def test_groups_wait_for_those_of_an_earlier_one(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(1).build())
    pods(harness, 0)
    await harness.settle()
    harness.api.remove("LeaderWorkerSet", "default", "serve")
    await harness.settle()
    renewed = gang(1).build()
    renewed["metadata"]["uid"] = "uid-of-the-second"

    harness.submit_lws(renewed)
    await harness.settle()
    await harness.settle(seconds=5)
    assert "4 pods of an earlier LeaderWorkerSet serve" in waiting_for(
        harness, "LeaderWorkerSet", "serve"
    )
    end(harness, 0)
    await harness.settle(seconds=30)

    made_for = harness.api.objects["PodGroup", "default", group(0)]["metadata"]["annotations"]
    assert made_for[ANNOTATION_MADE_FOR].endswith("uid-of-the-second")
    assert waiting_for(harness, "LeaderWorkerSet", "serve") == ""


async def test_a_name_that_is_taken_is_said(harness: ControllerHarness) -> None:
    mine = {"name": group(0), "namespace": "default", "uid": "mine"}
    harness.api.put({"kind": "PodGroup", "metadata": mine, "spec": {}})

    harness.submit_lws(gang(1).build())
    await harness.settle()

    assert ("LeaderWorkerSet", "serve", "NameTaken") in harness.recorded.events
    assert group(0) in waiting_for(harness, "LeaderWorkerSet", "serve")
    assert harness.api.objects["PodGroup", "default", group(0)]["metadata"]["uid"] == "mine"


async def test_a_workloads_name_that_is_taken_costs_nothing(harness: ControllerHarness) -> None:
    theirs = {"name": "w-lws-serve", "namespace": "default", "uid": "theirs"}
    harness.api.put({"kind": "Workload", "metadata": theirs, "spec": {}})

    harness.submit_lws(gang(1).build())
    await harness.settle()

    other = names.hashed("w-lws-serve", "Workload", "default")
    assert harness.api.names("Workload") == sorted(["w-lws-serve", other])
    made = harness.api.objects["PodGroup", "default", group(0)]
    assert made["spec"]["workloadRef"]["workloadName"] == other


async def test_what_a_replica_waits_for_is_told_on_it(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(1).build())
    await harness.settle()
    waiting = harness.api.objects["PodGroup", "default", group(0)]

    harness.api.put(waiting | {"status": {"blocker": {"summary": "no node has room"}}})
    await harness.settle(seconds=5)
    await harness.settle(seconds=5)

    assert "no node has room" in waiting_for(harness, "LeaderWorkerSet", "serve")


@pytest.mark.long
async def test_more_replicas_than_get_groups_are_said(harness: ControllerHarness) -> None:
    """The subresource `scale` bypasses admission."""
    harness.submit_lws(gang(1, size=1).build())
    await harness.settle()

    harness.change("LeaderWorkerSet", "serve", replicas=100_000)
    await harness.settle()

    assert len(harness.api.names("PodGroup")) == MAX_REPLICAS
    assert ("LeaderWorkerSet", "serve", "TooManyReplicas") in harness.recorded.events
    assert "100000 replicas" in waiting_for(harness, "LeaderWorkerSet", "serve")
    harness.change("LeaderWorkerSet", "serve", replicas=1)
    await harness.settle(seconds=30)
    assert harness.api.names("PodGroup") == groups([0])
    assert waiting_for(harness, "LeaderWorkerSet", "serve") == ""


async def test_the_priority_of_the_templates_reaches_the_groups(harness: ControllerHarness) -> None:
    harness.submit_lws(gang(1).worker(priorityClassName="high").build())

    await harness.settle()

    made = harness.api.objects["PodGroup", "default", group(0)]
    assert made["spec"]["priorityClassName"] == "high"


async def test_trees_that_are_off_are_said() -> None:
    off = ControllerHarness(gates=features.USUAL.without(Feature.COMPOSITE_POD_GROUP))
    off.submit_lws(gang(1).leader_ready().build())

    await off.settle()

    assert off.api.names(*GROUPS) == []
    assert ("LeaderWorkerSet", "serve", "FeatureGateOff") in off.recorded.events
    off.close()


async def test_a_users_workload_counts(harness: ControllerHarness) -> None:
    templates = [{"name": "replica", "schedulingPolicy": {"gang": {"minCount": 3}}}]
    reference = {
        "apiGroup": LEADER_WORKER_SETS.group,
        "kind": "LeaderWorkerSet",
        "name": "serve",
    }
    meta = {"name": "mine", "namespace": "default", "uid": "mine"}
    spec = {"controllerRef": reference, "podGroupTemplates": templates}
    harness.api.put({"kind": "Workload", "metadata": meta, "spec": spec})

    harness.submit_lws(gang(1).build())
    await harness.settle()

    assert harness.api.names("Workload") == ["mine"]
    assert minimum(harness, "PodGroup", group(0)) == 3


def test_little_is_kept_of_one_that_asks_for_nothing() -> None:
    plain = decode_lws(msgspec.json.encode(make_lws().present(3).build()))
    asking = decode_lws(msgspec.json.encode(gang(2).present(3).admitted()))
    label_alone = make_lws().admitted()
    label_alone["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = {
        "labels": {"scheduling.muster.dev/pod-group": "mine"}
    }

    assert (plain.spec, plain.status) == (b"", b"")
    assert decode_lws(msgspec.json.encode(label_alone)).spec == b""
    obj = asking.as_object() | {"status": msgspec.json.decode(asking.status)}
    assert len(lws_groups(obj)) == 1 + 3


def expected(harness: ControllerHarness, name: str) -> list[int]:
    spec = harness.api.objects["PodGroup", "default", name]["spec"]
    return [it["count"] for it in spec.get("expectedPods", [])]


async def test_with_the_gate_a_leader_waits_for_room_for_its_workers() -> None:
    on = ControllerHarness(gates=FeatureGates(features.USUAL.on | {Feature.EXPECTED_PODS}))
    on.submit_lws(gang(2).leader_ready().build())
    await on.settle()
    above = [names.lws_composite("default", "serve", at) for at in range(2)]

    assert [minimum(on, "CompositePodGroup", it) for it in above] == [2, 2]
    assert [expected(on, group(0, leader=True)), expected(on, group(1))] == [[1], [3]]

    pods(on, 1)
    on.submit_lws(gang(1, 3).leader_ready().build())
    await on.settle()

    assert [expected(on, group(0)), expected(on, group(1))] == [[2], []], "in use, not wanted"
    end(on, 1)
    on.close()


async def test_the_gate_switched_off_lets_leaders_start_alone_again() -> None:
    on = ControllerHarness(gates=FeatureGates(features.USUAL.on | {Feature.EXPECTED_PODS}))
    on.submit_lws(gang(1).leader_ready().build())
    await on.settle()
    off = ControllerHarness()
    for obj in on.api.objects.values():
        off.api.put(obj)
    await off.settle()

    above = names.lws_composite("default", "serve", 0)
    assert minimum(off, "CompositePodGroup", above) == 1
    on.close()
    off.close()
