"""A LeaderWorkerSet's admission: its annotations, invalid options, and immutable fields."""

from typing import Any

import pytest

from api.constants import ANNOTATION_GROUP_BY, GROUP, LABEL_POD_GROUP, MAX_REPLICAS
from api.integration.common.owner_kind import Review
from api.integration.lws.admission import lws_admission
from api.integration.lws.view import ANNOTATION_EXCLUSIVE, LEADER_FIRST, TOGETHER
from tests.support.lws import LwsBuilder, admitted, make_lws

Json = dict[str, Any]
FORBIDDEN, INVALID = "FieldValueForbidden", "FieldValueInvalid"
NOT_SUPPORTED, REQUIRED = "FieldValueNotSupported", "FieldValueRequired"
TEMPLATE = "spec.leaderWorkerTemplate"


def note(word: str, holder: str = "") -> str:
    return f"{holder}metadata.annotations[{GROUP}/{word}]"


def asking(mode: str = "Gang", **words: str) -> LwsBuilder:
    return make_lws().replicas(2, 4).asks(gang_mode=mode, **words)


def faults(new: Json, old: Json | None = None) -> list[tuple[str, str]]:
    operation = "CREATE" if old is None else "UPDATE"
    return [(it.field, it.reason) for it in lws_admission(new, Review(operation, old)).causes]


def warned(new: Json, old: Json | None = None) -> list[str]:
    operation = "CREATE" if old is None else "UPDATE"
    return [it.partition(": ")[0] for it in lws_admission(new, Review(operation, old)).warnings]


def marks(lws: Json) -> list[tuple[str | None, str | None]]:
    found = []
    for key in ("leaderTemplate", "workerTemplate"):
        metadata = lws["spec"]["leaderWorkerTemplate"].get(key, {}).get("metadata", {})
        label = metadata.get("labels", {}).get(LABEL_POD_GROUP)
        found.append((label, metadata.get("annotations", {}).get(ANNOTATION_GROUP_BY)))
    return found


@pytest.mark.parametrize(
    ("builder", "want"),
    [
        pytest.param(asking(), [], id="a gang"),
        pytest.param(asking("Composite", min_count="2", topology="rack"), [], id="a composite"),
        pytest.param(asking(min_count="4"), [], id="all pods of a replica"),
        pytest.param(make_lws().asks(gang_mode="Off"), [], id="off"),
        pytest.param(asking("Basic"), [(note("gang-mode"), NOT_SUPPORTED)], id="another mode"),
        pytest.param(
            asking(min_count="5"), [(note("min-count"), INVALID)], id="more than a replica's pods"
        ),
        pytest.param(
            asking("Composite", min_count="3"),
            [(note("min-count"), INVALID)],
            id="more than there are replicas",
        ),
        pytest.param(asking(min_count="x"), [(note("min-count"), INVALID)], id="no number"),
        pytest.param(
            asking().replicas(MAX_REPLICAS + 1, 1), [("spec.replicas", INVALID)], id="too many"
        ),
        pytest.param(asking().replicas(MAX_REPLICAS, 1), [], id="the most replicas"),
        pytest.param(
            make_lws().replicas(MAX_REPLICAS + 1, 1), [], id="too many, and without groups"
        ),
        pytest.param(asking().generated(), [("metadata.name", REQUIRED)], id="no name yet"),
        pytest.param(make_lws().generated(), [], id="no name yet, and without groups"),
        pytest.param(
            asking(provisioning_request="check-capacity"),
            [(note("provisioning-request"), FORBIDDEN)],
            id="a request for capacity",
        ),
        pytest.param(
            asking(shared_claims="gpu"), [(note("shared-claims"), FORBIDDEN)], id="shared claims"
        ),
        pytest.param(
            asking().worker_noted(min_count="4", topology="rack"),
            [
                (note("min-count", f"{TEMPLATE}.workerTemplate."), FORBIDDEN),
                (note("topology", f"{TEMPLATE}.workerTemplate."), FORBIDDEN),
            ],
            id="what pods say of groups of their own",
        ),
        pytest.param(make_lws().worker_noted(min_count="4"), [], id="groups of the pods alone"),
        pytest.param(
            asking().leader(priorityClassName="high"),
            [(f"{TEMPLATE}.workerTemplate.spec.priorityClassName", INVALID)],
            id="two priorities",
        ),
        pytest.param(
            asking().leader(schedulerName="muster-scheduler").worker(),
            [],
            id="one that names Muster and one that names nobody",
        ),
        pytest.param(
            asking().worker(schedulerName="volcano"),
            [(f"{TEMPLATE}.workerTemplate.spec.schedulerName", INVALID)],
            id="a third scheduler",
        ),
        pytest.param(
            asking().leader().worker(schedulerName="volcano"),
            [(f"{TEMPLATE}.workerTemplate.spec.schedulerName", INVALID)],
            id="a third scheduler is said once",
        ),
    ],
)
def test_faults(builder: LwsBuilder, want: list[tuple[str, str]]) -> None:
    assert faults(builder.build()) == want
    # Mutation must change neither the number nor the content of the errors.
    assert faults(builder.admitted()) == want


def test_another_group_in_a_template_is_a_fault() -> None:
    lws = asking().admitted()
    template = lws["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    template["spec"]["schedulerName"] = "muster-scheduler"
    template["spec"]["schedulingGroup"] = {"podGroupName": "mine"}

    ((field, reason),) = faults(lws)

    assert field.startswith(f"{TEMPLATE}.workerTemplate.")
    assert reason == INVALID


@pytest.mark.parametrize(
    ("builder", "want"),
    [
        pytest.param(asking(), [(None, None), ("serve", TOGETHER.text())], id="one template"),
        pytest.param(asking().leader(), [("serve", TOGETHER.text())] * 2, id="two templates"),
        pytest.param(
            asking().leader().leader_ready(),
            [("serve", LEADER_FIRST.text())] * 2,
            id="the leader first",
        ),
        pytest.param(
            asking("Composite").exclusive("rack"),
            [(None, None), ("serve", LEADER_FIRST.text())],
            id="an exclusive topology",
        ),
        pytest.param(make_lws().leader(), [(None, None)] * 2, id="not asked"),
        pytest.param(asking("Off").leader(), [(None, None)] * 2, id="off"),
        pytest.param(asking().generated(), [(None, None)] * 2, id="no name yet"),
    ],
)
def test_marks(builder: LwsBuilder, want: list[tuple[str, str]]) -> None:
    lws = builder.admitted()

    assert marks(lws) == want
    assert lws_admission(lws, Review("CREATE")).patch == []


def test_a_copy_of_another_gets_marks_of_its_own() -> None:
    copy = asking().leader().admitted()
    copy["metadata"]["name"] = "other"

    assert {label for label, _ in marks(admitted(copy))} == {"other"}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"spec": None},
        {"spec": {"leaderWorkerTemplate": None}},
        {"spec": {"leaderWorkerTemplate": {"workerTemplate": []}}},
        {"spec": {"replicas": "x", "leaderWorkerTemplate": {"size": -3}}},
        {"spec": {"replicas": -1, "leaderWorkerTemplate": {"workerTemplate": {"metadata": 4}}}},
        {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"metadata": {"labels": []}}}}},
        {"spec": {"startupPolicy": {}, "leaderWorkerTemplate": {"leaderTemplate": {"spec": 1}}}},
        {
            "spec": {
                "leaderWorkerTemplate": {
                    "workerTemplate": {
                        "metadata": {
                            "labels": {LABEL_POD_GROUP: {}},
                            "annotations": {ANNOTATION_GROUP_BY: []},
                        }
                    }
                }
            }
        },
    ],
)
def test_odd_structures_are_the_api_servers_to_refuse(wrong: Json) -> None:
    lws = {"metadata": asking().build()["metadata"]} | wrong

    again = admitted(lws)

    assert {field for field, _ in faults(again)} <= {"spec.replicas"}
    assert admitted(again, again) == again


CHANGES = [
    pytest.param(asking(min_count="2"), [], id="min-count"),
    pytest.param(asking().replicas(5, 8), [], id="scaled, and larger"),
    pytest.param(asking("Composite"), [note("gang-mode")], id="the mode"),
    pytest.param(make_lws().replicas(2, 4), [note("gang-mode")], id="no mode any more"),
    pytest.param(asking(topology="rack"), [note("topology")], id="topology"),
    pytest.param(asking(disruption_mode="All"), [note("disruption-mode")], id="disruption mode"),
    pytest.param(asking().leader_ready(), ["spec.startupPolicy"], id="the leader first now"),
    pytest.param(
        asking().exclusive("rack"),
        [f"metadata.annotations[{ANNOTATION_EXCLUSIVE}]"],
        id="an exclusive topology now",
    ),
    pytest.param(asking().replicas(MAX_REPLICAS + 1, 4), ["spec.replicas"], id="too many now"),
    pytest.param(
        asking().worker(priorityClassName="high"),
        [f"{TEMPLATE}.workerTemplate.spec.priorityClassName"],
        id="another priority",
    ),
    pytest.param(asking().leader(), [], id="a template for leaders"),
]


@pytest.mark.parametrize(("builder", "want"), CHANGES)
def test_changes(builder: LwsBuilder, want: list[str]) -> None:
    old = asking().admitted()
    new = admitted(builder.build(), old)

    assert [field for field, _ in faults(new, old)] == want


def test_an_update_without_the_marks_gets_them_again() -> None:
    old = asking().leader().admitted()

    new = admitted(asking().leader(priorityClassName="high").build(), old)

    assert marks(new) == marks(old)


def test_what_was_wrong_before_does_not_stop_an_update() -> None:
    old = asking().replicas(MAX_REPLICAS + 1, 4).admitted()
    new = asking().replicas(MAX_REPLICAS + 1, 5).build()

    assert faults(admitted(new, old), old) == []


def test_one_that_was_made_without_groups_gets_none_later() -> None:
    old = make_lws().leader().build()
    new = asking().leader().build()

    assert marks(admitted(new, old)) == [(None, None)] * 2
    assert faults(new, old) == []
    assert warned(new, old) == [note("gang-mode")]
    assert warned(old, old) == []


@pytest.mark.parametrize(
    ("builder", "want"),
    [
        pytest.param(asking(topology="rack"), [], id="all of it read"),
        pytest.param(asking().leader_ready(), ["spec.startupPolicy"], id="the leader first"),
        pytest.param(
            asking().exclusive("rack"),
            [f"metadata.annotations[{ANNOTATION_EXCLUSIVE}]"],
            id="an exclusive topology",
        ),
        pytest.param(make_lws().leader_ready(), [], id="the leader first, without groups"),
        pytest.param(
            make_lws().asks(topology="rack", min_count="2"),
            [note("min-count"), note("topology")],
            id="options without a mode",
        ),
    ],
)
def test_warnings(builder: LwsBuilder, want: list[str]) -> None:
    assert warned(builder.build()) == want


def test_a_deletion_is_not_looked_at() -> None:
    answer = lws_admission(asking().leader_ready().build(), Review("DELETE", asking().admitted()))

    assert (answer.patch, answer.causes, answer.warnings) == ([], [], [])
