"""Whose a generated object is, who holds it, and when it is left over, as tables."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_MANAGED_GROUP,
    JOBSET_LABEL_NAME,
    LABEL_MANAGED_BY,
    MANAGED_BY,
)
from api.ownership import (
    OwnerId,
    Ownership,
    is_meant_for_another,
    is_orphaned,
    made_for,
    ownership,
)

FIRST = OwnerId("jobset.x-k8s.io", "JobSet", "a", "first")
SECOND = FIRST._replace(uid="second")
OURS = {LABEL_MANAGED_BY: MANAGED_BY}
GOING = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Owner:
    uid: str
    api_version: str = "jobset.x-k8s.io/v1alpha2"
    kind: str = "JobSet"
    name: str = "a"


@dataclass(frozen=True)
class Meta:
    uid: str = "u"
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    deletion_timestamp: datetime | None = None
    owner_references: tuple[Owner, ...] = ()
    controller: Owner | None = None


def made(owner_id: OwnerId, **more: Any) -> Meta:
    return Meta(labels=OURS, annotations={ANNOTATION_MADE_FOR: owner_id.annotation()}, **more)


@pytest.mark.parametrize("said", ["", "JobSet/a/first", "g/k/n/u/more"])
def test_what_does_not_say_for_whom_was_made_for_nobody(said: str) -> None:
    assert made_for(Meta(labels=OURS, annotations={ANNOTATION_MADE_FOR: said})) is None
    assert made_for(made(FIRST)) == FIRST


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


NAMED = {ANNOTATION_MANAGED_GROUP: "g"}
OF_JOBSET = {JOBSET_LABEL_NAME: "a"}


@pytest.mark.parametrize(
    ("owner_id", "job", "want"),
    [
        pytest.param(
            FIRST,
            Meta(annotations=NAMED, labels=OF_JOBSET, controller=Owner("second")),
            True,
            id="a Job of the namesake",
        ),
        pytest.param(
            FIRST,
            Meta(annotations=NAMED, labels=OF_JOBSET, controller=Owner("first")),
            False,
            id="a Job of the JobSet itself",
        ),
        pytest.param(
            FIRST, Meta(annotations=NAMED, labels=OF_JOBSET), False, id="orphaned by its JobSet"
        ),
        pytest.param(FIRST, Meta(annotations=NAMED), True, id="a Job that nobody made"),
        pytest.param(
            FIRST._replace(uid="u"),
            Meta(annotations=NAMED, controller=Owner("above")),
            False,
            id="a delegated Job's own group",
        ),
        pytest.param(FIRST, Meta(controller=Owner("second")), False, id="its user named the group"),
        pytest.param(None, Meta(annotations=NAMED), True, id="a user's group had the name"),
        pytest.param(None, Meta(), False, id="a user's group, named by its user"),
    ],
)
def test_pods_that_are_meant_for_another_group(
    owner_id: OwnerId | None, job: Meta, want: bool
) -> None:
    assert is_meant_for_another("g", owner_id, job) is want


@pytest.mark.parametrize(
    ("meta", "want"),
    [
        pytest.param(made(FIRST), True, id="no owner is left"),
        pytest.param(made(FIRST, owner_references=(Owner("gone"),)), True, id="none is alive"),
        pytest.param(
            made(FIRST, owner_references=(Owner("gone"), Owner("alive"))), False, id="one is alive"
        ),
        pytest.param(made(FIRST, deletion_timestamp=GOING), False, id="it goes already"),
        pytest.param(Meta(), False, id="a user's own"),
    ],
)
def test_what_is_left_over(meta: Meta, want: bool) -> None:
    assert is_orphaned(meta, lambda owner: owner.uid == "alive") is want
