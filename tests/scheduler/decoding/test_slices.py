"""Slices of groups of both APIs as the decision core gets them."""

from typing import Any

import msgspec
import pytest

from api.constants import (
    ANNOTATION_SLICE_JOB_PODS,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_SLICE_TOPOLOGY,
)
from scheduler.core.values.model import Slicing
from scheduler.decoding.decode import group_spec
from scheduler.decoding.objects import GroupObject

GOOD = {ANNOTATION_SLICE_SIZE: "4", ANNOTATION_SLICE_TOPOLOGY: "rack"}


def _slicing(kind: str, notes: dict[str, str], **spec: Any) -> Slicing | None:
    obj = {
        "metadata": {"name": "g", "namespace": "ns", "uid": "u", "annotations": notes},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 8}}, **spec},
    }
    return group_spec(kind, msgspec.convert(obj, GroupObject)).slicing


@pytest.mark.parametrize("kind", ["PodGroup", "PodGroup.scheduling.k8s.io"])
def test_slices_of_both_apis(kind: str) -> None:
    assert _slicing(kind, {}) is None
    assert _slicing(kind, GOOD) == Slicing(4, "rack")
    assert _slicing(kind, GOOD | {ANNOTATION_SLICE_JOB_PODS: "2"}) == Slicing(4, "rack", "", 2)


@pytest.mark.parametrize(
    ("kind", "notes", "flaw"),
    [
        pytest.param(
            "PodGroup",
            GOOD | {ANNOTATION_SLICE_SIZE: "9" * 400},
            f"Annotation {ANNOTATION_SLICE_SIZE} is {'9' * 32!r}: must be an integer between 1 and",
            id="a hostile size",
        ),
        pytest.param(
            "PodGroup",
            {ANNOTATION_SLICE_SIZE: "4"},
            f"Annotation {ANNOTATION_SLICE_TOPOLOGY} is missing: set the node label",
            id="no topology",
        ),
        pytest.param(
            "CompositePodGroup",
            GOOD,
            f"Annotation {ANNOTATION_SLICE_SIZE} is '4': only PodGroups have slices",
            id="a composite",
        ),
    ],
)
def test_what_came_past_the_webhook_has_a_flaw(kind: str, notes: dict[str, str], flaw: str) -> None:
    found = _slicing(kind, notes)

    assert found is not None
    assert found.flaw.startswith(flaw)
    assert found.flaw.endswith(".")


def test_a_group_with_expected_pods_has_a_flaw() -> None:
    found = _slicing("PodGroup", GOOD, expectedPods=[{"name": "k", "count": 1, "template": {}}])

    assert found is not None
    assert "a group with spec.expectedPods cannot have slices" in found.flaw
