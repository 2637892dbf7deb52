"""LeaderWorkerSets through the complete review: annotated, rejected with every cause, once."""

from typing import Any

from api.constants import LABEL_POD_GROUP, LEADER_WORKER_SET
from api.features import USUAL, Feature, FeatureGates
from api.integration.lws.admission import lws_groups
from api.priority import PriorityClass
from tests.support.lws import LwsBuilder, make_lws
from tests.webhooks.review_requests import FakeLister, Read, encoded, read, review_of
from webhooks.routing.reviewer import Reviewer

Json = dict[str, Any]
LISTER = FakeLister([PriorityClass("low", 5, preemption_policy="Never")])


def ask(phase: str, new: Json, old: Json | None = None) -> Read:
    review = review_of(LEADER_WORKER_SET, new, old)
    return read(Reviewer(LISTER).review(f"{phase}/leaderworkersets", encoded(review)), review)


def gang(**words: str) -> LwsBuilder:
    return make_lws().replicas(2, 4).asks(gang_mode="Gang", **words)


def test_it_is_marked_and_let_in() -> None:
    answer = ask("mutate", gang().leader().build())

    assert answer.result is not None
    assert len(lws_groups(answer.result)) == 3
    assert ask("mutate", answer.result).result == answer.result
    assert ask("validate", answer.result).allowed
    assert ask("validate", answer.result).warnings == []
    assert ask("mutate", answer.result, answer.result).result == answer.result


def test_every_fault_is_said_at_once() -> None:
    answer = ask("validate", gang(min_count="9", shared_claims="gpu").build())

    assert not answer.allowed
    assert answer.code == 422
    assert [it["field"].partition("[")[2] for it in answer.causes] == [
        "scheduling.muster.dev/shared-claims]",
        "scheduling.muster.dev/min-count]",
    ]
    # Validation reports the errors: mutation allows the request so that it gets there.
    assert ask("mutate", gang(min_count="9").build()).allowed


def test_what_the_order_does_not_promise_is_a_warning() -> None:
    (warning,) = ask("validate", gang().leader_ready().build()).warnings

    assert warning.startswith("spec.startupPolicy: ")


def test_with_expected_pods_the_order_is_kept_without_a_warning() -> None:
    gates = FeatureGates(USUAL.on | {Feature.EXPECTED_PODS})
    review = review_of(LEADER_WORKER_SET, gang().leader_ready().build())

    answer = Reviewer(FakeLister(gates=gates)).review("validate/leaderworkersets", encoded(review))

    assert read(answer, review).allowed
    assert read(answer, review).warnings == []


def test_a_change_of_the_order_is_refused() -> None:
    stored = gang().admitted()
    stored["spec"]["startupPolicy"] = "LeaderCreated"
    changed = gang().leader_ready().build()

    answer = ask("validate", changed, stored)

    assert [it["field"] for it in answer.causes] == ["spec.startupPolicy"]


def test_both_templates_are_asked_for_their_priority() -> None:
    preempting = {"priorityClassName": "low", "preemptionPolicy": "PreemptLowerPriority"}

    answer = ask("validate", gang().leader(**preempting).worker(**preempting).build())

    assert answer.code == 403
    assert len(answer.causes) == 2
    plain = make_lws().leader(**preempting).build()
    assert ask("validate", plain).allowed


def test_a_class_that_is_not_there_is_a_warning() -> None:
    answer = ask("validate", gang().worker(priorityClassName="none").build())

    assert answer.allowed
    assert "none" in " ".join(answer.warnings)


def labelled(builder: LwsBuilder, group: str) -> Json:
    made = builder.build()
    metadata = {"labels": {LABEL_POD_GROUP: group}}
    made["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = metadata
    return made


def test_a_label_that_is_overwritten_is_told_once() -> None:
    made = labelled(gang(), "mine")
    path = f"spec.leaderWorkerTemplate.workerTemplate.metadata.labels[{LABEL_POD_GROUP}]"

    created = ask("mutate", made)
    assert [it.partition(": ")[0] for it in created.warnings] == [path]
    assert created.result is not None
    assert ask("validate", created.result).warnings == []
    again = ask("mutate", made, created.result)
    assert [it.partition(": ")[0] for it in again.warnings] == [path]


def test_a_label_that_stays_is_not_told_of() -> None:
    alone = labelled(make_lws(), "mine")

    assert ask("mutate", labelled(gang(), "serve")).warnings == []
    assert ask("mutate", alone).warnings == []
    assert ask("mutate", labelled(gang(), "mine"), alone).warnings == []


def test_a_misspelt_annotation_is_a_warning_when_it_is_made() -> None:
    new = gang(min_cuont="3").build()

    answer = ask("validate", new)

    assert answer.allowed
    (warning,) = answer.warnings
    assert "min-cuont]: has no effect: use scheduling.muster.dev/min-count" in warning
    stored = gang(min_cuont="3").admitted()
    assert ask("validate", stored, stored).warnings == []
