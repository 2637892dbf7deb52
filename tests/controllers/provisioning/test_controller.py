"""ProvisioningRequests: the roots that get one, its content, and its deletion."""

from typing import Any

import msgspec
import pytest

from api.constants import (
    ANNOTATION_ATTEMPT,
    ANNOTATION_CAPACITY_REQUESTED,
    ANNOTATION_MADE_FOR,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_PROVISIONING_REQUEST,
    ANNOTATION_STANDS_FOR,
    LABEL_MANAGED_BY,
    LABEL_POD_GROUP,
    MANAGED_BY,
)
from api.provisioning import consumed
from controllers.cache import capacity_requests
from controllers.cache.capacity_requests import (
    MOST_REQUESTS,
    POD_TEMPLATES,
    REQUESTS,
    decode_request,
)
from controllers.provisioning.controller import IDLE_SECONDS, REPLACE_SECONDS
from controllers.provisioning.waiting_roots import to_come
from kube.base.errors import (
    ApiError,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from tests.controllers.conftest import ControllerHarness
from tests.support.owners import make_job

Json = dict[str, Any]

REQUEST, TEMPLATE = REQUESTS.kind, POD_TEMPLATES.kind
ATOMIC = "best-effort-atomic-scale-up"
SETTLED = 3.0


@pytest.fixture
async def served(harness: ControllerHarness) -> ControllerHarness:
    """The harness with the CRD installed."""
    harness.caches.serve(REQUESTS)
    return harness


def group(
    harness: ControllerHarness,
    name: str = "g",
    asks: str = ATOMIC,
    *,
    parent: str = "",
    kind: str = "PodGroup",
    namespace: str = "default",
    expected: Any = None,
    **annotations: str,
) -> Json:
    notes = {ANNOTATION_PROVISIONING_REQUEST: asks} if asks else {}
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    if expected is not None:
        spec["expectedPods"] = expected
    if parent:
        spec["parentCompositePodGroupName"] = parent
    metadata = {"name": name, "namespace": namespace, "annotations": notes | annotations}
    return harness.api.put({"kind": kind, "metadata": metadata, "spec": spec})


def says(
    harness: ControllerHarness, blocker: str, name: str = "g", kind: str = "PodGroup", **at: str
) -> None:
    """Set the blocker of a root as the scheduler does; an empty one means that it is placed."""
    obj = harness.api.objects[kind, at.get("namespace", "default"), name]
    condition = {"type": f"{kind}InitiallyScheduled", "status": "False" if blocker else "True"}
    status: Json = {"conditions": [condition]}
    if blocker:
        status["blocker"] = {"kind": blocker, "summary": "needs room"}
    harness.api.put(obj | {"status": status})


def pods(
    harness: ControllerHarness,
    count: int,
    of: str = "g",
    root: str = "g",
    cpu: str = "1",
    namespace: str = "default",
    **spec: Any,
) -> None:
    for index in range(count):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        metadata = {
            "name": f"{of}-{cpu}-{index}",
            "namespace": namespace,
            "labels": {LABEL_POD_GROUP: of, "index": str(index)},
            "annotations": consumed(root, ATOMIC) if root else {},
        }
        own = {"schedulerName": "muster-scheduler", "containers": [container]}
        harness.api.put({"kind": "Pod", "metadata": metadata, "spec": own | spec})


def request(harness: ControllerHarness, name: str = "g") -> Json | None:
    return harness.api.objects.get((REQUEST, "default", name))


def counts(harness: ControllerHarness, name: str = "g") -> list[int]:
    """Return the counts of the request's pod sets; empty if there is none."""
    found = request(harness, name)
    return sorted(each["count"] for each in found["spec"]["podSets"]) if found else []


def ends(harness: ControllerHarness, condition: str) -> None:
    """Set a condition of the request, as the autoscaler does."""
    found = request(harness)
    assert found is not None
    said = {"type": condition, "status": "True", "reason": "R", "message": "m"}
    harness.api.put(found | {"status": {"conditions": [said]}})


async def refused(harness: ControllerHarness, count: int = 2) -> None:
    """Create an unschedulable root of that many pods, with its request."""
    if ("PodGroup", "default", "g") not in harness.api.objects:
        group(harness)
    pods(harness, count)
    says(harness, "capacity")
    await harness.settle(seconds=SETTLED)
    await harness.settle(seconds=SETTLED)
    assert counts(harness) == [count]


async def test_a_refused_root_gets_a_request_with_its_templates(
    served: ControllerHarness,
) -> None:
    group(served)
    pods(served, 2)
    pods(served, 3, cpu="4")
    says(served, "capacity")

    await served.settle()
    assert request(served) is None
    await served.settle(seconds=SETTLED)

    made = request(served)
    assert made is not None
    named = {each["podTemplateRef"]["name"]: each["count"] for each in made["spec"]["podSets"]}
    assert sorted(named.values()) == [2, 3]
    assert served.api.names(TEMPLATE) == sorted(named)
    for name, count in named.items():
        template = served.api.objects[TEMPLATE, "default", name]["template"]
        (container,) = template["spec"]["containers"]
        assert container["resources"] == {"requests": {"cpu": "1" if count == 2 else "4"}}
    created = [kind for verb, kind, _ in served.api.writes if verb == "create"]
    assert created == [TEMPLATE, TEMPLATE, REQUEST]
    assert ("PodGroup", "g", "CapacityRequested") in served.recorded.events


async def test_a_tree_has_one_request_for_all_its_pods(served: ControllerHarness) -> None:
    group(served, "root", kind="CompositePodGroup")
    for name in ("a", "b"):
        group(served, name, asks="", parent="root")
        pods(served, 2, of=name, root="root")
    says(served, "constraint", "root", "CompositePodGroup")

    await served.settle(seconds=SETTLED)
    await served.settle(seconds=SETTLED)

    assert served.api.names(REQUEST) == ["root"]
    assert counts(served, "root") == [4]


def expecting(name: str, count: int, cpu: str) -> Json:
    """Return an entry of expectedPods as the controllers write it, without images."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container]}}}


async def test_pods_that_do_not_exist_yet_are_asked_for_too(served: ControllerHarness) -> None:
    entries = [expecting("driver", 1, "2"), expecting("worker", 8, "4")]
    group(served, expected=entries)
    pods(served, 1, cpu="2")
    says(served, "capacity")
    await served.settle(seconds=SETTLED)
    await served.settle(seconds=SETTLED)
    assert counts(served) == [1, 8]
    templates = [served.api.objects[TEMPLATE, "default", it] for it in served.api.names(TEMPLATE)]
    images = {it["template"]["spec"]["containers"][0]["image"] for it in templates}
    assert images == {"i", "not-pulled"}

    pods(served, 3, cpu="4")
    await served.settle(seconds=60.0)
    await served.settle(seconds=60.0)
    assert counts(served) == [1, 3, 5]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ([], []),
        (["no entry", None, {"count": "many"}], []),
        ([expecting("a", 2, "1"), expecting("b", 3, "1")], [3]),
        ([expecting("a", -5, "1"), expecting("b", 10**30, "1")], [9_998]),
        ([expecting("a", 1, "1")] * 40, [1] * 6),
        ([{"count": 4}], [2]),
    ],
)
def test_what_is_to_come_is_bounded_whatever_is_written(expected: Any, found: list[int]) -> None:
    assert [count for _, count in to_come(expected, came=2)] == found


@pytest.mark.parametrize(
    ("blocker", "asks", "root", "spec"),
    [
        pytest.param("quorum", ATOMIC, "g", {}, id="members are missing"),
        pytest.param("timeout", ATOMIC, "g", {}, id="it was given up"),
        pytest.param("invalid", ATOMIC, "g", {}, id="the tree is invalid"),
        pytest.param("priority", ATOMIC, "g", {}, id="it is held back for another"),
        pytest.param("capacity", "", "g", {}, id="it does not ask"),
        pytest.param("capacity", "soon", "g", {}, id="it asks for a class that there is not"),
        pytest.param("capacity", ATOMIC, "other", {}, id="its pods name another request"),
        pytest.param("capacity", ATOMIC, "g", {"nodeName": "n"}, id="its pods are bound"),
        pytest.param(
            "capacity", ATOMIC, "g", {"schedulingGates": [{"name": "x"}]}, id="its pods are gated"
        ),
    ],
)
async def test_no_request_is_made(
    served: ControllerHarness, blocker: str, asks: str, root: str, spec: Json
) -> None:
    group(served, asks=asks)
    pods(served, 2, root=root, **spec)
    says(served, blocker)

    await served.settle(seconds=60)

    assert served.api.names(REQUEST, TEMPLATE) == []


async def test_pods_with_a_nominated_node_do_not_count(served: ControllerHarness) -> None:
    group(served)
    pods(served, 3)
    one = served.api.objects["Pod", "default", "g-1-0"]
    served.api.put(one | {"status": {"nominatedNodeName": "n"}})
    says(served, "capacity")

    await served.settle(seconds=SETTLED)
    await served.settle(seconds=SETTLED)

    assert counts(served) == [2]


async def test_pods_that_do_not_say_so_are_told_of(served: ControllerHarness) -> None:
    group(served)
    pods(served, 2, root="")
    says(served, "capacity")

    for _ in range(5):
        says(served, "capacity")
        await served.settle(seconds=60)

    assert request(served) is None
    assert served.recorded.events == [("PodGroup", "g", "CapacityNotRequested")]


async def test_pods_that_do_not_say_so_are_left_out(served: ControllerHarness) -> None:
    group(served)
    pods(served, 2)
    pods(served, 3, root="", cpu="2")
    says(served, "capacity")

    for _ in range(5):
        says(served, "capacity")
        await served.settle(seconds=SETTLED)

    assert counts(served) == [2]
    assert sorted(reason for *_, reason in served.recorded.events) == [
        "CapacityNotRequested",
        "CapacityRequested",
    ]


async def test_a_placed_root_keeps_nothing(served: ControllerHarness) -> None:
    await refused(served)

    says(served, "")
    pods(served, 2, nodeName="n")
    await served.settle(seconds=1)

    assert served.api.names(REQUEST, TEMPLATE) == []
    deleted = [kind for verb, kind, _ in served.api.writes if verb == "delete"]
    assert deleted == [TEMPLATE, REQUEST]


async def test_a_root_that_lacks_a_pod_for_a_moment_keeps_its_request(
    served: ControllerHarness,
) -> None:
    await refused(served)
    before = request(served)

    says(served, "quorum")
    await served.settle(seconds=IDLE_SECONDS - 1)
    says(served, "capacity")
    await served.settle(seconds=60)
    assert request(served) == before

    says(served, "quorum")
    await served.settle(seconds=1)
    await served.settle(seconds=IDLE_SECONDS)
    assert served.api.names(REQUEST, TEMPLATE) == []


async def test_a_gang_that_changes_gets_a_new_request_of_the_same_name(
    served: ControllerHarness,
) -> None:
    await refused(served)
    before = request(served)

    pods(served, 5)
    await served.settle(seconds=5)
    assert request(served) == before
    for _ in range(2):
        await served.settle(seconds=REPLACE_SECONDS)

    after = request(served)
    assert before is not None
    assert after is not None
    assert counts(served) == [5]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert len(served.api.names(TEMPLATE)) == 1  # of the same shape: it is kept


async def test_a_gang_that_never_rests_costs_few_writes(served: ControllerHarness) -> None:
    await refused(served)
    served.api.sent.clear()

    for round_ in range(200):
        pods(served, 3 + round_ % 2)
        served.api.objects.pop(("Pod", "default", "g-1-3"), None)
        served.api.relist()
        await served.settle(seconds=1)

    assert len(served.api.writes) <= 2 * 200 / REPLACE_SECONDS + 4


@pytest.mark.parametrize("condition", ["Failed", "CapacityRevoked", "BookingExpired"])
async def test_a_request_that_ended_is_tried_again_after_a_growing_pause(
    served: ControllerHarness, condition: str
) -> None:
    await refused(served)

    for attempt, pause in ((2, 60), (3, 120), (4, 240)):
        ends(served, condition)
        before = request(served)
        await served.settle(seconds=1)
        await served.settle(seconds=pause - 10)
        assert request(served) == before
        await served.settle(seconds=10)
        await served.settle(seconds=SETTLED)
        again = request(served)
        assert again is not None
        assert again["metadata"]["annotations"][ANNOTATION_ATTEMPT] == str(attempt)
        assert "status" not in again

    reported = ("PodGroup", "g", "CapacityRequestFailed") in served.recorded.events
    assert reported is (condition != "BookingExpired")


@pytest.mark.parametrize("condition", ["Accepted", "Provisioned"])
async def test_a_request_under_way_is_left_alone(served: ControllerHarness, condition: str) -> None:
    await refused(served)
    ends(served, condition)
    served.api.sent.clear()

    await served.settle(seconds=3600)

    assert served.api.writes == []


async def test_the_delay_of_preemption_knows_of_the_request(served: ControllerHarness) -> None:
    group(served, **{ANNOTATION_PREEMPTION_DELAY: "5m"})
    await refused(served)

    def noted() -> str | None:
        said = served.api.objects["PodGroup", "default", "g"]["metadata"]["annotations"]
        value: str | None = said.get(ANNOTATION_CAPACITY_REQUESTED)
        return value

    made = request(served)
    assert made is not None
    assert noted() == made["metadata"]["creationTimestamp"]
    ends(served, "Failed")
    await served.settle()
    assert noted() == "Failed"
    says(served, "")
    await served.settle()
    assert noted() is None


async def test_a_root_without_a_delay_is_not_written(served: ControllerHarness) -> None:
    await refused(served)

    assert not [name for verb, kind, name in served.api.writes if kind == "PodGroup"]


async def test_what_is_not_served_is_not_asked_for_until_it_is(
    harness: ControllerHarness,
) -> None:
    group(harness)
    pods(harness, 2)
    says(harness, "capacity")
    await harness.settle(seconds=60)
    assert harness.api.writes == []

    harness.caches.serve(REQUESTS)
    await harness.settle(seconds=SETTLED)
    await harness.settle(seconds=SETTLED)

    assert counts(harness) == [2]


async def test_a_crd_that_goes_and_comes_back(served: ControllerHarness) -> None:
    served.api.client.unserved.add(REQUESTS.full_name)
    group(served)
    pods(served, 2)
    says(served, "capacity")
    await served.settle(seconds=SETTLED)
    await served.settle(seconds=30)
    assert served.api.names(REQUEST, TEMPLATE) == []

    served.api.client.unserved.clear()
    await served.settle(seconds=60)
    await served.settle(seconds=SETTLED)

    assert counts(served) == [2]


async def test_an_object_of_somebody_else_is_never_touched(served: ControllerHarness) -> None:
    metadata = {"name": "g", "namespace": "default"}
    mine = served.api.put({"kind": REQUEST, "metadata": metadata, "spec": {"podSets": []}})
    served.caches.requests.delete(("default", "g"))  # only Muster's own are watched
    group(served)
    pods(served, 2)
    says(served, "capacity")

    await served.settle(seconds=SETTLED)
    await served.settle(seconds=120)

    assert request(served) == mine
    assert ("PodGroup", "g", "NameTaken") in served.recorded.events


async def test_templates_that_were_not_made_with_a_request_stay(
    served: ControllerHarness,
) -> None:
    await refused(served)
    made = request(served)
    assert made is not None
    metadata = {"name": "theirs", "namespace": "default"}
    served.api.put({"kind": TEMPLATE, "metadata": metadata, "template": {}})
    made["spec"]["podSets"].append({"podTemplateRef": {"name": "theirs"}, "count": 1})
    served.api.put(made)

    says(served, "")
    await served.settle(seconds=30)

    assert served.api.names(REQUEST, TEMPLATE) == ["theirs"]


async def test_the_request_goes_with_its_root(served: ControllerHarness) -> None:
    await refused(served)

    served.api.remove("PodGroup", "default", "g")
    await served.settle(seconds=1)

    assert served.api.names(REQUEST, TEMPLATE) == []


async def test_a_later_root_of_the_name_gets_its_own(served: ControllerHarness) -> None:
    await refused(served)
    stale = request(served)
    assert stale is not None
    served.api.forget("PodGroup", "default", "g")
    group(served)
    says(served, "capacity")

    await served.settle(seconds=SETTLED)
    await served.settle(seconds=SETTLED)

    after = request(served)
    assert after is not None
    owner = served.api.objects["PodGroup", "default", "g"]["metadata"]["uid"]
    assert after["metadata"]["ownerReferences"][0]["uid"] == owner


async def test_a_controller_that_restarts_goes_on_with_what_is_there(
    served: ControllerHarness,
) -> None:
    await refused(served)
    before = request(served)
    served.api.sent.clear()

    again = ControllerHarness()
    again.api.share(served.api)
    again.api.relist()
    again.caches.serve(REQUESTS)
    await again.provisioning.resync()
    await again.settle(seconds=60)

    assert again.api.writes == []
    assert request(again) == before
    again.close()


@pytest.mark.parametrize("again", [True, False], ids=["a new term", "the same term"])
async def test_a_request_that_somebody_else_made_of_the_root_is_replaced(
    served: ControllerHarness, again: bool
) -> None:
    """This leader created one for two pods, another one for three, and the gang has two again."""
    await refused(served)
    made = request(served)
    assert made is not None
    served.api.remove(REQUEST, "default", "g")
    meta = {key: made["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    meta["ownerReferences"] = made["metadata"]["ownerReferences"]
    sets = [made["spec"]["podSets"][0] | {"count": 3}]
    served.api.put(made | {"metadata": meta, "spec": made["spec"] | {"podSets": sets}})
    if again:
        await served.new_term()
    for _ in range(20):
        await served.settle(seconds=60)

    assert counts(served) == [2]


ANSWERS: dict[str, tuple[Exception, bool, bool]] = {
    "400": (ApiError(400, "BadRequest", "no"), False, False),
    "403": (Forbidden(403, "Forbidden", "no"), False, False),
    "404": (NotFound(404, "NotFound", "the server could not find the resource"), False, False),
    "422": (Invalid(422, "Invalid", "no"), False, False),
    "429": (TooManyRequests(429, "TooManyRequests", "", retry_after=9), False, True),
    "500": (ServerError(500, "InternalError", "failed calling webhook"), False, True),
    "500, made": (ServerError(500, "InternalError", "etcdserver: request timed out"), True, True),
    "504, made": (ServerError(504, "Timeout", "Timeout: request did not complete"), True, True),
    "no response": (Unreachable("POST", "/", "reset"), False, True),
    "no response, made": (Unreachable("POST", "/", "reset"), True, True),
}


@pytest.mark.parametrize(("error", "made", "kept"), ANSWERS.values(), ids=ANSWERS)
async def test_templates_stay_unless_their_request_was_certainly_refused(
    served: ControllerHarness, error: Exception, made: bool, kept: bool
) -> None:
    """Cluster Autoscaler fails a request whose PodTemplates are missing."""
    served.api.client.fail(error, verbs=["create"], of=REQUESTS, answered=made)
    group(served)
    pods(served, 2)
    says(served, "capacity")
    await served.settle(seconds=SETTLED)
    await served.settle(seconds=SETTLED)
    assert bool(served.api.names(TEMPLATE)) is kept

    for _ in range(60):
        await served.settle(seconds=10)
    found = request(served)
    assert found is not None
    named = [each["podTemplateRef"]["name"] for each in found["spec"]["podSets"]]
    assert served.api.names(TEMPLATE) == sorted(named)


async def test_more_kinds_of_pods_than_a_request_takes(served: ControllerHarness) -> None:
    await refused(served)
    served.recorded.clear()
    for cpu in range(33):
        pods(served, 1, cpu=str(cpu + 2))
    says(served, "capacity")

    await served.settle(seconds=SETTLED)
    await served.settle(seconds=120)

    assert served.api.names(REQUEST, TEMPLATE) == []
    assert served.recorded.events == [("PodGroup", "g", "CapacityNotRequested")]
    assert served.provisioning._notes["PodGroup", "default", "g"].reported


@pytest.mark.parametrize(
    "error",
    [
        Forbidden(403, "Forbidden", "exceeded quota"),
        Invalid(422, "Invalid", "spec.podSets: unknown"),
    ],
    ids=["a quota", "a CRD of another form"],
)
async def test_what_the_api_server_refuses_is_told_and_seldom_tried_again(
    served: ControllerHarness, error: Any
) -> None:
    group(served)
    pods(served, 2)
    says(served, "capacity")
    await served.settle()
    served.api.fail(*[error] * 100)

    await served.settle(seconds=SETTLED)
    await served.settle(seconds=250)

    assert len(served.api.writes) == 1
    assert ("PodGroup", "g", "CapacityNotRequested") in served.recorded.events


async def test_a_crd_that_drops_the_spec_does_not_make_it_flap(
    served: ControllerHarness,
) -> None:
    await refused(served)
    made = request(served)
    assert made is not None
    served.api.put(made | {"spec": {}})
    served.api.sent.clear()

    await served.settle(seconds=3600)

    assert served.api.writes == []
    assert ("PodGroup", "g", "CapacityNotRequested") in served.recorded.events


async def test_a_request_that_cannot_be_read_is_left_as_it_is(
    served: ControllerHarness,
) -> None:
    await refused(served)
    made = request(served)
    served.caches.requests.delete(("default", "g"))  # undecodable
    served.api.sent.clear()

    await served.settle(seconds=SETTLED)
    for _ in range(10):
        await served.settle(seconds=60)

    assert request(served) == made
    assert len(served.api.writes) <= 2 * 11
    assert not [verb for verb, _, _ in served.api.writes if verb == "delete"]


@pytest.mark.parametrize(
    "odd",
    [
        {"spec": "text"},
        {"spec": {"podSets": {}}},
        {"spec": {"podSets": [{"count": "three"}]}},
        {"status": {"conditions": [1]}},
    ],
    ids=str,
)
def test_a_request_of_another_form_is_refused_by_name(odd: Json) -> None:
    written = msgspec.json.encode({"metadata": {"name": "g"}} | odd)

    with pytest.raises(msgspec.DecodeError):
        decode_request(written)


async def test_hundreds_of_roots_of_one_tenant_leave_others_theirs(
    served: ControllerHarness,
) -> None:
    for index in range(300):
        group(served, f"t{index}", namespace="hostile")
        pods(served, 1, of=f"t{index}", root=f"t{index}", namespace="hostile")
        says(served, "capacity", f"t{index}", namespace="hostile")
    await served.settle(seconds=SETTLED)
    served.api.sent.clear()
    group(served)
    pods(served, 2)
    says(served, "capacity")

    await served.settle()
    await served.settle(seconds=SETTLED)
    assert counts(served) == [2]
    for _ in range(200):
        await served.settle(seconds=1)

    theirs = [key for key in served.api.objects if key[:2] == (REQUEST, "hostile")]
    assert len(theirs) == MOST_REQUESTS
    made = [name for verb, kind, name in served.api.writes if kind == REQUEST]
    assert len(made) <= MOST_REQUESTS + 1


async def test_a_root_that_is_done_makes_place_for_the_next(
    served: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity_requests, "MOST_REQUESTS", 2)
    for index in range(4):
        group(served, f"t{index}")
        pods(served, 1, of=f"t{index}", root=f"t{index}")
        says(served, "capacity", f"t{index}")
    await served.settle(seconds=SETTLED)
    await served.settle(seconds=SETTLED)
    assert served.api.names(REQUEST) == ["t0", "t1"]

    served.api.remove("PodGroup", "default", "t2")  # the next in line
    says(served, "", "t0")
    await served.settle(seconds=SETTLED)
    await served.settle(seconds=SETTLED)

    assert served.api.names(REQUEST) == ["t1", "t3"]


async def test_a_request_that_a_tenant_made_up_is_deleted_with_its_root(
    served: ControllerHarness,
) -> None:
    """It claims to be Muster's, for a root that does not exist."""
    notes = {"scheduling.muster.dev/made-for": "scheduling.muster.dev/PodGroup/g/u"}
    metadata = {"name": "g", "namespace": "default", "annotations": notes}
    metadata |= {"labels": {LABEL_MANAGED_BY: MANAGED_BY}}
    served.api.put({"kind": REQUEST, "metadata": metadata, "spec": {"podSets": []}})

    await served.settle(seconds=1)

    assert request(served) is None


async def test_a_job_carries_what_it_asks_to_its_group(served: ControllerHarness) -> None:
    job = (
        make_job("train")
        .pods(2)
        .asks(gang_mode="Gang", provisioning_request=ATOMIC, preemption_delay="5m")
    )
    stored = served.submit_job(job.build())
    await served.settle()

    made = served.api.objects["PodGroup", "default", "pg-job-train"]["metadata"]["annotations"]
    assert made[ANNOTATION_PROVISIONING_REQUEST] == ATOMIC
    assert made[ANNOTATION_PREEMPTION_DELAY] == "5m"
    said = stored["spec"]["template"]["metadata"]["annotations"]
    assert consumed("pg-job-train", ATOMIC).items() <= said.items()


STANDS_IN = {
    ANNOTATION_MADE_FOR: "jobset.x-k8s.io/JobSet/other/u",
    ANNOTATION_STANDS_FOR: "g",
}


@pytest.mark.parametrize("asks", ["", ATOMIC])
async def test_a_root_that_stands_for_a_name_has_the_request_that_its_pods_name(
    served: ControllerHarness, asks: str
) -> None:
    """The root of that name must not request one too, because the pods would be ambiguous."""
    group(served, asks=asks)
    own = group(served, "g-own", **STANDS_IN)
    labels = {"labels": {LABEL_MANAGED_BY: MANAGED_BY}}
    served.api.put(own | {"metadata": own["metadata"] | labels})
    uid = {"jobset.sigs.k8s.io/jobset-uid": "u"}
    pods(served, 2)
    for index in range(2):
        slot = ("Pod", "default", f"g-1-{index}")
        pod = served.api.objects[slot]
        labels = pod["metadata"]["labels"] | uid
        notes = pod["metadata"]["annotations"] | {ANNOTATION_MANAGED_GROUP: "g"}
        served.api.put(
            pod | {"metadata": pod["metadata"] | {"labels": labels, "annotations": notes}}
        )
    says(served, "capacity", "g-own")
    for _ in range(3):
        await served.settle(seconds=SETTLED)

    assert counts(served) == ([] if asks else [2])
    assert request(served, "g-own") is None
    reported = [
        text for text in served.recorded.messages if "delete and recreate the owner" in text
    ]
    assert bool(reported) is bool(asks)
    if not asks:
        says(served, "", "g-own")
        await served.settle(seconds=60)
        assert request(served) is None
