"""Groups that pods request by annotations."""

from typing import Any

import pytest

from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_GROUP_BY,
    ANNOTATION_MADE_FOR,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_MIN_COUNT_BASIS,
    ANNOTATION_PODS_DIFFER,
    ANNOTATION_PREFERRED_TOPOLOGY,
    FINALIZER_POD_GROUP,
)
from api.names import pod_group_of_value
from controllers.groups.groups_from_pods import GroupsFromPods
from controllers.groups.idle_groups import IDLE_ALONE_SECONDS, IDLE_SECONDS
from controllers.groups.owner_chain import CommonOwner, OwnerChains
from kube.base.errors import Forbidden
from tests.controllers.asking import LAG, SET, asking, existing, group, minimum, owned, submit
from tests.controllers.conftest import ControllerHarness
from tests.support.builders import PodBuilder, make_pod


async def test_the_first_pod_makes_the_group_as_it_says(harness: ControllerHarness) -> None:
    pods = [
        asking(f"p-{at}")
        .annotation(ANNOTATION_PREFERRED_TOPOLOGY, "rack")
        .annotation(ANNOTATION_DISRUPTION_MODE, "All")
        .priority_class("high")
        for at in range(4)
    ]
    submit(harness, *pods)

    await harness.settle()

    assert harness.api.writes == [("create", "PodGroup", "g")]
    made = group(harness)
    assert made["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": "rack", "preferred": True}]},
        "disruptionMode": {"all": {}},
        "priorityClassName": "high",
    }
    assert made["metadata"]["finalizers"] == [FINALIZER_POD_GROUP]
    notes = {ANNOTATION_MADE_FOR: "/Pod/g/", ANNOTATION_MIN_COUNT_BASIS: "4"}
    assert made["metadata"]["annotations"] == notes
    assert "ownerReferences" not in made["metadata"]


@pytest.mark.parametrize(
    "pod",
    [
        make_pod("p").in_group("g"),
        make_pod("p").annotation(ANNOTATION_MIN_COUNT, "2"),
        asking("p").scheduler("default-scheduler"),
        asking("p").phase("Succeeded"),
        asking("p").phase("Failed"),
        asking("p", count="none"),
        asking("p").annotation("scheduling.muster.dev/managed-group", "g"),
    ],
    ids=[
        "no min-count",
        "no group",
        "another scheduler's",
        "succeeded",
        "failed",
        "a wrong value",
        "admission named its group",
    ],
)
async def test_other_pods_make_none(harness: ControllerHarness, pod: PodBuilder) -> None:
    submit(harness, pod)

    await harness.settle()

    assert harness.api.writes == []


async def test_each_value_of_a_label_is_a_group(harness: ControllerHarness) -> None:
    submit(
        harness,
        *(
            asking(f"p-{at}").annotation(ANNOTATION_GROUP_BY, "index").label("index", str(at % 2))
            for at in range(4)
        ),
    )

    await harness.settle()

    wanted = [pod_group_of_value("g", "index", value) for value in ("0", "1")]
    assert harness.api.names("PodGroup") == sorted(wanted)
    assert len(harness.api.writes) == 2


async def test_a_thousand_pods_of_a_group_cost_one_write_and_hardly_any_look(
    harness: ControllerHarness,
) -> None:
    existing(harness, SET)
    submit(harness, *(owned(asking(f"p-{at}"), SET) for at in range(500)))
    await harness.settle()
    looked = harness.from_pods.controller.queue
    submit(harness, *(owned(asking(f"q-{at}"), SET) for at in range(500)))

    assert len(looked) == 0
    await harness.settle(seconds=LAG)
    assert harness.api.writes == [("create", "PodGroup", "g")]
    assert len(harness.api.reads) == 2  # the kind, and the owner


async def test_many_groups_cost_one_write_each(harness: ControllerHarness) -> None:
    count = 200
    for members in (range(2), range(2, 4)):  # half of the pods before their group, half after
        submit(
            harness,
            *(
                asking(f"p-{part}-{at}").annotation(ANNOTATION_GROUP_BY, "n").label("n", str(part))
                for part in range(count)
                for at in members
            ),
        )
        await harness.settle(seconds=LAG)

    assert {verb for verb, _, _ in harness.api.writes} == {"create"}
    assert len(harness.api.writes) == len(harness.api.names("PodGroup")) == count


@pytest.mark.parametrize("alone", [True, False])
async def test_it_goes_with_its_last_pod_after_a_while(
    harness: ControllerHarness, alone: bool
) -> None:
    existing(harness, SET)
    submit(harness, asking("p") if alone else owned(asking("p"), SET))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")
    stays = IDLE_ALONE_SECONDS if alone else IDLE_SECONDS

    await harness.settle(seconds=0.6)
    await harness.settle(seconds=stays - 1)
    assert harness.api.names("PodGroup") == ["g"]
    await harness.settle(seconds=1.5)

    assert harness.api.names("PodGroup") == []


async def test_none_is_made_for_pods_that_go_while_their_owner_is_looked_for(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    common, failed = OwnerChains.common, list[Exception]()

    async def late(self: OwnerChains, *asked: Any) -> CommonOwner:
        found = await common(self, *asked)
        harness.api.remove("Pod", "default", "p")
        return found

    make = GroupsFromPods._create

    async def noted(self: GroupsFromPods, *asked: Any) -> None:
        try:
            await make(self, *asked)
        except ValueError as error:
            failed.append(error)
            raise

    monkeypatch.setattr(OwnerChains, "common", late)
    monkeypatch.setattr(GroupsFromPods, "_create", noted)
    submit(harness, asking("p"))
    await harness.settle()

    assert failed == []
    assert harness.api.writes == []


async def test_it_stays_where_pods_are_made_again(harness: ControllerHarness) -> None:
    existing(harness, SET)
    submit(harness, owned(asking("p"), SET))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=IDLE_SECONDS - 10)
    submit(harness, owned(asking("p"), SET))
    await harness.settle(seconds=1)
    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=IDLE_SECONDS - 10)

    assert harness.api.names("PodGroup") == ["g"]
    assert harness.api.writes.count(("create", "PodGroup", "g")) == 1


async def test_pods_that_say_nothing_keep_it_too(harness: ControllerHarness) -> None:
    submit(harness, asking("p"), make_pod("q").in_group("g"))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=IDLE_SECONDS)
    assert harness.api.names("PodGroup") == ["g"]

    harness.api.remove("Pod", "default", "q")
    await harness.settle(seconds=1)
    await harness.settle(seconds=IDLE_ALONE_SECONDS)
    assert harness.api.names("PodGroup") == []


async def test_a_rolling_update_changes_the_minimum_with_the_last_pod_of_before(
    harness: ControllerHarness,
) -> None:
    submit(harness, asking("p-0"), asking("p-1"))
    await harness.settle()

    submit(harness, asking("q-0", count="6"))
    await harness.settle(seconds=1)
    assert minimum(harness) == 4
    assert "min-count 6" in group(harness)["metadata"]["annotations"][ANNOTATION_PODS_DIFFER]
    assert harness.recorded.events == [
        ("PodGroup", "g", "PodsDiffer"),
        ("Pod", "q-0", "PodsDiffer"),
    ]

    harness.api.remove("Pod", "default", "p-0")
    submit(harness, asking("q-1", count="6"))
    await harness.settle(seconds=1)
    assert minimum(harness) == 4
    harness.api.remove("Pod", "default", "p-1")
    await harness.settle(seconds=1)

    assert minimum(harness) == 6
    assert ANNOTATION_PODS_DIFFER not in group(harness)["metadata"]["annotations"]
    assert len(harness.recorded.events) == 2


async def test_a_minimum_lowered_by_hand_stays_until_pods_say_another(
    harness: ControllerHarness,
) -> None:
    submit(harness, asking("a"), asking("b"))
    await harness.settle(seconds=LAG)
    lower(harness, 2)
    await harness.settle(seconds=LAG)
    submit(harness, asking("c"))
    harness.api.remove("Pod", "default", "a")
    await harness.new_term()
    await harness.settle(seconds=LAG)
    assert minimum(harness) == 2
    assert harness.recorded.events == []
    assert ANNOTATION_PODS_DIFFER not in group(harness)["metadata"]["annotations"]

    lower(harness, 5)
    await harness.settle(seconds=LAG)
    assert minimum(harness) == 4, "more than its pods say is no way out for anybody"

    lower(harness, 1)
    submit(harness, asking("d", count="6"), asking("e", count="6"))
    for gone in ("b", "c"):
        harness.api.remove("Pod", "default", gone)
    await harness.settle(seconds=LAG)
    assert minimum(harness) == 6, "all pods say something new"


def lower(harness: ControllerHarness, count: int) -> None:
    found = group(harness)
    policy = {"schedulingPolicy": {"gang": {"minCount": count}}}
    harness.api.put(found | {"spec": found["spec"] | policy})


async def test_a_group_of_an_earlier_version_learns_what_its_pods_say(
    harness: ControllerHarness,
) -> None:
    submit(harness, asking("a"))
    await harness.settle(seconds=LAG)
    found = group(harness)
    del found["metadata"]["annotations"][ANNOTATION_MIN_COUNT_BASIS]
    harness.api.put(found)
    await harness.settle(seconds=LAG)
    lower(harness, 2)
    await harness.settle(seconds=LAG)

    assert minimum(harness) == 2


async def test_what_cannot_change_is_said_and_not_written(harness: ControllerHarness) -> None:
    submit(harness, asking("p"))
    await harness.settle()
    submit(harness, asking("q").annotation(ANNOTATION_PREFERRED_TOPOLOGY, "rack"))
    await harness.settle(seconds=1)

    assert "schedulingConstraints" not in group(harness)["spec"]
    said = group(harness)["metadata"]["annotations"][ANNOTATION_PODS_DIFFER]
    assert said.startswith(
        "the pods have topology rack (preferred), and the group has none: delete"
    )
    assert harness.recorded.messages[0] == said


async def test_many_different_pods_are_looked_at_together(harness: ControllerHarness) -> None:
    submit(harness, asking("p", count="1"))
    await harness.settle(seconds=LAG)
    before = len(harness.api.writes)
    submit(harness, *(asking(f"p-{at}", count=str(at)) for at in range(1, 500)))
    assert len(harness.from_pods.controller.queue) == 0

    await harness.settle(seconds=1)

    assert len(harness.api.writes) == before + 1
    said = group(harness)["metadata"]["annotations"][ANNOTATION_PODS_DIFFER]
    assert "and 494 more" in said
    assert len(harness.recorded.events) == 2


async def test_a_group_of_others_is_never_touched(harness: ControllerHarness) -> None:
    gang = {"gang": {"minCount": 3}}
    meta = {"name": "g", "namespace": "default"}
    harness.api.put({"kind": "PodGroup", "metadata": meta, "spec": {"schedulingPolicy": gang}})
    submit(harness, asking("p", count="3"))
    await harness.settle(seconds=1)
    assert harness.recorded.events == []

    submit(harness, asking("q"))
    await harness.settle(seconds=1)
    assert harness.api.writes == []
    assert harness.recorded.events == [("Pod", "q", "PodsDiffer")]

    harness.api.remove("PodGroup", "default", "g")
    await harness.settle()
    assert harness.api.writes[0] == ("create", "PodGroup", "g")


async def test_a_group_of_others_stays_without_pods(harness: ControllerHarness) -> None:
    gang = {"gang": {"minCount": 3}}
    meta = {"name": "g", "namespace": "default"}
    harness.api.put({"kind": "PodGroup", "metadata": meta, "spec": {"schedulingPolicy": gang}})
    submit(harness, asking("p"))
    await harness.settle(seconds=1)
    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=1)
    await harness.settle(seconds=IDLE_SECONDS)

    assert harness.api.writes == []


async def test_one_deleted_by_hand_is_made_again_and_says_what_its_pods_say_now(
    harness: ControllerHarness,
) -> None:
    submit(harness, asking("p").bound_to("n"), asking("q"))
    await harness.settle()
    before = group(harness)["metadata"]["uid"]
    submit(harness, asking("p", count="9").bound_to("n"), asking("q", count="9"))
    harness.api.remove("PodGroup", "default", "g")
    await harness.settle(seconds=LAG)

    assert group(harness)["metadata"]["uid"] != before
    assert minimum(harness) == 9


async def test_a_group_that_is_refused_is_said_on_a_pod_once_and_tried_again(
    harness: ControllerHarness,
) -> None:
    harness.api.fail(Forbidden(403, "Forbidden", "no such class"))
    submit(harness, asking("p"), asking("q"))
    await harness.settle()
    assert harness.recorded.events == [("Pod", "p", "GroupNotMade")]
    assert "no such class" in harness.recorded.messages[0]
    await harness.settle(seconds=30)
    assert len(harness.api.writes) == 1

    harness.api.fail(Forbidden(403, "Forbidden", "no such class"))
    await harness.settle(seconds=31)
    assert len(harness.api.writes) == 2
    assert len(harness.recorded.events) == 1

    await harness.settle(seconds=61)
    assert harness.api.names("PodGroup") == ["g"]


async def test_nothing_is_made_in_a_namespace_that_goes(harness: ControllerHarness) -> None:
    meta = {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
    harness.api.put({"kind": "Namespace", "metadata": meta})
    submit(harness, asking("p"))

    await harness.settle()

    assert harness.api.writes == []


async def test_a_slow_watch_makes_no_second_one(harness: ControllerHarness) -> None:
    submit(harness, asking("p"))
    harness.api.pause_events()
    await harness.settle()
    harness.from_pods.controller.queue.add(("default", "g"))
    await harness.settle()
    assert harness.api.writes == [("create", "PodGroup", "g")]

    harness.api.resume_events()
    await harness.settle(seconds=LAG)
    assert harness.api.writes == [("create", "PodGroup", "g")]


async def test_two_that_lead_for_a_moment_make_one(harness: ControllerHarness) -> None:
    other = ControllerHarness()
    other.api.share(harness.api)
    submit(harness, asking("p"))
    harness.api.pause_events()

    await other.settle()
    await harness.settle()
    await harness.settle(seconds=LAG / 2)  # another's event takes a while, too
    harness.api.relist()
    await harness.settle(seconds=LAG)

    assert harness.api.names("PodGroup") == ["g"]
    assert harness.api.writes == [("create", "PodGroup", "g")]
    other.close()


async def test_a_new_leader_takes_up_what_is_there(harness: ControllerHarness) -> None:
    submit(harness, asking("p"))
    await harness.settle()
    harness.api.remove("Pod", "default", "p")
    later = ControllerHarness()
    later.api.share(harness.api)
    later.api.relist()

    await later.from_pods.resync()
    await later.settle()
    await later.settle(seconds=IDLE_ALONE_SECONDS + 1)

    assert later.api.names("PodGroup") == []
    later.close()


async def test_where_none_are_made_those_that_are_there_still_follow_and_go(
    harness: ControllerHarness,
) -> None:
    submit(harness, asking("p"))
    await harness.settle()
    harness.from_pods._is_to_provision = False
    submit(harness, asking("other", "other"), asking("p", count="2"))
    await harness.settle(seconds=1)
    assert harness.api.names("PodGroup") == ["g"]
    assert minimum(harness) == 2

    harness.api.remove("Pod", "default", "p")
    await harness.settle(seconds=1)
    await harness.settle(seconds=IDLE_ALONE_SECONDS)
    assert harness.api.names("PodGroup") == []


async def test_a_new_leader_makes_what_pods_ask_for(harness: ControllerHarness) -> None:
    submit(harness, asking("p"))
    queue = harness.from_pods.controller.queue
    queue.done(await queue.get())  # by a leader that ended before it acted

    await harness.from_pods.resync()
    await harness.settle()

    assert harness.api.names("PodGroup") == ["g"]
