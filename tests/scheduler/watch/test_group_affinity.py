"""Required terms of a pod about its own group; similar terms are ordinary ones."""

from typing import Any

import msgspec
import pytest

from api.constants import (
    ANNOTATION_GROUP_BY,
    ANNOTATION_MIN_COUNT,
    JOB_LABEL_UID,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_REPLICATED_JOB,
    JOBSET_LABEL_UID,
    LABEL_POD_GROUP,
)
from api.group_affinity import REQUIRED, AffinityScope, term
from api.names import pod_group_of_value
from scheduler.core.values.model import PodInfo
from scheduler.decoding.decode import pod_info
from scheduler.decoding.objects import Pod

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
OF_JOB = {LABEL_POD_GROUP: "pg", JOB_LABEL_UID: "uid-j"}
OF_JOBSET = {
    LABEL_POD_GROUP: "pg",
    JOBSET_LABEL_NAME: "s",
    JOBSET_LABEL_UID: "uid-s",
    JOBSET_LABEL_REPLICATED_JOB: "w",
    JOB_LABEL_UID: "uid-j",
}


def decoded(
    labels: dict[str, str],
    *terms: Json,
    scheduler: str = "muster-scheduler",
    annotations: dict[str, str] | None = None,
) -> PodInfo:
    meta = {"name": "p", "namespace": "ns", "uid": "u", "labels": labels}
    raw = {
        "metadata": meta | {"annotations": annotations or {}},
        "spec": {
            "schedulerName": scheduler,
            "affinity": {"podAffinity": {REQUIRED: list(terms)}},
        },
    }
    return pod_info(msgspec.json.decode(msgspec.json.encode(raw), type=Pod))


def merged(written: Json, labels: dict[str, str]) -> Json:
    """Return a term as an API server stores it, with the keys' values in the selector."""
    expressions = [
        *written["labelSelector"].get("matchExpressions", ()),
        *(
            {"key": key, "operator": "In", "values": [labels[key]]}
            for key in written["matchLabelKeys"]
            if key in labels
        ),
    ]
    selector = written["labelSelector"] | {"matchExpressions": expressions}
    return written | {"labelSelector": selector}


@pytest.mark.parametrize("stored", [False, True], ids=["as written", "as stored"])
@pytest.mark.parametrize("scope", list(AffinityScope))
def test_what_admission_writes_is_known_again(scope: AffinityScope, stored: bool) -> None:
    written = term(scope, ZONE, OF_JOBSET, of_jobset=True)
    info = decoded(OF_JOBSET, merged(written, OF_JOBSET) if stored else written)

    assert [(it.term.key, it.above) for it in info.group_affinity] == [(ZONE, int(scope))]
    assert info.requirements.required_affinity == ()


def test_a_job_of_its_own_and_an_api_server_that_knows_no_match_label_keys() -> None:
    written = term(AffinityScope.POD_GROUP, ZONE, OF_JOB, of_jobset=False)
    old = {key: value for key, value in written.items() if key != "matchLabelKeys"}

    for each in (written, old):
        assert [it.above for it in decoded(OF_JOB, each).group_affinity] == [0]


def test_the_term_that_users_write_for_groups_of_their_own() -> None:
    labels = {LABEL_POD_GROUP: "mine", "app": "x"}
    written = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {LABEL_POD_GROUP: "mine"}}}
    info = decoded(labels, written)

    assert [it.above for it in info.group_affinity] == [0]
    assert info.requirements.required_affinity == ()


def leaf(**changes: Any) -> Json:
    return term(AffinityScope.POD_GROUP, ZONE, OF_JOBSET, of_jobset=True) | changes


def labelled(**labels: str) -> Json:
    return leaf(labelSelector={"matchLabels": labels})


GROUP = {"matchLabels": {LABEL_POD_GROUP: "pg"}}
TEAM = {"key": "team", "operator": "Exists"}


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(leaf(labelSelector={"matchLabels": {LABEL_POD_GROUP: "x"}}), id="another's"),
        pytest.param(
            leaf(
                labelSelector={
                    "matchExpressions": [
                        {"key": LABEL_POD_GROUP, "operator": "In", "values": ["pg", "x"]}
                    ]
                }
            ),
            id="of two groups",
        ),
        pytest.param(leaf(labelSelector=GROUP | {"matchExpressions": [TEAM]}), id="of some pods"),
        pytest.param(leaf(labelSelector={}), id="of all pods"),
        pytest.param(leaf(labelSelector=None), id="of none"),
        pytest.param(leaf(namespaces=["other"]), id="in another namespace"),
        pytest.param(leaf(namespaces=["ns", "other"]), id="in two namespaces"),
        pytest.param(leaf(namespaceSelector={}), id="in all namespaces"),
        pytest.param(leaf(mismatchLabelKeys=[LABEL_POD_GROUP]), id="of all groups but its own"),
        pytest.param(leaf(matchLabelKeys=["team"], labelSelector={}), id="by a label of the user"),
        pytest.param(labelled(team="a"), id="by a user's label"),
        pytest.param(labelled(**{JOBSET_LABEL_NAME: "s"}), id="with pods of no group"),
        pytest.param(
            leaf(
                labelSelector={
                    "matchLabels": {JOBSET_LABEL_NAME: "x"},
                    "matchExpressions": [{"key": LABEL_POD_GROUP, "operator": "Exists"}],
                }
            ),
            id="of another JobSet",
        ),
        pytest.param(
            leaf(
                labelSelector=GROUP
                | {
                    "matchExpressions": [
                        {"key": JOBSET_LABEL_UID, "operator": "In", "values": ["uid-x"]}
                    ]
                }
            ),
            id="of an earlier JobSet",
        ),
    ],
)
def test_a_look_alike_is_a_term_like_any_other(written: Json) -> None:
    labels = OF_JOBSET | {"team": "a"}
    info = decoded(labels, written)

    assert info.group_affinity == ()
    assert len(info.requirements.required_affinity) == 1


def test_a_pod_without_a_group_has_no_affinity_to_one() -> None:
    info = decoded({}, leaf())

    assert (info.group_affinity, len(info.requirements.required_affinity)) == ((), 1)


def test_pods_of_other_schedulers_and_pods_with_too_many_terms_have_none() -> None:
    assert decoded(OF_JOBSET, leaf(), scheduler="default-scheduler").group_affinity == ()
    many = decoded(OF_JOBSET, leaf(), *(labelled(team=f"t{number}") for number in range(64)))
    assert many.requirements.excess
    assert many.group_affinity == ()


def test_other_terms_beside_it_stay() -> None:
    info = decoded(OF_JOBSET, labelled(app="cache"), leaf())

    assert len(info.group_affinity) == len(info.requirements.required_affinity) == 1


def test_a_label_that_several_groups_share_is_not_about_one() -> None:
    written = term(AffinityScope.POD_GROUP, ZONE, OF_JOB, of_jobset=False)
    info = decoded(OF_JOB, merged(written, OF_JOB), annotations={ANNOTATION_GROUP_BY: "index"})

    assert info.group_affinity == ()
    assert len(info.requirements.required_affinity) == 1


def test_the_group_of_a_value_is_the_same_as_for_the_controllers() -> None:
    notes = {ANNOTATION_GROUP_BY: "index", ANNOTATION_MIN_COUNT: "4"}
    info = decoded({LABEL_POD_GROUP: "g", "index": "0"}, annotations=notes)

    assert info.group == pod_group_of_value("g", "index", "0")
    assert info.membership.asks
    assert not decoded({LABEL_POD_GROUP: "g"}).membership.asks
    assert not decoded({LABEL_POD_GROUP: "g"}, annotations=notes, scheduler="other").membership.asks
