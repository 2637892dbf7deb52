"""Which pods belong to a PodGroup, where its name alone does not tell.

Pods whose group Muster named *claim* one that was made for their own owner, as `api.ownership` says
it: for their Job or JobSet, whose UIDs they carry. Pods that name a KEP-3370 group, or a Workload
and a template, know that by its name only: a group that is being deleted takes no more of them, as
it may be an earlier owner's. Pods that claim another group are held until it is there. Pods that
name a PodGroup by its own name, as users do, belong to whatever has it.

Two owners that are created together may be given one name for their groups. The group of the second
then has a name of its own and *stands for* the first name: pods that give this name and claim the
second owner are its members.
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
from api.ownership import Noted, OwnerId, made_for

Owners = tuple[str, ...]
"""What an owner is called: a UID, or kind and name where pods know no more than that."""

NOBODY: Final[Owners] = ()
"""The owner of a PodGroup that a user made, and the claim of a pod that belongs to any."""


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
    """The owners that the group of a pod may have been made for; NOBODY where any is right.

    `workload` is how the pod names a Workload and a template, if it does. With `certain` only what
    it knows by UID counts: a pod that has a node stays in the group that it came to.
    """
    if reference.form is Form.WORKLOAD and workload is not None:
        return NOBODY if certain else (template_owner(workload),)
    if reference.form is Form.COSCHEDULING:
        return NOBODY if certain else (coscheduling_owner(labels[LABEL_COSCHEDULING]),)
    if annotations.get(ANNOTATION_MANAGED_GROUP) != reference.name:
        return NOBODY
    return tuple(dict.fromkeys(_job_owners(labels, controller)))


def owners_of(meta: Noted, name: str, template: str, *, leaving: bool) -> Owners:
    """Whom the PodGroup `name` was made for, as `claims_of` says it; NOBODY for a user's.

    `template` is the template that it names. `leaving`: it is being deleted, or has to be.
    """
    owner_id = made_for(meta)
    if owner_id is None:
        return NOBODY
    if leaving:
        return (owner_id.uid,)
    if owner_id.kind == WORKLOAD.kind:
        return (owner_id.uid, template_owner(form_of(name, owner_id.name, template)))
    return known_as(owner_id)


def known_as(owner_id: OwnerId) -> Owners:
    """The owner as its pods know it; those of a Workload name a template besides."""
    return (owner_id.uid, f"{owner_id.kind}/{owner_id.name}")


def stands_for(meta: Noted) -> str:
    """The name by which its pods name the group, where that is not its own; else empty."""
    return meta.annotations.get(ANNOTATION_STANDS_FOR, "") if made_for(meta) is not None else ""


def pods_name(meta: Named) -> str:
    """The name by which its pods name the group."""
    return stands_for(meta) or meta.name


def taken_words(meta: Noted) -> str:
    """What to do about a name that pods give, and that is taken by what is another group's."""
    return (
        f"the pods name it by PodGroup {stands_for(meta)}, which is another owner's: delete their "
        "owner and create it again, and its groups get names of their own"
    )


def belongs(claims: Owners, owners: Owners) -> bool:
    """Whether a pod with these claims is a member of a PodGroup that was made for these owners."""
    return claims == NOBODY or any(claim in owners for claim in claims)


def coscheduling_owner(group: str) -> str:
    """The owner that pods of a KEP-3370 group claim."""
    return f"{POD_GROUP.kind}/{group}"


def form_of(group: str, workload: str, template: str) -> WorkloadForm:
    """How pods name the group that was made from a template of the Workload."""
    stem = names.implicit_pod_group(workload, template)
    return WorkloadForm(workload, template, group.removeprefix(stem).removeprefix("-"))


def template_owner(form: WorkloadForm) -> str:
    """The owner that pods claim which name a Workload and a template."""
    return "/".join((WORKLOAD.kind, *form))


def _job_owners(labels: Mapping[str, str], controller: Owned | None) -> Iterator[str]:
    """Labels outlast owner references, which a deletion with `orphan` removes."""
    jobset, uid = labels.get(JOBSET_LABEL_NAME), labels.get(JOBSET_LABEL_UID)
    if uid:
        yield uid
    elif jobset:  # of a version of JobSet that does not say it
        yield f"{JOBSET.kind}/{jobset}"
    if labels.get(JOB_LABEL_UID):
        yield labels[JOB_LABEL_UID]
    if controller is not None and controller.kind == JOB.kind:
        yield controller.uid
