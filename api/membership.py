"""The pods that belong to a PodGroup, where its name alone does not decide.

Pods whose group Muster named *claim* a group of their own owner (`api.ownership`): of their Job or
JobSet, whose UIDs they carry. Pods that name a KEP-3370 group, or a Workload and a template, know
its owner by name only. A group that is being deleted accepts no more of them, as it may belong to
an earlier owner. Pods that claim another group wait until it exists. Pods that name a PodGroup by
its own name, as users do, belong to the group of that name.

Two owners that are created together may use one name for their groups. The group of the second
owner then has a name of its own and *stands for* the first name: its members are the pods that give
this name and claim the second owner.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from api import names
from api.constants import (
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_STANDS_FOR,
    JOB,
    JOB_LABEL_UID,
    JOBSET,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_UID,
    LABEL_COSCHEDULING,
    POD_GROUP,
    WORKLOAD,
)
from api.groups import Form, GroupReference, WorkloadForm
from api.ownership import Noted, OwnerId, created_for

Owners = tuple[str, ...]
"""The names of an owner: a UID, or kind and name if pods know no more."""

NO_OWNERS: Final[Owners] = ()
"""The owner of a user's PodGroup, and the claim of a pod that belongs to any group of the name."""


class Named(Noted, Protocol):
    """The metadata of a group."""

    @property
    def name(self) -> str: ...


class Owned(Protocol):
    """The controlling owner reference of a pod."""

    @property
    def kind(self) -> str: ...
    @property
    def uid(self) -> str: ...


def claims_of(
    reference: GroupReference,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    *,
    certain: bool,
    workload: WorkloadForm | None = None,
    controller: Owned | None = None,
) -> Owners:
    """Return the possible owners of a pod's group; NO_OWNERS if any owner is right.

    `workload` is the Workload and template that the pod names, if any. With `certain` only owners
    that the pod knows by UID count.
    """
    if reference.form is Form.NATIVE:
        return NO_OWNERS
    if reference.form is Form.WORKLOAD and workload is not None:
        # A pod that has a node stays in the group that it joined.
        return NO_OWNERS if certain else (template_owner(workload),)
    if reference.form is Form.COSCHEDULING:
        return NO_OWNERS if certain else (coscheduling_owner(labels[LABEL_COSCHEDULING]),)
    if annotations.get(ANNOTATION_MANAGED_GROUP) != reference.name:
        return NO_OWNERS
    return tuple(dict.fromkeys(_job_owners(labels, controller)))


def owners_of(meta: Noted, name: str, template: str, *, leaving: bool) -> Owners:
    """Return the owners of the PodGroup `name` in the form of `claims_of`; NO_OWNERS for a user's.

    `template` is the template that it names. `leaving` is True if it is being deleted, or has to
    be.
    """
    owner_id = created_for(meta)
    if owner_id is None:
        return NO_OWNERS
    if leaving:
        # Pods that know only the name may belong to the next owner of that name.
        return (owner_id.uid,)
    if owner_id.kind == WORKLOAD.kind:
        return (owner_id.uid, template_owner(form_of(name, owner_id.name, template)))
    return known_as(owner_id)


def known_as(owner_id: OwnerId) -> Owners:
    """Return the owner as its pods know it. Pods of a Workload name a template, too."""
    return (owner_id.uid, f"{owner_id.kind}/{owner_id.name}")


def usual_name(meta: Noted) -> str:
    """Return the name by which its pods name the group, if it has another; else empty."""
    return meta.annotations.get(ANNOTATION_STANDS_FOR, "") if created_for(meta) is not None else ""


def pods_name(meta: Named) -> str:
    """Return the name by which its pods name the group."""
    return usual_name(meta) or meta.name


def taken_name_advice(meta: Noted) -> str:
    """Return the advice for a name in the pods' spec that another owner's group has."""
    return (
        f"the pods name PodGroup {usual_name(meta)}, which belongs to another owner: delete and "
        "recreate the owner of the pods, so that its groups get other names"
    )


def belongs(claims: Owners, owners: Owners) -> bool:
    """Return True if a pod with these claims is a member of a PodGroup of these owners."""
    return claims == NO_OWNERS or any(claim in owners for claim in claims)


def coscheduling_owner(group: str) -> str:
    """Return the owner that pods of a KEP-3370 group claim."""
    return f"{POD_GROUP.kind}/{group}"


def form_of(group: str, workload: str, template: str) -> WorkloadForm:
    """Return the form in which pods name a group from a template of the Workload."""
    stem = names.implicit_pod_group(workload, template)
    return WorkloadForm(workload, template, group.removeprefix(stem).removeprefix("-"))


def template_owner(form: WorkloadForm) -> str:
    """Return the owner that pods with this Workload and template claim."""
    return "/".join((WORKLOAD.kind, *form))


def _job_owners(labels: Mapping[str, str], controller: Owned | None) -> Iterator[str]:
    """Yield the UIDs of a pod's Job and JobSet."""
    # From labels first: they outlast owner references, which a deletion with `orphan` removes.
    jobset, uid = labels.get(JOBSET_LABEL_NAME), labels.get(JOBSET_LABEL_UID)
    if uid:
        yield uid
    # Earlier versions of JobSet do not set the UID.
    elif jobset:
        yield f"{JOBSET.kind}/{jobset}"
    if labels.get(JOB_LABEL_UID):
        yield labels[JOB_LABEL_UID]
    if controller is not None and controller.kind == JOB.kind:
        yield controller.uid
