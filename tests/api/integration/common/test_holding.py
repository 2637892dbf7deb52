"""The holding time and its consequences: annotations of JobSets and LeaderWorkerSets."""

from typing import Any

import pytest

from api.constants import ANNOTATION_HOLD_SECONDS, ANNOTATION_ON_HOLD_EXPIRED
from api.integration.common.holding import hold_notes
from api.integration.common.owner_kind import Review
from api.integration.jobset.admission import jobset_admission
from api.integration.lws.admission import lws_admission
from tests.support.lws import admitted, make_lws
from tests.support.owners import make_jobset

Json = dict[str, Any]
PATH = f"metadata.annotations[{ANNOTATION_HOLD_SECONDS}]"

GOOD = ["1", "600", "999999"]
BAD = ["", "0", "-1", "1.5", "10m", "1000000", "0600", "\u0661", " 1", "1\n", 600, None, ["1"]]


def jobset(said: Any) -> Json:
    made = make_jobset().asks(gang_mode="Gang").replicated_job("a").build()
    return noted(made, said)


def lws(said: Any) -> Json:
    return noted(make_lws().replicas(1, 2).asks(gang_mode="Gang").leader_ready().build(), said)


def noted(made: Json, said: Any) -> Json:
    notes = made["metadata"].setdefault("annotations", {})
    notes[ANNOTATION_HOLD_SECONDS] = said
    return made


@pytest.mark.parametrize("said", [*GOOD, *BAD])
@pytest.mark.parametrize("kind", ["JobSet", "LeaderWorkerSet"])
def test_it_is_a_number_of_seconds(kind: str, said: Any) -> None:
    make, admission = (jobset, jobset_admission) if kind == "JobSet" else (lws, lws_admission)
    stored = admitted(lws("5")) if kind == "LeaderWorkerSet" else jobset("5")
    changed = noted(stored, said)
    fine = said in GOOD or said is None

    found = [it.field for it in admission(make(said), Review("CREATE", expects=True)).causes]

    assert found == ([] if fine else [PATH])
    assert [
        it.field for it in admission(changed, Review("UPDATE", changed, expects=True)).causes
    ] == []
    assert admission(make(said), Review("CREATE")).causes == []
    assert hold_notes({ANNOTATION_HOLD_SECONDS: said}) == (
        {ANNOTATION_HOLD_SECONDS: said} if said in GOOD else {}
    )


@pytest.mark.parametrize("said", BAD[:4])
def test_a_change_has_to_be_right_too(said: Any) -> None:
    for old, new, admission in (
        (jobset("5"), jobset(said), jobset_admission),
        (admitted(lws("5")), admitted(lws(said)), lws_admission),
    ):
        causes = admission(new, Review("UPDATE", old, expects=True)).causes
        assert [it.field for it in causes] == [PATH]


def test_one_that_asks_for_no_group_is_left_alone() -> None:
    plain = noted(make_jobset().replicated_job("a").build(), "soon")

    assert jobset_admission(plain, Review("CREATE", expects=True)).causes == []


@pytest.mark.parametrize(
    ("said", "fine"),
    [("Keep", True), ("Evict", True), ("evict", False), ("", False), (["Keep"], False)],
)
def test_what_runs_is_kept_or_evicted_when_the_time_is_over(said: Any, fine: bool) -> None:
    want = [] if fine else [f"metadata.annotations[{ANNOTATION_ON_HOLD_EXPIRED}]"]
    for made, admission in ((jobset("5"), jobset_admission), (lws("5"), lws_admission)):
        made["metadata"]["annotations"][ANNOTATION_ON_HOLD_EXPIRED] = said
        causes = admission(made, Review("CREATE", expects=True)).causes
        assert [it.field for it in causes] == want
    notes = {ANNOTATION_ON_HOLD_EXPIRED: said}
    assert hold_notes(notes) == (notes if fine else {})
