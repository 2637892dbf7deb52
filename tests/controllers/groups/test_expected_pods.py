"""The expected pods in a JobSet's groups, for as long as these can be created."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_HOLD_SECONDS,
    ANNOTATION_ON_HOLD_EXPIRED,
    ANNOTATION_WAITING_FOR,
    MAX_EXPECTED_PODS,
)
from api.features import USUAL, Feature, FeatureGates
from tests.controllers.conftest import ControllerHarness
from tests.controllers.groups.test_minimums import SOON, Lives
from tests.support.builders import make_pod
from tests.support.owners import JobSetBuilder, job_template, make_jobset

Json = dict[str, Any]

ON = FeatureGates(USUAL.on | {Feature.EXPECTED_PODS})
GROUP = "pg-a"


@pytest.fixture
async def lives() -> AsyncIterator[Lives]:
    harness = ControllerHarness(gates=ON)
    yield Lives(harness)
    harness.close()


def ordered(mode: str = "Gang", workers: int = 8) -> JobSetBuilder:
    builder = make_jobset("a").asks(gang_mode=mode).in_order()
    return builder.replicated_job("d").replicated_job("w", 1, job_template().pods(workers))


def expected(lives: Lives, group: str = GROUP) -> dict[str, int]:
    spec = lives.api.objects["PodGroup", "default", group]["spec"]
    return {it["name"]: it["count"] for it in spec.get("expectedPods", [])}


def patches(lives: Lives) -> int:
    return sum(write[:2] == ("patch", "PodGroup") for write in lives.api.writes)


async def test_a_gang_that_starts_in_order_is_made_with_the_pods_that_it_expects(
    lives: Lives,
) -> None:
    await lives.jobset(ordered())

    assert expected(lives) == {"d": 1, "w": 8}
    assert lives.count(GROUP) == 9
    assert patches(lives) == 0


async def test_a_tree_that_starts_in_order(lives: Lives) -> None:
    await lives.jobset(ordered("Composite"))

    assert expected(lives, "pg-a-d-0") == {"d": 1}
    assert expected(lives, "pg-a-w-0") == {"w": 8}


async def test_a_gang_without_an_order_expects_nothing(lives: Lives) -> None:
    await lives.jobset(make_jobset("a").asks(gang_mode="Gang").replicated_job("d"))

    assert "expectedPods" not in lives.api.objects["PodGroup", "default", GROUP]["spec"]


async def test_without_the_gate_nothing_is_written(harness: ControllerHarness) -> None:
    lives = Lives(harness)
    await lives.jobset(ordered())

    assert "expectedPods" not in lives.api.objects["PodGroup", "default", GROUP]["spec"]


async def test_a_gang_of_before_the_gate_is_told_once_it_is_on(harness: ControllerHarness) -> None:
    await Lives(harness).jobset(ordered())
    on = ControllerHarness(gates=ON)
    for obj in harness.api.objects.values():
        on.api.put(obj)
    await on.settle()

    assert expected(Lives(on)) == {"d": 1, "w": 8}
    on.close()


async def test_it_follows_the_size_by_one_patch(lives: Lives) -> None:
    made = await lives.jobset(ordered())
    made["spec"]["replicatedJobs"][1]["template"]["spec"] |= {"parallelism": 3, "completions": 3}
    lives.api.put(made)
    await lives.settle()

    assert expected(lives) == {"d": 1, "w": 3}
    assert lives.count(GROUP) == 4
    assert patches(lives) == 1


async def test_one_that_is_scaled_beyond_what_a_gang_can_expect_says_so(lives: Lives) -> None:
    made = await lives.jobset(ordered())
    size = MAX_EXPECTED_PODS + 1
    made["spec"]["replicatedJobs"][1]["template"]["spec"] |= {
        "parallelism": size,
        "completions": size,
    }
    lives.api.put(made)
    await lives.settle()

    assert expected(lives) == {}
    assert ("JobSet", "a", "TooMuchExpected") in lives.harness.recorded.events
    notes = lives.api.objects["JobSet", "default", "a"]["metadata"]["annotations"]
    assert "replicatedJobs[1]" in notes[ANNOTATION_WAITING_FOR]
    assert f"at most {MAX_EXPECTED_PODS}" in notes[ANNOTATION_WAITING_FOR]

    made["spec"]["replicatedJobs"][1]["template"]["spec"] |= {"parallelism": 8, "completions": 8}
    lives.api.put(made)
    await lives.settle()
    assert expected(lives) == {"d": 1, "w": 8}


async def test_pods_that_come_and_succeed_change_nothing_as_long_as_they_are_there(
    lives: Lives,
) -> None:
    await lives.jobset(ordered(workers=2))
    lives.child("a-w-0", GROUP)
    workers = lives.pods(2, GROUP, job="a-w-0")
    await lives.settle()
    lives.end(workers)
    done = [{"type": "Complete", "status": "True"}]
    lives.status("Job", "a-w-0", succeeded=2, conditions=done)
    await lives.settle()
    assert (expected(lives), patches(lives)) == ({"d": 1, "w": 2}, 0)

    lives.remove(workers)
    await lives.settle()

    assert expected(lives) == {"d": 1, "w": 0}
    assert lives.count(GROUP) == 1


async def test_a_restart_expects_all_of_them_again(lives: Lives) -> None:
    made = await lives.jobset(ordered(workers=2))
    lives.child("a-w-0", GROUP)
    done = [{"type": "Complete", "status": "True"}]
    workers = lives.pods(2, GROUP, job="a-w-0", phase="Succeeded")
    lives.status("Job", "a-w-0", succeeded=2, conditions=done)
    await lives.settle()
    lives.remove(workers)
    await lives.settle()
    assert expected(lives) == {"d": 1, "w": 0}

    lives.api.put(made | {"status": {"restarts": 1}})
    await lives.settle()

    assert expected(lives) == {"d": 1, "w": 2}


@pytest.mark.parametrize("cascade", ["Background", "Orphan"])
async def test_what_a_deleted_owner_left_expects_nothing(lives: Lives, cascade: str) -> None:
    await lives.jobset(ordered())
    pod = make_pod("p").in_group(GROUP).build()
    lives.api.put(pod | {"kind": "Pod", "status": {"phase": "Running"}})
    await lives.settle()
    if cascade == "Orphan":
        group = lives.api.objects["PodGroup", "default", GROUP]
        lives.api.put(group | {"metadata": group["metadata"] | {"ownerReferences": []}})

    lives.api.remove("JobSet", "default", "a")
    await lives.settle()

    assert expected(lives) == {}


@pytest.mark.parametrize("end", ["suspended", "finished", "deleted"])
async def test_an_owner_that_makes_no_more_pods_expects_none(lives: Lives, end: str) -> None:
    """A pod that still runs keeps the group."""
    made = await lives.jobset(ordered())
    pod = make_pod("p").in_group(GROUP).build()
    lives.api.put(pod | {"kind": "Pod", "status": {"phase": "Running"}})
    await lives.settle()

    if end == "suspended":
        lives.api.put(made | {"spec": made["spec"] | {"suspend": True}})
    elif end == "finished":
        failed = [{"type": "Failed", "status": "True"}]
        lives.api.put(made | {"status": {"conditions": failed}})
    else:
        deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.example/b"]}
        lives.api.put(made | {"metadata": made["metadata"] | deleted})
    await lives.harness.settle()
    await lives.harness.settle(seconds=SOON)

    assert expected(lives) == {}
    assert lives.groups() == [GROUP]


async def test_one_that_is_resumed_expects_them_again(lives: Lives) -> None:
    made = await lives.jobset(ordered())
    lives.api.put(make_pod("p").in_group(GROUP).build() | {"kind": "Pod"})
    lives.api.put(made | {"spec": made["spec"] | {"suspend": True}})
    await lives.settle()
    assert expected(lives) == {}

    lives.api.put(made | {"spec": made["spec"] | {"suspend": False}})
    await lives.settle()

    assert expected(lives) == {"d": 1, "w": 8}


async def test_what_is_written_by_hand_on_a_generated_group_is_put_right(lives: Lives) -> None:
    await lives.jobset(ordered())
    lives.harness.change("PodGroup", GROUP, expectedPods=[])
    await lives.settle()

    assert expected(lives) == {"d": 1, "w": 8}


async def test_how_long_places_are_held_is_left_as_it_is(lives: Lives) -> None:
    await lives.jobset(ordered())
    group = lives.api.objects["PodGroup", "default", GROUP]
    notes = group["metadata"]["annotations"] | {ANNOTATION_HOLD_SECONDS: "5"}
    lives.api.put(group | {"metadata": group["metadata"] | {"annotations": notes}})
    await lives.settle()

    assert note(lives) == "5"


async def test_a_jobset_says_how_long_and_the_groups_follow(lives: Lives) -> None:
    made = await lives.jobset(ordered().asks(hold_seconds="1800", on_hold_expired="Evict"))
    assert note(lives) == "1800"
    assert note(lives, ANNOTATION_ON_HOLD_EXPIRED) == "Evict"

    for said, want in (("60", "60"), ("0", "60"), ("soon", "60")):
        notes = made["metadata"]["annotations"] | {ANNOTATION_HOLD_SECONDS: said}
        lives.api.put(made | {"metadata": made["metadata"] | {"annotations": notes}})
        await lives.settle()
        assert note(lives) == want


def note(lives: Lives, key: str = ANNOTATION_HOLD_SECONDS) -> str:
    group = lives.api.objects["PodGroup", "default", GROUP]
    return str(group["metadata"]["annotations"].get(key, ""))


async def test_a_workload_of_the_user_s_decides_the_minimum_and_the_jobset_the_pods(
    lives: Lives,
) -> None:
    template = {"name": "pg-a", "schedulingPolicy": {"gang": {"minCount": 5}}}
    lives.api.put(
        {
            "apiVersion": "scheduling.muster.dev/v1alpha3",
            "kind": "Workload",
            "metadata": {"name": "mine", "namespace": "default", "uid": "mine"},
            "spec": {
                "controllerRef": {"apiGroup": "jobset.x-k8s.io", "kind": "JobSet", "name": "a"},
                "podGroupTemplates": [template],
            },
        }
    )
    await lives.jobset(ordered())

    assert expected(lives) == {"d": 1, "w": 8}
    assert lives.count(GROUP) == 5


async def test_more_kinds_than_allowed_are_not_written_and_the_rest_goes_on(lives: Lives) -> None:
    builder = make_jobset("a").asks(gang_mode="Gang").in_order()
    for at in range(9):
        job = job_template()
        job.labelled({"role": str(at)})
        builder.replicated_job(f"r{at}", 1, job)
    await lives.jobset(builder)

    assert expected(lives) == {}
    assert lives.count(GROUP) == 9
