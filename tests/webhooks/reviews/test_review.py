"""Invalid reviews are rejected with the invalid fields."""

import json
import tracemalloc
from typing import Any

import pytest
from structlog.testing import capture_logs

from api.constants import JOB, POD_GROUP, WORKLOAD
from tests.webhooks.object_fields import kinds
from tests.webhooks.review_requests import FakeLister, Read, encoded, pod_group, read, review_of
from tools.testing.effort import selected
from webhooks.cache.informers import GroupObject
from webhooks.reviews.review import MalformedReviewError, decode, memory_of
from webhooks.routing import conversion
from webhooks.routing.reviewer import ROUTES, Reviewer, UnknownRouteError
from webhooks.server.routes import BODY_LIMIT


def changed(**request: Any) -> bytes:
    """Return a valid review of a PodGroup with fields of its request replaced."""
    review = review_of(POD_GROUP, pod_group())
    review["request"] |= request
    return encoded(review)


def with_object(obj: bytes) -> bytes:
    """Return a valid review except for its object, which is given as bytes."""
    return changed(object="HERE").replace(b'"HERE"', obj)


def envelope(**fields: Any) -> bytes:
    """Return a valid review with fields of its envelope replaced, None removes one."""
    review = review_of(POD_GROUP, pod_group()) | fields
    return encoded({key: value for key, value in review.items() if value is not None})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param(b"", "", id="an empty body"),
        pytest.param(b"{", "", id="broken JSON"),
        pytest.param(b"\xff\xfe", "", id="no text at all"),
        pytest.param(b"[]", "", id="a list"),
        pytest.param(b"[" * 100_000, "", id="nesting without end"),
        pytest.param(with_object(b"[" * 10_000 + b"]" * 10_000), "", id="very deep"),
        pytest.param(with_object(b"9" * 100_000), "", id="a number of very many digits"),
        pytest.param(with_object(b'{"a": "\\ud800"}'), "", id="half a character"),
        pytest.param(with_object(b'{"a": "\xff"}'), "", id="no UTF-8"),
        pytest.param(envelope(request=None), "request", id="no request"),
        pytest.param(envelope(kind="Pod"), "kind", id="another kind"),
        pytest.param(
            envelope(apiVersion="admission.k8s.io/v1beta1"), "apiVersion", id="another version"
        ),
        pytest.param(changed(uid=""), "request.uid", id="an empty uid"),
        pytest.param(changed(uid=5), "request.uid", id="a uid that is a number"),
        pytest.param(changed(operation="PATCH"), "request.operation", id="an unknown operation"),
        pytest.param(changed(object=[]), "request.object", id="an object that is a list"),
        pytest.param(
            changed(resource={"group": "", "version": "v1", "resource": "pods"}),
            "request.resource",
            id="a resource of another route",
        ),
        pytest.param(
            changed(resource={"group": POD_GROUP.group, "version": "v9", "resource": "podgroups"}),
            "request.resource",
            id="a version that the rules do not know",
        ),
        pytest.param(
            changed(kind={"group": POD_GROUP.group, "version": "v1alpha3", "kind": "Workload"}),
            "request.kind.kind",
            id="a kind that is not the resource's",
        ),
    ],
)
def test_a_malformed_review_names_the_field(body: bytes, field: str) -> None:
    with pytest.raises(MalformedReviewError) as caught:
        Reviewer(FakeLister()).review("validate/podgroups", body)

    assert [cause.field for cause in caught.value.causes] == [field]


def test_a_path_that_serves_nothing_says_which_do() -> None:
    with pytest.raises(UnknownRouteError, match="/mutate/jobs") as caught:
        Reviewer(FakeLister()).review("mutate/nodes", b"")

    assert caught.value.route == "mutate/nodes"


def test_fields_that_are_not_known_do_no_harm() -> None:
    review = review_of(WORKLOAD, None, operation="DELETE")
    review["request"]["somethingNew"] = {"a": 1}
    review["somethingElse"] = 1

    answer = json.loads(Reviewer(FakeLister()).review("validate/workloads", encoded(review)))

    assert answer["response"] == {"uid": review["request"]["uid"], "allowed": True}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "CONNECT"])
@pytest.mark.parametrize(
    "obj", [None, {}, {"metadata": 5, "spec": "x"}], ids=["no object", "empty", "odd"]
)
def test_every_route_answers_every_operation(
    route: str, operation: str, obj: dict[str, Any] | None
) -> None:
    review = review_of(ROUTES[route].kind, obj, obj, operation=operation)

    answer = json.loads(Reviewer(FakeLister()).review(route, encoded(review)))

    assert answer["response"]["uid"] == review["request"]["uid"]


def test_a_core_group_is_left_out_of_the_words_for_a_user() -> None:
    job = {"metadata": {"name": "j", "annotations": {"scheduling.muster.dev/gang-mode": "No"}}}
    review = review_of(JOB, job)

    answer = json.loads(Reviewer(FakeLister()).review("validate/jobs", encoded(review)))

    status = answer["response"]["status"]
    assert status["message"].startswith('Job.batch "j" is invalid: metadata.annotations[')
    assert status["details"]["kind"] == "Job"
    assert status["details"]["group"] == "batch"


class Failing(FakeLister):
    """A lister with a bug that one object triggers."""

    def composite(self, namespace: str, name: str) -> GroupObject | None:
        if name == "poison":
            raise LookupError(name)
        return super().composite(namespace, name)


def test_a_bug_refuses_the_one_request_that_met_it() -> None:
    reviewer = Reviewer(Failing())

    def asked(parent: str) -> Read:
        reference = {"workloadName": "w", "templateName": "t"}
        group = pod_group(workloadRef=reference, parentCompositePodGroupName=parent)
        review = review_of(POD_GROUP, group)
        return read(reviewer.review("validate/podgroups", encoded(review)), review)

    with capture_logs() as logs:
        failed, other = asked("poison"), asked("fine")

    assert (failed.allowed, failed.code, failed.reason) == (False, 500, "InternalError")
    assert "LookupError" in failed.message
    assert [(it["event"], it["name"]) for it in logs] == [("failed to review an object", "trainer")]
    assert other.allowed


def test_a_number_that_no_field_can_hold_goes_back_as_it_came() -> None:
    huge = 10**40
    old = pod_group(schedulingConstraints=huge)
    new = pod_group(schedulingConstraints=None)
    review = review_of(POD_GROUP, new, old, version="v1alpha2")

    answer = read(Reviewer(FakeLister()).review("mutate/podgroups", encoded(review)), review)

    assert answer.allowed


def test_a_bug_in_conversion_fails_that_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(_obj: Any, _version: str) -> dict[str, Any]:
        raise LookupError

    monkeypatch.setattr(conversion, "convert", convert)
    request = {"uid": "u", "desiredAPIVersion": "x/y", "objects": [{}]}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}

    with capture_logs():
        answer = json.loads(conversion.review(encoded({**kind, "request": request})))

    assert answer["response"]["uid"] == "u"
    assert answer["response"]["result"]["status"] == "Failure"
    assert "LookupError" in answer["response"]["result"]["message"]


KINDS = kinds()
SHORT = {"a JobSet in mode Gang", "a pod", "a PodGroup"}

DENSE = [
    b"{},",
    b"[],",
    b'{"":1},',
    b'{"a":{}},',
    b'"",',
    b'"ab01",',
    '"\u00e9",'.encode(),
    '"abcdefgh\U0001f600",'.encode(),
    b'"\\ud83d\\ude00",',
    b"1,",
    b"1999,",
    b"1.5,",
    b"99999999999999999999,",
    b"true,",
    b'"' + b"a" * 1000 + b'",',
]


@pytest.mark.parametrize("form", DENSE)
def test_json_takes_no_more_memory_than_is_estimated(form: bytes) -> None:
    body = encoded(review_of(POD_GROUP, pod_group(filled="HERE")))
    body = body.replace(b'"HERE"', b"[" + form * (200_000 // len(form)) + b"0]")
    decode(body)

    tracemalloc.start()
    try:
        request = decode(body)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert request.object is not None
    assert most <= memory_of(body) + 100_000


def test_a_review_that_takes_too_much_memory_is_refused_before_it_is_read() -> None:
    dense = b"[" + b'{"":1},' * (BODY_LIMIT // 8) + b"0]"
    body = encoded(review_of(POD_GROUP, pod_group(filled="HERE"))).replace(b'"HERE"', dense)
    assert len(body) < BODY_LIMIT

    with pytest.raises(MalformedReviewError, match="has too many values"):
        decode(body)


@pytest.mark.parametrize("name", selected({name: name for name in KINDS}, SHORT))
def test_what_api_servers_send_is_read(name: str) -> None:
    """The review is an update of an object of 3 MiB with the usual keys and values."""
    kind = KINDS[name]
    one = json.dumps(kind.base, separators=(",", ":")).encode()
    many = 3 * 2**20 // len(one)
    large = kind.base | {"filled": "HERE"}
    review = json.dumps(review_of(kind.name, large, large), separators=(",", ":")).encode()

    read = decode(review.replace(b'"HERE"', b"[" + b",".join([one] * many) + b"]"))

    assert read.object == kind.base | {"filled": [kind.base] * many}
