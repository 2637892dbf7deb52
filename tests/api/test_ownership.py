"""The owner of a generated object, and orphaned objects, as tables."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_MADE_FOR,
    LABEL_MANAGED_BY,
    MANAGED_BY,
)
from api.ownership import (
    OwnerId,
    Ownership,
    created_for,
    lost_owner,
    ownership,
)

FIRST = OwnerId("jobset.x-k8s.io", "JobSet", "a", "first")
SECOND = FIRST._replace(uid="second")
OURS = {LABEL_MANAGED_BY: MANAGED_BY}
GOING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Meta:
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    deletion_timestamp: datetime | None = None


def made(owner_id: OwnerId, **more: Any) -> Meta:
    return Meta(labels=OURS, annotations={ANNOTATION_MADE_FOR: owner_id.annotation()}, **more)


@pytest.mark.parametrize("said", ["", "JobSet/a/first", "g/k/n/u/more"])
def test_what_does_not_say_for_whom_was_made_for_nobody(said: str) -> None:
    assert created_for(Meta(labels=OURS, annotations={ANNOTATION_MADE_FOR: said})) is None
    assert created_for(made(FIRST)) == FIRST


@pytest.mark.parametrize(
    ("meta", "want"),
    [
        pytest.param(made(SECOND), Ownership.OURS, id="made for the owner"),
        pytest.param(made(SECOND, deletion_timestamp=GOING), Ownership.LEAVING, id="and deleted"),
        pytest.param(made(FIRST), Ownership.LEAVING, id="made for one of its name that is gone"),
        pytest.param(made(FIRST._replace(name="b")), Ownership.FOREIGN, id="another JobSet's"),
        pytest.param(made(FIRST._replace(kind="Job")), Ownership.FOREIGN, id="another kind's"),
        pytest.param(made(FIRST._replace(group="x")), Ownership.FOREIGN, id="another group's"),
        pytest.param(Meta(), Ownership.FOREIGN, id="a user's"),
        pytest.param(Meta(deletion_timestamp=GOING), Ownership.LEAVING, id="a user's, deleted"),
        pytest.param(
            Meta(annotations={ANNOTATION_MADE_FOR: SECOND.annotation()}),
            Ownership.FOREIGN,
            id="a copy without the label",
        ),
    ],
)
def test_whose_an_object_of_a_wanted_name_is(meta: Meta, want: Ownership) -> None:
    assert ownership(meta, SECOND) is want


@pytest.mark.parametrize(
    ("meta", "want"),
    [
        pytest.param(made(FIRST), FIRST, id="its owner is gone"),
        pytest.param(made(SECOND), None, id="its owner exists"),
        pytest.param(made(FIRST, deletion_timestamp=GOING), None, id="it goes already"),
        pytest.param(Meta(), None, id="a user's own"),
        pytest.param(
            Meta(annotations={ANNOTATION_MADE_FOR: FIRST.annotation()}), None, id="a user's copy"
        ),
    ],
)
def test_what_is_left_over(meta: Meta, want: OwnerId | None) -> None:
    """The UID decides: a later owner of the same name does not keep the object."""
    assert lost_owner(meta, lambda owner: owner == SECOND) == want
