"""The annotation of a waiting Job or JobSet: delayed, rarely updated, and removed."""

from typing import Any, cast

import msgspec
import pytest

from api.constants import ANNOTATION_WAITING_FOR
from controllers.cache.decoding import decode_group
from controllers.cache.objects import Owner
from controllers.runtime.controller import BlockedError, RequeueError, Writer
from controllers.runtime.waiting_for_annotation import REFUSED_SECONDS, WaitingForAnnotation
from kube.base.errors import ApiError, Forbidden, Invalid
from kube.client.client import Client
from kube.client.meta import ObjectMeta
from kube.client.resources import DEPLOYMENTS, JOBS, JOBSETS, STATEFUL_SETS, Resource
from kube.events.events import Recorder
from tests.controllers.conftest import ControllerHarness
from tests.controllers.owners.test_owners import gang, pod, renewed, waiting_for
from tests.support.owners import job_template, make_job, make_jobset

Json = dict[str, Any]


def blocked(
    harness: ControllerHarness, name: str, summary: str, kind: str = "PodGroup", by: str = ""
) -> None:
    """Write the status of a group that waits, `by` is the group that blocks it."""
    obj = harness.api.objects[kind, "default", name]
    other: Json = {"waitsFor": {"kind": "PodGroup", "name": by}} if by else {}
    status: Json = {"blocker": {"summary": summary, **other}} if summary else {}
    harness.api.put(obj | {"status": status})


async def settled(harness: ControllerHarness) -> None:
    harness.submit_jobset(gang().build())
    await harness.settle()
    harness.api.sent.clear()


async def test_the_annotation_repeats_the_scheduler_s_message(harness: ControllerHarness) -> None:
    await settled(harness)

    blocked(harness, "pg-a", "needs 8 pods, 5 fit")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)

    assert waiting_for(harness) == "PodGroup pg-a: needs 8 pods, 5 fit"
    assert harness.api.writes == [("patch", "JobSet", "a")]


async def test_a_short_wait_costs_no_write(harness: ControllerHarness) -> None:
    await settled(harness)

    blocked(harness, "pg-a", "needs 8 pods, 5 fit")
    await harness.settle(seconds=1)
    blocked(harness, "pg-a", "")
    await harness.settle(seconds=60)

    assert harness.api.writes == []


async def test_numbers_that_change_are_written_now_and_then(harness: ControllerHarness) -> None:
    await settled(harness)
    for free in range(1, 30):
        blocked(harness, "pg-a", f"{free} fit")
        await harness.settle(seconds=1)
    await harness.settle(seconds=30)

    assert waiting_for(harness) == "PodGroup pg-a: 29 fit"
    assert len(harness.api.writes) <= 4


async def test_what_passed_quickly_and_comes_back_has_its_time_again(
    harness: ControllerHarness,
) -> None:
    await settled(harness)
    blocked(harness, "pg-a", "5 fit")
    await harness.settle(seconds=1)
    blocked(harness, "pg-a", "")
    await harness.settle(seconds=60)

    blocked(harness, "pg-a", "5 fit")
    await harness.settle(seconds=1)

    assert harness.api.writes == []


async def test_a_note_that_the_cache_has_not_seen_yet_is_taken_back(
    harness: ControllerHarness,
) -> None:
    await settled(harness)
    blocked(harness, "pg-a", "5 fit")
    await harness.settle(seconds=1)
    harness.api.pause_events()
    await harness.settle(seconds=2)
    assert waiting_for(harness)

    group = harness.api.objects["PodGroup", "default", "pg-a"]
    group = group | {"metadata": group["metadata"] | {"resourceVersion": "1000"}, "status": {}}
    harness.caches.pod_groups.upsert(decode_group(msgspec.json.encode(group)))
    await harness.settle(seconds=1)

    assert not waiting_for(harness)


async def test_of_two_that_wait_the_one_that_does_not_run_yet_is_named(
    harness: ControllerHarness,
) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    harness.submit_jobset(jobset.build())
    await harness.settle()
    runs = harness.api.objects["PodGroup", "default", "pg-a-b-0"]
    condition = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}
    status = {"blocker": {"summary": "1 more fits"}, "conditions": [condition]}
    harness.api.put(runs | {"status": status})
    blocked(harness, "pg-a-b-1", "none fits")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)

    assert waiting_for(harness) == "PodGroup pg-a-b-1: none fits"


async def test_annotations_that_others_made_meanwhile_stay(harness: ControllerHarness) -> None:
    jobset = make_jobset("a").replicated_job("b", 1, job_template().pods(2), mode="Gang")
    made = harness.submit_jobset(jobset.build())
    await harness.settle()
    metadata = made["metadata"] | {"annotations": {"theirs": "kept"}}
    harness.api.put_unseen(made | {"metadata": metadata})

    blocked(harness, "pg-a-b-ced6d47e7f", "1 fits")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)

    notes = harness.api.objects["JobSet", "default", "a"]["metadata"]["annotations"]
    assert notes == {"theirs": "kept"}


async def test_a_namesake_is_not_told_what_the_first_one_waited_for(
    harness: ControllerHarness,
) -> None:
    await settled(harness)
    plain = gang().build()
    namesake = harness.api.put_unseen(plain | {"kind": "JobSet", "metadata": renewed(plain)})

    blocked(harness, "pg-a", "5 fit")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)

    assert harness.api.objects["JobSet", "default", "a"] == namesake


async def test_the_annotation_is_removed_when_nothing_waits_any_more(
    harness: ControllerHarness,
) -> None:
    await settled(harness)
    blocked(harness, "pg-a", "5 fit")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)

    blocked(harness, "pg-a", "")
    await harness.settle(seconds=1)

    notes = harness.api.objects["JobSet", "default", "a"]["metadata"]["annotations"]
    assert ANNOTATION_WAITING_FOR not in notes


async def test_the_group_at_fault_is_named_and_not_one_that_waits_for_it(
    harness: ControllerHarness,
) -> None:
    jobset = make_jobset("a").asks(gang_mode="Composite").replicated_job("b", 2)
    harness.submit_jobset(jobset.build())
    await harness.settle()

    pointing = 'Waiting for PodGroup "pg-a-b-1": 1 fits'
    blocked(harness, "cpg-a", pointing, "CompositePodGroup", by="pg-a-b-1")
    blocked(harness, "pg-a-b-0", pointing, by="pg-a-b-1")
    blocked(harness, "pg-a-b-1", "1 fits")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)

    assert waiting_for(harness) == "PodGroup pg-a-b-1: 1 fits"


async def test_a_jobset_without_annotations_is_told_too(harness: ControllerHarness) -> None:
    jobset = make_jobset("a").replicated_job("b", 1, job_template().pods(2), mode="Gang")
    harness.submit_jobset(jobset.build())
    await harness.settle()

    blocked(harness, "pg-a-b-ced6d47e7f", "1 fits")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)

    assert waiting_for(harness) == "PodGroup pg-a-b-ced6d47e7f: 1 fits"


async def test_a_note_that_was_dropped_by_a_replace_is_written_again(
    harness: ControllerHarness,
) -> None:
    await settled(harness)
    blocked(harness, "pg-a", "5 fit")
    await harness.settle(seconds=1)
    await harness.settle(seconds=30)
    assert waiting_for(harness)

    obj = harness.api.objects["JobSet", "default", "a"]
    notes = dict(obj["metadata"]["annotations"])
    del notes[ANNOTATION_WAITING_FOR]
    harness.api.put(obj | {"metadata": obj["metadata"] | {"annotations": notes}})
    await harness.settle(seconds=30)

    assert waiting_for(harness) == "PodGroup pg-a: 5 fit"


FINISHED = {"status": {"conditions": [{"type": "Completed", "status": "True"}]}}


@pytest.mark.parametrize("suspended", [True, False])
async def test_who_is_finished_or_suspended_waits_for_nothing(
    harness: ControllerHarness, suspended: bool
) -> None:
    await settled(harness)
    blocked(harness, "pg-a", "5 fit")
    await harness.settle(seconds=1)
    await harness.settle(seconds=30)

    obj = harness.api.objects["JobSet", "default", "a"]
    harness.api.put(pod("p", "pg-a"))  # it keeps the group while suspended
    suspend = {"spec": obj["spec"] | {"suspend": True}}
    harness.api.put(obj | (suspend if suspended else FINISHED))
    await harness.settle()

    assert waiting_for(harness) == ""


ORDERS: dict[str, Json] = {
    "dependsOn": {"dependsOn": [{"name": "b", "status": "Ready"}]},
    "InOrder": {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
}


def in_order(order: str) -> Json:
    jobset = make_jobset("a")
    for name in ("b", "c"):
        jobset = jobset.replicated_job(name, 1, job_template().pods(2), mode="Gang")
    made: Json = jobset.build()
    part = made["spec"]["replicatedJobs"][1] if order == "dependsOn" else made["spec"]
    part |= ORDERS.get(order, {})
    return made


@pytest.mark.parametrize(
    ("order", "want"),
    [("dependsOn", ""), ("InOrder", ""), ("any", "PodGroup pg-a-c-fe25d5b2a3: has none")],
)
async def test_a_group_whose_turn_has_not_come_is_no_trouble(
    harness: ControllerHarness, order: str, want: str
) -> None:
    made = harness.submit_jobset(in_order(order))
    harness.submit_job(job_of(made, "b"))
    await harness.settle()

    blocked(harness, "pg-a-c-fe25d5b2a3", "has none")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)
    assert waiting_for(harness) == want

    harness.submit_job(job_of(made, "c"))
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)
    assert waiting_for(harness) == "PodGroup pg-a-c-fe25d5b2a3: has none"


@pytest.mark.parametrize("order", ["dependsOn", "InOrder"])
async def test_of_two_the_one_whose_turn_it_is_is_named(
    harness: ControllerHarness, order: str
) -> None:
    harness.submit_jobset(in_order(order))
    await harness.settle()

    blocked(harness, "pg-a-b-ced6d47e7f", "no room")
    blocked(harness, "pg-a-c-fe25d5b2a3", "has none")
    await harness.settle(seconds=1)
    await harness.settle(seconds=3)

    assert waiting_for(harness) == ("PodGroup pg-a-b-ced6d47e7f: no room")


def job_of(jobset: Json, name: str) -> Json:
    """Return the Job that the JobSet controller creates."""
    job = make_job(f"a-{name}-0").of_jobset("a", name, 0).build()
    reference = {key: jobset["metadata"][key] for key in ("name", "uid")}
    reference |= {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "controller": True}
    job["metadata"] |= {"ownerReferences": [reference]}
    return dict(job)


@pytest.mark.parametrize("error", [Forbidden, Invalid])
async def test_a_refused_annotation_is_said_once_and_sent_seldom(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch, error: type[ApiError]
) -> None:
    await settled(harness)
    sent = []

    async def refuse(*_args: object, **_how: object) -> None:
        sent.append(harness.clock.monotonic())
        raise error(403, "Denied", "a policy says no")

    with monkeypatch.context() as refusing:
        refusing.setattr(harness.api.client, "patch", refuse)
        for free in range(100):
            blocked(harness, "pg-a", f"{free} fit")
            await harness.settle(seconds=REFUSED_SECONDS / 50)
    assert len(sent) == 2
    assert harness.recorded.events == [("JobSet", "a", "WaitNotWritten")]
    assert harness.recorded.messages[0].startswith(
        "failed to write the annotation waiting-for: a policy says no. Its text would be: PodGro"
    )

    await harness.settle(seconds=REFUSED_SECONDS)
    assert waiting_for(harness) == "PodGroup pg-a: 99 fit", "without any other change"


async def test_a_fault_that_cannot_be_written_is_written_later(
    harness: ControllerHarness,
) -> None:
    owner = await stored(harness)
    status = harness.jobset._owner_status
    harness.api.fail(Forbidden(403, "Forbidden", "no"))
    for _ in range(3):
        with pytest.raises(RequeueError):
            await status.blocked(owner, BlockedError("NameTaken", "it is"))
    assert [reason for _, _, reason in harness.recorded.events] == ["NameTaken", "WaitNotWritten"]
    await harness.clock.advance(REFUSED_SECONDS)

    await status.blocked(owner, BlockedError("NameTaken", "it is"))

    assert waiting_for(harness) == "NameTaken: it is"


async def test_a_patch_that_did_not_apply_is_no_refusal(harness: ControllerHarness) -> None:
    owner = await stored(harness)
    stale = Invalid(
        422, "Invalid", "the server rejected our request due to an error in our request"
    )
    harness.api.fail(stale)
    assert stale.patch_failed

    with pytest.raises(Invalid):
        await harness.jobset._owner_status.blocked(owner, BlockedError("NameTaken", "it is"))
    assert [reason for _, _, reason in harness.recorded.events] == ["NameTaken"]


async def stored(harness: ControllerHarness) -> Owner:
    await settled(harness)
    found = harness.caches.jobsets.get("default", "a")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("resource", "want"),
    [(STATEFUL_SETS, "status"), (DEPLOYMENTS, "status"), (JOBSETS, None), (JOBS, None)],
)
async def test_what_runs_cannot_be_changed_by_the_request(
    harness: ControllerHarness, resource: Resource, want: str | None
) -> None:
    sent: list[str | None] = []

    class Api:
        async def patch(self, *_args: object, subresource: str | None = None) -> None:
            sent.append(subresource)

        async def request(self, *_args: object, **_how: object) -> bytes:
            copied = {ANNOTATION_WAITING_FOR: "old", "deployment.kubernetes.io/revision": "1"}
            owner = {"uid": "u", "controller": True}
            meta = {"name": "x-1", "annotations": copied, "ownerReferences": [owner]}
            other = {"name": "y-1", "annotations": copied}
            return msgspec.json.encode({"items": [{"metadata": meta}, {"metadata": other}]})

    writer = Writer(cast("Client", Api()), harness.fence)
    note = WaitingForAnnotation(writer, cast("Recorder", harness.recorded), harness.clock)
    meta = ObjectMeta(name="x", namespace="default", uid="u")

    assert await note.write(resource, meta, "text")
    assert sent == [want] * (1 + (resource == DEPLOYMENTS)), "also on what has a copy"
