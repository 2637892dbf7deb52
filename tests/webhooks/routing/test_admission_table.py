"""The table of admission cases through the HTTP server, as an API server calls it."""

from collections.abc import Iterator
from typing import Any

import pytest

from api.constants import COMPOSITE_POD_GROUP, COSCHEDULING, POD_GROUP, WORKLOAD, KindName
from api.reading import dig
from tests.support.admission import EACH_ROUTE, Case
from tests.support.admission.case import CLASSES, SYSTEM_CLASSES
from tests.webhooks.listener_thread import Caller, serving
from tests.webhooks.review_requests import FakeLister, Read, review_of

KINDS = {
    (kind.group, kind.kind): kind
    for kind in (WORKLOAD, POD_GROUP, COMPOSITE_POD_GROUP, COSCHEDULING)
}
VALIDATED = {COSCHEDULING: "validate/coscheduling"}
CONVERTED = (WORKLOAD, POD_GROUP)


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    with serving(FakeLister([*CLASSES, *SYSTEM_CLASSES])) as one:
        yield one


def asked(case: Case, caller: Caller) -> tuple[Read, Any]:
    """Convert, mutate, validate; return the decisive response, and the stored object."""
    kind, new = _kind(case), case.new
    if kind in CONVERTED and new["apiVersion"] != kind.api_version:
        new = caller.convert(new, kind.api_version)
    if case.old is None and kind not in {WORKLOAD, COSCHEDULING}:
        answer = caller.review(f"mutate/{kind.plural}", review_of(kind, new))
        if not answer.allowed:
            return answer, new
        new = answer.result or {}
    route = VALIDATED.get(kind, f"validate/{kind.plural}")
    review = review_of(kind, new, case.old, subresource=case.subresource)
    return caller.review(route, review), new


def _kind(case: Case) -> KindName:
    return KINDS[case.new["apiVersion"].partition("/")[0], case.new["kind"]]


@pytest.mark.parametrize("case", EACH_ROUTE)
def test_admission(case: Case, caller: Caller) -> None:
    answer, stored = asked(case, caller)

    found = [(field, reason.removeprefix("FieldValue")) for field, reason in answer.faults]
    assert found == list(case.faults)
    assert answer.code == case.code
    # Warnings that depend on other objects are not in the table: there are none here.
    own = [warning for warning in answer.warnings if not warning.startswith("spec.workloadRef")]
    assert len(own) == len(case.warnings)
    for warning, beginning in zip(own, case.warnings, strict=True):
        assert warning.startswith(beginning)
    for path, value in case.becomes.items():
        assert dig(stored, *path.split(".")) == value
