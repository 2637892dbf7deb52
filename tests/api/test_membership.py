"""Membership of pods in PodGroups: a table of the pods' data and the groups' owners."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pytest

from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_MANAGED_GROUP,
    COSCHEDULING,
    JOB,
    JOB_LABEL_UID,
    JOBSET,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_UID,
    LABEL_COSCHEDULING,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    WORKLOAD,
    KindName,
)
from api.groups import Form, GroupReference, WorkloadForm
from api.membership import NO_OWNERS, Owners, belongs, claims_of, owners_of
from api.ownership import OwnerId

NOTED = {ANNOTATION_MANAGED_GROUP: "g"}
FORM = WorkloadForm("x", "t", "")


@dataclass(frozen=True)
class Controller:
    uid: str
    kind: str = "Job"


@dataclass(frozen=True)
class Meta:
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


def made(kind: KindName, uid: str, *, leaving: bool = False) -> Owners:
    """Return the group `g`, or `x-t` of a Workload, created for an owner `x`."""
    owner_id = OwnerId(kind.group, kind.kind, "x", uid)
    meta = Meta({LABEL_MANAGED_BY: MANAGED_BY}, {ANNOTATION_MADE_FOR: owner_id.annotation()})
    return owners_of(meta, "x-t" if kind == WORKLOAD else "g", "t", leaving=leaving)


def claims(
    form: Form = Form.LABEL,
    labels: Mapping[str, str] = MappingProxyType({}),
    *,
    job: str = "",
    of: str = "",
    noted: bool = True,
    certain: bool = False,
) -> Owners:
    """Return the claims of a pod of the Job `job`; `of` is the UID in its Kubernetes labels."""
    said = {LABEL_COSCHEDULING: "x", **labels, **({JOB_LABEL_UID: of} if of else {})}
    return claims_of(
        GroupReference("g", form),
        said,
        NOTED if noted else {},
        certain=certain,
        workload=FORM if form is Form.WORKLOAD else None,
        controller=Controller(job) if job else None,
    )


OF_JOBSET = {JOBSET_LABEL_NAME: "x", JOBSET_LABEL_UID: "set-1"}
BY_NAME = {JOBSET_LABEL_NAME: "x"}


@pytest.mark.parametrize(
    ("pod", "group", "want"),
    [
        pytest.param(claims(job="1"), made(JOB, "1"), True, id="its Job's"),
        pytest.param(claims(job="1"), made(JOB, "2"), False, id="that of another of the name"),
        pytest.param(claims(job="1"), NO_OWNERS, False, id="a user's in its place"),
        pytest.param(claims(job="1"), made(JOB, "1", leaving=True), True, id="its own, that goes"),
        pytest.param(claims(of="1"), made(JOB, "1"), True, id="orphaned by its Job"),
        pytest.param(claims(of="1"), made(JOB, "2"), False, id="orphaned, and the next Job's"),
        pytest.param(
            claims(Form.LABEL, OF_JOBSET, job="1"), made(JOBSET, "set-1"), True, id="its JobSet's"
        ),
        pytest.param(
            claims(Form.LABEL, OF_JOBSET, job="1"),
            made(JOBSET, "set-2"),
            False,
            id="the next JobSet's",
        ),
        pytest.param(claims(Form.LABEL, OF_JOBSET, job="1"), made(JOB, "1"), True, id="delegated"),
        pytest.param(
            claims(Form.LABEL, BY_NAME, job="1"), made(JOBSET, "set-2"), True, id="an old JobSet"
        ),
        pytest.param(
            claims(Form.LABEL, OF_JOBSET), made(JOBSET, "set-1"), True, id="its Job is gone"
        ),
        pytest.param(claims(job="1", noted=False), made(JOB, "2"), True, id="named by a user"),
        pytest.param(claims(job="1", noted=False), NO_OWNERS, True, id="a user's pod and group"),
        pytest.param(claims(), made(JOB, "2"), True, id="a copy of a pod, without a Job"),
        pytest.param(claims(Form.WORKLOAD), made(WORKLOAD, "1"), True, id="its Workload's"),
        pytest.param(
            claims(Form.WORKLOAD), made(WORKLOAD, "1", leaving=True), False, id="one that goes"
        ),
        pytest.param(
            claims(Form.WORKLOAD, certain=True), NO_OWNERS, True, id="wherever it runs, by a name"
        ),
        pytest.param(claims(Form.COSCHEDULING), made(COSCHEDULING, "1"), True, id="KEP-3370"),
        pytest.param(
            claims(Form.COSCHEDULING), made(COSCHEDULING, "1", leaving=True), False, id="and goes"
        ),
        pytest.param(claims(Form.COSCHEDULING), NO_OWNERS, False, id="a user's for KEP-3370"),
        pytest.param(claims(job="1", certain=True), made(JOB, "2"), False, id="certainly not its"),
    ],
)
def test_who_belongs_where(pod: Owners, group: Owners, want: bool) -> None:
    assert belongs(pod, group) is want


def test_a_pod_claims_each_owner_once() -> None:
    assert claims(Form.LABEL, OF_JOBSET, job="1", of="1") == ("set-1", "1")


def test_only_a_job_s_pods_claim_their_controller_s_group() -> None:
    owner = Controller("1", "ReplicaSet")
    found = claims_of(GroupReference("g", Form.LABEL), {}, NOTED, certain=False, controller=owner)
    assert found == NO_OWNERS
