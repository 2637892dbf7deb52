"""The fields of a group's claim from its template, whatever that contains."""

from typing import Any

import pytest

from api.constants import ANNOTATION_MADE_FOR, LABEL_MANAGED_BY, MANAGED_BY, POD_GROUP
from api.group_claims import claim_object
from api.ownership import Owner

GROUP = Owner(POD_GROUP, "ns", "g", "u")
OURS = {LABEL_MANAGED_BY: MANAGED_BY}
NOTE = {ANNOTATION_MADE_FOR: "scheduling.muster.dev/PodGroup/g/u"}


@pytest.mark.parametrize(
    ("template", "want"),
    [
        pytest.param(
            {"spec": {"spec": {"devices": {}}}}, (OURS, NOTE, {"devices": {}}), id="a spec alone"
        ),
        pytest.param(
            {"metadata": {"labels": {"own": "x"}}, "spec": {"spec": {}}},
            (OURS, NOTE, {}),
            id="the template's own labels are not the claim's",
        ),
        pytest.param(
            {"spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {}}},
            ({"a": "b"} | OURS, {"c": "d"} | NOTE, {}),
            id="labels and annotations for claims",
        ),
        pytest.param(
            {
                "spec": {
                    "metadata": {
                        "labels": {LABEL_MANAGED_BY: "x"},
                        "annotations": {ANNOTATION_MADE_FOR: "batch/Job/a/b"},
                        "name": "other",
                        "namespace": "other",
                        "ownerReferences": [{"kind": "Job"}],
                        "finalizers": ["x"],
                    },
                    "spec": {},
                }
            },
            (OURS, NOTE, {}),
            id="Muster's own words win, and nothing else is taken",
        ),
        pytest.param({"spec": {"metadata": 3, "spec": []}}, (OURS, NOTE, {}), id="other types"),
        pytest.param({}, (OURS, NOTE, {}), id="nothing"),
    ],
)
def test_claim(template: dict[str, Any], want: tuple[Any, Any, Any]) -> None:
    made = claim_object(GROUP, "g.imex", template)
    meta = made["metadata"]

    assert (meta.pop("labels"), meta.pop("annotations"), made["spec"]) == want
    owner = {
        "apiVersion": "scheduling.muster.dev/v1alpha3",
        "kind": "PodGroup",
        "name": "g",
        "uid": "u",
        "controller": True,
    }
    assert meta == {"name": "g.imex", "namespace": "ns", "ownerReferences": [owner]}
