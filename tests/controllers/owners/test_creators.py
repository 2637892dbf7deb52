"""TrainJobs report what their JobSets wait for: once, by metadata alone, and only their own."""

from typing import Any

import pytest

from api.constants import ANNOTATION_WAITING_FOR, TRAIN_JOB
from controllers.runtime.waiting_for_annotation import REFUSED_SECONDS
from kube.base.errors import Invalid, Unreachable
from tests.controllers.conftest import ControllerHarness
from tests.support.memory_api import FOREVER

Json = dict[str, Any]
API = "trainer.kubeflow.org/v1alpha1"
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/tune"


def train_job(harness: ControllerHarness, name: str = "tune", **notes: str) -> Json:
    meta: Json = {"name": name, "namespace": "default"}
    if notes:
        meta["annotations"] = notes
    return harness.api.put({"apiVersion": API, "kind": TRAIN_JOB.kind, "metadata": meta})


def jobset(
    harness: ControllerHarness, uid: str, waits_for: str = "", called: str = "tune", **parent: str
) -> None:
    """Create the JobSet of a TrainJob as its controller does; `parent` overrides the reference."""
    owner = {"apiVersion": API, "kind": "TrainJob", "name": "tune", "uid": uid} | parent
    meta: Json = {"name": called, "namespace": "default", "uid": f"{called}-uid"}
    meta["ownerReferences"] = [owner | {"controller": True}]
    if waits_for:
        meta["annotations"] = {ANNOTATION_WAITING_FOR: waits_for}
    harness.api.put({"kind": "JobSet", "metadata": meta, "spec": {}})


def told(harness: ControllerHarness) -> str | None:
    meta = harness.api.objects["TrainJob", "default", "tune"]["metadata"]
    found: str | None = meta.get("annotations", {}).get(ANNOTATION_WAITING_FOR)
    return found


@pytest.mark.parametrize("notes", [{}, {"mine": "stays"}])
async def test_what_the_jobset_waits_for_is_told_and_taken_back(
    harness: ControllerHarness, notes: dict[str, str]
) -> None:
    uid = train_job(harness, **notes)["metadata"]["uid"]
    jobset(harness, uid, "needs 4, free 3")
    await harness.settle()
    assert told(harness) == "needs 4, free 3"
    assert harness.recorded.events == [("TrainJob", "tune", "FailedScheduling")]

    jobset(harness, uid, "needs 4, free 2")
    await harness.settle()
    assert told(harness) == "needs 4, free 2"
    assert len(harness.recorded.events) == 1, "the wait goes on"

    jobset(harness, uid)
    await harness.settle()
    assert told(harness) is None
    stored = harness.api.objects["TrainJob", "default", "tune"]["metadata"]["annotations"]
    assert stored == notes
    assert harness.api.writes == [("patch", "TrainJob", "tune")] * 3


async def test_who_waits_for_nothing_costs_no_write_and_the_same_text_one(
    harness: ControllerHarness,
) -> None:
    uid = train_job(harness)["metadata"]["uid"]
    jobset(harness, uid)
    await harness.settle()
    assert harness.api.reads == [PATH]
    jobset(harness, uid, "x")
    await harness.settle()
    for _ in range(5):
        jobset(harness, uid, "x")
        await harness.settle(seconds=1)

    assert harness.api.writes == [("patch", "TrainJob", "tune")]
    assert harness.api.reads == [PATH] * 2


async def test_a_new_leader_takes_back_what_holds_no_more(harness: ControllerHarness) -> None:
    uid = train_job(harness, **{ANNOTATION_WAITING_FOR: "old"})["metadata"]["uid"]
    jobset(harness, uid)
    await harness.settle()

    assert told(harness) is None

    train_job(harness, **{ANNOTATION_WAITING_FOR: "x"})
    jobset(harness, told_uid(harness), "x")
    await harness.creators[0].resync()
    await harness.settle()
    assert harness.recorded.events == [], "it was told by the leader before"


def told_uid(harness: ControllerHarness) -> str:
    found: str = harness.api.objects["TrainJob", "default", "tune"]["metadata"]["uid"]
    return found


async def test_with_its_jobset_the_wait_is_over(harness: ControllerHarness) -> None:
    uid = train_job(harness)["metadata"]["uid"]
    jobset(harness, uid, "x")
    await harness.settle()
    harness.api.remove("JobSet", "default", "tune")
    await harness.settle()

    assert told(harness) is None


@pytest.mark.parametrize(
    "parent",
    [
        {"uid": "another"},
        {"kind": "MPIJob"},
        {"apiVersion": "example.com/v1alpha1"},
        {"apiVersion": "trainer.kubeflow.org"},
        {"apiVersion": "trainer.kubeflow.org/../../v1"},
        {"name": "../pods/x"},
        {"name": ""},
        {"name": "not-there"},
    ],
)
async def test_a_reference_that_is_not_its_own_is_told_nothing(
    harness: ControllerHarness, parent: dict[str, str]
) -> None:
    uid = train_job(harness)["metadata"]["uid"]
    said = {"uid": uid} | parent
    jobset(harness, said.pop("uid"), "x", **said)
    await harness.settle(seconds=60)

    assert told(harness) is None
    assert harness.api.writes == []
    assert all(path.endswith(("/tune", "/not-there")) for path in harness.api.reads)
    assert all(path.startswith(f"/apis/{API}/") for path in harness.api.reads)
    harness.api.sent.clear()
    await harness.settle(seconds=600)
    assert harness.api.reads == [], "what is not there is not asked for again and again"


async def test_what_cannot_be_read_now_is_told_later(harness: ControllerHarness) -> None:
    uid = train_job(harness)["metadata"]["uid"]
    lost = Unreachable("GET", PATH, "reset")
    harness.api.fail(lost, verbs=("get",), name="tune", times=FOREVER)
    jobset(harness, uid, "x")
    await harness.settle()
    assert told(harness) is None

    harness.api.recover()
    await harness.settle(seconds=40)
    assert told(harness) == "x"


async def test_thousands_of_jobsets_of_one_train_job_are_one_question(
    harness: ControllerHarness,
) -> None:
    uid = train_job(harness)["metadata"]["uid"]
    for at in range(2000):
        jobset(harness, uid, f"{at:04}", called=f"j-{at}")
    await harness.settle()

    assert told(harness) == "0000"
    assert len(harness.api.reads) == 1


async def test_a_text_that_stays_is_not_read_again(harness: ControllerHarness) -> None:
    uid = train_job(harness)["metadata"]["uid"]
    jobset(harness, uid, "a")
    jobset(harness, uid, "b", called="later")
    await harness.settle()
    for text in ("c", "d", ""):
        jobset(harness, uid, text, called="later")
        await harness.settle()

    assert told(harness) == "a"
    assert harness.api.reads == [PATH]


async def test_what_another_leader_wrote_meanwhile_is_corrected(
    harness: ControllerHarness,
) -> None:
    uid = train_job(harness)["metadata"]["uid"]
    jobset(harness, uid, "x")
    await harness.settle()
    train_job(harness, **{ANNOTATION_WAITING_FOR: "of another"})
    jobset(harness, told_uid(harness), "x")
    await harness.settle()
    stored = harness.api.objects["TrainJob", "default", "tune"]
    notes = {ANNOTATION_WAITING_FOR: "of another"}
    harness.api.put(stored | {"metadata": stored["metadata"] | {"annotations": notes}})

    await harness.new_term()
    await harness.settle()

    assert told(harness) == "x"


async def test_nothing_is_remembered_of_those_whose_jobsets_are_gone(
    harness: ControllerHarness,
) -> None:
    uid = train_job(harness)["metadata"]["uid"]
    jobset(harness, uid, "x")
    jobset(harness, uid, "y", called="later")
    jobset(harness, "another", "y", called="of-another")
    await harness.settle()
    assert len(harness.creators[0]._reported) == 2
    harness.api.remove("JobSet", "default", "later")
    await harness.settle()
    assert len(harness.creators[0]._reported) == 2
    for name in ("tune", "of-another"):
        harness.api.remove("JobSet", "default", name)
    await harness.settle()

    assert harness.creators[0]._reported == {}
    assert list(harness.creators[0].controller.details()) == []


async def test_a_train_job_that_refuses_the_text_says_so_once(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = train_job(harness)["metadata"]["uid"]
    sent = []

    async def refuse(*_args: object, **_how: object) -> None:
        sent.append("patch")
        raise Invalid(422, "Invalid", "metadata differs")

    with monkeypatch.context() as refusing:
        refusing.setattr(harness.api.client, "patch", refuse)
        for at in range(50):
            jobset(harness, uid, f"{at}")
            await harness.settle(seconds=1)
        await harness.settle(seconds=REFUSED_SECONDS)
    assert len(sent) == 2
    assert harness.recorded.events == [("TrainJob", "tune", "WaitNotWritten")]

    await harness.settle(seconds=REFUSED_SECONDS)
    assert told(harness) == "49"
    assert harness.creators[0]._note._refused == {}
