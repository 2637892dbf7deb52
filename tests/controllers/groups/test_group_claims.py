"""Claims that the pods of a group share: created, recorded, recreated, deleted, and obstacles."""

from typing import Any

import msgspec
import pytest

from api import names
from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_STANDS_FOR,
    JOB,
    JOBSET,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    POD_GROUP,
)
from controllers.cache.decoding import decode_group
from controllers.cache.objects import CLAIM_TEMPLATES, CLAIMS
from controllers.groups.group_claims import BURST, FORBIDDEN_TEXT, RETRY_SECONDS, UNSERVED_TEXT
from kube.base.errors import Forbidden, ServerError
from kube.client.resources import Resource
from tests.controllers.conftest import ControllerHarness
from tests.support.owners import made_for, make_job

Json = dict[str, Any]

CLAIM, TEMPLATE = CLAIMS.kind, CLAIM_TEMPLATES.kind
NOT_MADE = "FailedResourceClaimCreation"
SPEC = {"devices": {"requests": [{"name": "channel", "exactly": {"deviceClassName": "imex"}}]}}


@pytest.fixture
async def served(harness: ControllerHarness) -> ControllerHarness:
    """The harness of a cluster that serves resource.k8s.io/v1."""
    serve(harness)
    return harness


def serve(harness: ControllerHarness) -> None:
    harness.caches.serve(CLAIMS)
    harness.caches.serve(CLAIM_TEMPLATES)


def template(harness: ControllerHarness, name: str = "imex-channel", **metadata: Any) -> Json:
    spec: Json = {"spec": SPEC} | ({"metadata": metadata} if metadata else {})
    named = {"name": name, "namespace": "default"}
    return harness.api.put({"kind": TEMPLATE, "metadata": named, "spec": spec})


def entry(name: str = "imex", **said: str) -> Json:
    return {"name": name} | (said or {"resourceClaimTemplateName": "imex-channel"})


def group(
    harness: ControllerHarness, *entries: Json, name: str = "g", status: Any = None, **meta: Any
) -> Json:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "resourceClaims": list(entries or (entry(),)),
    }
    obj: Json = {"kind": "PodGroup", "metadata": {"name": name, "namespace": "default"} | meta}
    return harness.api.put(obj | {"spec": spec} | ({} if status is None else {"status": status}))


def claim(harness: ControllerHarness, name: str = "g.imex") -> Json | None:
    return harness.api.objects.get((CLAIM, "default", name))


def recorded(harness: ControllerHarness, name: str = "g") -> Any:
    status = harness.api.objects["PodGroup", "default", name].get("status", {})
    return status.get("resourceClaimStatuses")


def of(name: str = "imex", of_group: str = "g") -> Json:
    return {"name": name, "resourceClaimName": f"{of_group}.{name}"}


def foreign(harness: ControllerHarness, name: str = "g.imex", **meta: Any) -> Json:
    named = {"name": name, "namespace": "default"} | meta
    return harness.api.put({"kind": CLAIM, "metadata": named, "spec": SPEC})


async def test_a_claim_is_made_from_the_template_and_recorded(served: ControllerHarness) -> None:
    template(served, labels={"team": "a", LABEL_MANAGED_BY: "helm"}, annotations={"note": "n"})
    owner = group(served, status={"members": 2})

    await served.settle()

    found = claim(served)
    assert found is not None
    uid = owner["metadata"]["uid"]
    assert found["apiVersion"] == "resource.k8s.io/v1"
    assert found["spec"] == SPEC
    assert found["metadata"]["labels"] == {"team": "a", LABEL_MANAGED_BY: MANAGED_BY}
    assert found["metadata"]["annotations"] == {
        "note": "n",
        ANNOTATION_MADE_FOR: f"scheduling.muster.dev/PodGroup/g/{uid}",
    }
    assert found["metadata"]["ownerReferences"] == [
        {
            "apiVersion": POD_GROUP.api_version,
            "kind": "PodGroup",
            "name": "g",
            "uid": uid,
            "controller": True,
        }
    ]
    status = served.api.objects["PodGroup", "default", "g"]["status"]
    assert status == {"members": 2, "resourceClaimStatuses": [of()]}


@pytest.mark.parametrize(
    ("entries", "want"),
    [
        pytest.param([entry()], ["g.imex"], id="one entry with a template"),
        pytest.param(
            [entry("b"), entry("a", resourceClaimTemplateName="imex-channel")],
            ["g.b", "g.a"],
            id="two entries from one template, in the order of the spec",
        ),
        pytest.param([entry(resourceClaimName="mine")], [], id="an entry that names a claim"),
        pytest.param(
            [entry("own", resourceClaimName="mine"), entry()], ["g.imex"], id="one of either kind"
        ),
        pytest.param(
            [entry(f"e{at}") for at in range(9)],
            [f"g.e{at}" for at in range(4)],
            id="no more than four, whatever got past admission",
        ),
        pytest.param(
            [{"name": "x", "resourceClaimName": "y", "resourceClaimTemplateName": "imex-channel"}],
            [],
            id="an entry that names both",
        ),
    ],
)
async def test_which_entries_get_a_claim(
    served: ControllerHarness, entries: list[Json], want: list[str]
) -> None:
    template(served)
    group(served, *entries)

    await served.settle()

    assert served.api.names(CLAIM) == sorted(want)
    assert [it["resourceClaimName"] for it in recorded(served) or []] == want


async def test_a_group_that_has_its_claims_costs_no_write(served: ControllerHarness) -> None:
    template(served)
    made = group(served)
    await served.settle()
    served.api.sent.clear()

    obj = served.api.objects["PodGroup", "default", "g"]
    served.api.put(obj | {"status": obj["status"] | {"scheduledPods": 1}})
    served.group_claims.controller.queue.add((made["metadata"]["namespace"], "g"))
    held = claim(served)
    assert held is not None
    served.api.put(held | {"status": {"allocation": {}}})
    await served.settle(seconds=700)

    assert served.api.writes == []


async def test_a_claim_that_is_deleted_is_made_anew(served: ControllerHarness) -> None:
    template(served)
    group(served)
    await served.settle()
    before = claim(served)
    assert before is not None

    served.api.remove(CLAIM, "default", "g.imex")
    await served.settle()

    after = claim(served)
    assert after is not None
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert recorded(served) == [of()]


async def test_one_that_pods_still_hold_is_made_anew_when_it_is_gone(
    served: ControllerHarness,
) -> None:
    template(served)
    group(served)
    await served.settle()
    held = claim(served)
    assert held is not None
    protected = held["metadata"] | {"finalizers": ["resource.kubernetes.io/delete-protection"]}
    served.api.put(held | {"metadata": protected})

    served.api.remove(CLAIM, "default", "g.imex")
    await served.settle()
    assert recorded(served) == [of()]
    assert served.recorded.events == []
    served.api.release(CLAIM, "default", "g.imex")
    await served.settle()

    made = claim(served)
    assert made is not None
    assert made["metadata"]["uid"] != held["metadata"]["uid"]


@pytest.mark.parametrize("forgetful", [False, True], ids=["by its owner reference", "orphaned"])
async def test_it_goes_with_its_group(served: ControllerHarness, forgetful: bool) -> None:
    template(served)
    group(served)
    await served.settle()

    (served.api.orphan if forgetful else served.api.remove)("PodGroup", "default", "g")
    await served.settle()

    assert served.api.names(CLAIM) == []


async def test_the_next_group_of_the_name_gets_a_claim_of_its_own(
    served: ControllerHarness,
) -> None:
    template(served)
    group(served)
    await served.settle()
    before = claim(served)
    assert before is not None
    served.api.forget("PodGroup", "default", "g")  # the garbage collector lags

    after = group(served)
    await served.settle()
    await served.settle(seconds=RETRY_SECONDS[0])

    made = claim(served)
    assert made is not None
    assert made["metadata"]["ownerReferences"][0]["uid"] == after["metadata"]["uid"]
    assert recorded(served) == [of()]


@pytest.mark.parametrize(
    "meta", [{"finalizers": ["x"], "deletionTimestamp": "2026-01-01T00:00:00Z"}]
)
async def test_a_group_that_is_being_deleted_gets_none(
    served: ControllerHarness, meta: Json
) -> None:
    template(served)
    group(served, **meta)

    await served.settle()

    assert served.api.names(CLAIM) == []
    assert recorded(served) is None


async def test_none_is_made_in_a_namespace_that_is_going(served: ControllerHarness) -> None:
    template(served)
    going = {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
    served.api.put({"kind": "Namespace", "metadata": going})
    group(served)

    await served.settle()

    assert served.api.names(CLAIM) == []
    assert served.recorded.events == []


@pytest.mark.parametrize(
    "noted",
    [
        pytest.param({}, id="without any note"),
        pytest.param(
            {
                "labels": {LABEL_MANAGED_BY: MANAGED_BY},
                "annotations": {ANNOTATION_MADE_FOR: "example.com/Pipeline/g/u"},
            },
            id="made for something else",
        ),
        pytest.param(
            {"annotations": {ANNOTATION_MADE_FOR: "scheduling.muster.dev/PodGroup/g/u"}},
            id="with the note, but not Muster's",
        ),
    ],
)
async def test_a_foreign_claim_is_never_taken_over(served: ControllerHarness, noted: Json) -> None:
    template(served)
    before = foreign(served, **noted)
    group(served)

    await served.settle()
    await served.settle(seconds=700)

    assert claim(served) == before
    assert recorded(served) is None
    assert served.recorded.events == [("PodGroup", "g", "NameTaken")]

    served.api.remove(CLAIM, "default", "g.imex")
    await served.settle(seconds=RETRY_SECONDS[1])
    assert recorded(served) == [of()]
    served.api.remove(CLAIM, "default", "g.imex")
    foreign(served)
    await served.settle()
    assert recorded(served) == []
    assert served.recorded.events[1:] == [("PodGroup", "g", "NameTaken")]


async def test_a_missing_template_is_told_once_and_waited_for(served: ControllerHarness) -> None:
    served.api.put({"kind": "Job", **make_job("a").build()})
    uid = served.api.objects["Job", "default", "a"]["metadata"]["uid"]
    group(served, **made_for(JOB, "a", uid))
    group(served, entry(resourceClaimTemplateName="another"), name="h")

    await served.settle()
    await served.settle(seconds=3 * RETRY_SECONDS[1])
    assert sorted(served.recorded.events) == [
        ("Job", "a", NOT_MADE),
        ("PodGroup", "g", NOT_MADE),
        ("PodGroup", "h", NOT_MADE),
    ]
    assert not [it for it in served.api.writes if it[1] == CLAIM]
    template(served)
    await served.settle()

    assert served.api.names(CLAIM) == ["g.imex"]
    assert recorded(served) == [of()]
    assert recorded(served, "h") is None


async def test_an_entry_that_fails_holds_up_no_other(served: ControllerHarness) -> None:
    template(served)
    group(served, entry("a", resourceClaimTemplateName="missing"), entry("b"))

    await served.settle()

    assert recorded(served) == [of("b")]
    assert served.recorded.events == [("PodGroup", "g", NOT_MADE)]


async def test_what_the_api_server_refuses_is_told_and_tried_again(
    served: ControllerHarness,
) -> None:
    template(served)
    served.api.fail(Forbidden(403, "Forbidden", "exceeded quota: claims"))
    group(served)

    await served.settle()
    assert served.recorded.events == [("PodGroup", "g", NOT_MADE)]
    assert claim(served) is None
    await served.settle(seconds=RETRY_SECONDS[0])

    assert recorded(served) == [of()]


async def test_an_error_of_the_api_server_is_no_news(served: ControllerHarness) -> None:
    template(served)
    served.api.fail(ServerError(500, "InternalError", "etcd"))
    group(served)

    await served.settle()
    await served.settle(seconds=5)

    assert recorded(served) == [of()]
    assert served.recorded.events == []


async def test_a_cluster_without_the_api_is_said_and_waited_for(
    harness: ControllerHarness,
) -> None:
    group(harness, entry(resourceClaimName="mine"), entry())
    await harness.settle(seconds=700)
    assert harness.recorded.events == [("PodGroup", "g", NOT_MADE)]
    assert harness.api.writes == []

    template(harness)
    harness.caches.serve(CLAIMS)
    await harness.settle()
    assert harness.api.writes == []
    serve(harness)
    await harness.settle()

    assert recorded(harness) == [of()]


@pytest.mark.parametrize(
    ("forbidden", "said"), [(set(), UNSERVED_TEXT), ({CLAIM_TEMPLATES}, FORBIDDEN_TEXT)]
)
async def test_why_no_claims_can_be_made_is_told(
    harness: ControllerHarness, forbidden: set[Resource], said: str
) -> None:
    """The reason distinguishes an unserved kind from missing permissions of an older role."""
    why = Forbidden(403, "Forbidden", "no")
    harness.caches.unlisted |= dict.fromkeys(forbidden, why)
    group(harness)
    await harness.settle()

    assert harness.recorded.messages == [said]


async def test_the_status_of_the_scheduler_is_not_lost(served: ControllerHarness) -> None:
    """The cached group has no status, and the scheduler writes one meanwhile."""
    template(served)
    obj = group(served)
    served.api.pause_events()
    served.api.put(obj | {"status": {"members": 3}})

    await served.settle()
    assert recorded(served) is None
    served.api.resume_events()
    await served.settle(seconds=2)

    status = served.api.objects["PodGroup", "default", "g"]["status"]
    assert status == {"members": 3, "resourceClaimStatuses": [of()]}


async def test_a_status_that_vanished_meanwhile_is_written_anew(
    served: ControllerHarness,
) -> None:
    template(served)
    obj = group(served, status={"members": 3})
    served.api.pause_events()
    served.api.put({key: value for key, value in obj.items() if key != "status"})

    await served.settle()
    served.api.resume_events()
    await served.settle(seconds=2)

    assert recorded(served) == [of()]


async def test_what_others_write_into_the_statuses_is_put_right(
    served: ControllerHarness,
) -> None:
    template(served)
    obj = group(served, status={"resourceClaimStatuses": [{"name": "imex"}]})
    await served.settle()
    assert recorded(served) == [of()]

    wrong = {"resourceClaimStatuses": [of() | {"resourceClaimName": "other"}]}
    served.api.put(served.api.objects["PodGroup", "default", "g"] | {"status": wrong})
    await served.settle()

    assert recorded(served) == [of()]
    assert obj["spec"] == served.api.objects["PodGroup", "default", "g"]["spec"]


async def test_a_claim_that_the_cache_does_not_have_yet_is_not_made_twice(
    served: ControllerHarness,
) -> None:
    template(served)
    group(served)
    served.api.pause_events()
    await served.settle()
    made = claim(served)
    assert made is not None

    served.group_claims.controller.queue.add(("default", "g"))
    await served.settle(seconds=2)
    served.api.resume_events()
    await served.settle(seconds=2)

    assert claim(served) == made
    assert recorded(served) == [of()]


async def test_a_new_leader_makes_what_is_missing(served: ControllerHarness) -> None:
    template(served)
    served.api.pause_events()
    group(served)
    served.api.relist()
    await served.settle()
    served.api.forget(CLAIM, "default", "g.imex")
    served.caches.claims.delete(("default", "g.imex"))
    await served.settle()
    assert claim(served) is not None

    await served.group_claims.resync()
    served.api.sent.clear()
    await served.settle()

    assert served.api.writes == []


async def test_a_namespace_that_deletes_its_claims_over_and_over_is_slowed_down(
    served: ControllerHarness,
) -> None:
    """Other namespaces do not wait for it."""
    template(served)
    group(served)
    await served.settle()

    for _ in range(BURST + 50):
        if claim(served) is not None:
            served.api.remove(CLAIM, "default", "g.imex")
        await served.settle()
    made = [it for it in served.api.writes if it[:2] == ("create", CLAIM)]
    assert BURST - 2 <= len(made) <= BURST

    other = {"name": "imex-channel", "namespace": "other"}
    served.api.put({"kind": TEMPLATE, "metadata": other, "spec": {"spec": SPEC}})
    group(served, namespace="other")
    await served.settle()
    assert (CLAIM, "other", "g.imex") in served.api.objects
    await served.settle(seconds=60)
    assert claim(served) is not None


async def test_a_taken_name_is_looked_at_ever_less_often(served: ControllerHarness) -> None:
    template(served)
    foreign(served)
    group(served)
    for _ in range(200):
        await served.settle(seconds=60)

    tries = [it for it in served.api.writes if it == ("create", CLAIM, "g.imex")]
    assert 20 <= len(tries) <= 26  # 200 minutes, finally every ten
    assert served.recorded.events == [("PodGroup", "g", "NameTaken")]


async def test_nothing_is_remembered_of_a_group_that_is_gone(served: ControllerHarness) -> None:
    for at in range(30):
        group(served, name=f"g-{at}")
        await served.settle()
        served.api.remove("PodGroup", "default", f"g-{at}")
        await served.settle()

    assert len(served.recorded.events) == 30
    assert served.group_claims._notes == {}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([{"name": 1}], id="a name that is a number"),
        pytest.param({"a": 1}, id="no list"),
    ],
)
def test_a_group_that_no_schema_let_through_is_set_aside_alone(value: Any) -> None:
    obj = {"metadata": {"name": "g"}, "spec": {"resourceClaims": value}}

    with pytest.raises(msgspec.DecodeError):
        decode_group(msgspec.json.encode(obj))


def test_the_name_is_the_one_that_admission_writes() -> None:
    assert names.group_claim("g", "imex") == of()["resourceClaimName"]


STANDS_IN = made_for(JOBSET, "other", "u")
STANDS_IN["annotations"][ANNOTATION_STANDS_FOR] = "g"


def stand_in(harness: ControllerHarness) -> None:
    owner = {"name": "other", "namespace": "default", "uid": "u"}
    harness.api.put({"kind": "JobSet", "metadata": owner, "spec": {}})
    group(harness, name="g-own", **STANDS_IN)


async def test_a_group_that_stands_for_a_name_has_the_claim_that_its_pods_name(
    served: ControllerHarness,
) -> None:
    template(served)
    group(served, entry("else"))
    stand_in(served)
    await served.settle()

    made = claim(served)
    assert made is not None
    assert made["metadata"]["ownerReferences"][0]["name"] == "g-own"
    assert recorded(served, "g-own") == [of()]
    assert recorded(served) == [of("else")]


async def test_both_groups_of_a_name_never_share_one_claim(served: ControllerHarness) -> None:
    template(served)
    stand_in(served)
    group(served)
    await served.settle()

    made = claim(served)
    assert made is not None
    assert made["metadata"]["ownerReferences"][0]["name"] == "g"
    assert recorded(served, "g-own") is None
    assert {it[:2] for it in served.recorded.events} == {("PodGroup", "g-own"), ("JobSet", "other")}
    assert "delete and recreate the owner of the pods" in served.recorded.messages[0]
