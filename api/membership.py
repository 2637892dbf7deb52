"""The pods that belong to a PodGroup, where its name alone does not decide.

Pods whose group Muster named *claim* a group of their own owner (`api.ownership`): of their Job or
JobSet, whose UIDs they carry. Pods that name a KEP-3370 group, or a Workload and a template, know
its owner by name only. A group that is being deleted accepts no more of them, as it may belong to
an earlier owner. Pods that claim another group wait until it exists. Pods that name a PodGroup by
its own name, as users do, belong to the group of that name.

Two owners that are created together may use one name for their groups. The group of the second
owner then has a name of its own and *stands for* the first name: its members are the pods that give
this name and claim the second owner.

A group from a version before 0.3 may have another name than pods give by Workload and template, or
by subset (`earlier_name` in `api.names`). Its members are the pods that give the name of today.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from api import names
from api.constants import (
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_PLAIN_NAME,
    ANNOTATION_STANDS_FOR,
    JOB,
    JOB_LABEL_UID,
    JOBSET,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_UID,
    LABEL_COSCHEDULING,
    LABEL_REPLICA_KEY,
    LABEL_SUBSET,
    POD_GROUP,
    WORKLOAD,
)
from api.groups import Form, GroupReference, WorkloadForm
from api.ownership import Noted, OwnerId, created_for
from api.reading import annotations_of, dig, labels_of, text, texts

Owners = tuple[str, ...]
"""The names of an owner: a UID, or kind and name if pods know no more."""

NO_OWNERS: Final[Owners] = ()
"""The owner of a user's PodGroup, and the claim of a pod that belongs to any group of the name."""


class Named(Noted, Protocol):
    """The metadata of a group."""

    @property
    def name(self) -> str: ...


class _Meta(NamedTuple):
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


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
        return (owner_id.uid, template_owner(form_of(meta, name, owner_id.name, template)))
    return known_as(owner_id)


def known_as(owner_id: OwnerId) -> Owners:
    """Return the owner as its pods know it. Pods of a Workload name a template, too."""
    return (owner_id.uid, f"{owner_id.kind}/{owner_id.name}")


def usual_name(meta: Noted) -> str:
    """Return the name by which its pods name the group, if it has another; else empty."""
    return meta.annotations.get(ANNOTATION_STANDS_FOR, "") if created_for(meta) is not None else ""


def plain_name(meta: Noted) -> str:
    """Return the name by which pods that a webhook of version 0.2 admitted name the group."""
    return meta.annotations.get(ANNOTATION_PLAIN_NAME, "") if created_for(meta) is not None else ""


def pods_name(meta: Named) -> str:
    """Return the name by which its pods name the group."""
    return usual_name(meta) or meta.name


def current_name(meta: Noted, name: str, template: str) -> str:
    """Return the name of the PodGroup `name` in this version: another if an earlier one named it.

    `template` is the template that it names.
    """
    owner_id = created_for(meta)
    if owner_id is not None and owner_id.kind == WORKLOAD.kind:
        return names.implicit_pod_group(*form_of(meta, name, owner_id.name, template))
    if owner_id is not None and owner_id.kind == POD_GROUP.kind:
        # Pods of a single subset need not name it.
        subset = meta.labels.get(LABEL_SUBSET) or _rest(name, owner_id.name)
        return names.subset_pod_group(owner_id.name, subset)
    return name


def current_name_of(group: Mapping[str, Any]) -> str:
    """Return the same for a PodGroup as raw JSON of any structure."""
    meta = _Meta(texts(labels_of(group)), texts(annotations_of(group)))
    template = text(dig(group, "spec", "workloadRef", "templateName"))
    return current_name(meta, text(dig(group, "metadata", "name")), template)


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


def form_of(meta: Noted, group: str, workload: str, template: str) -> WorkloadForm:
    """Return the form in which pods name a group from a template of the Workload."""
    key = meta.labels.get(LABEL_REPLICA_KEY)
    if key is None and group != names.implicit_pod_group(workload, template):
        # An earlier version does not set the label.
        key = _rest(group, names.earlier_name(workload, template))
    return WorkloadForm(workload, template, key or "")


def template_owner(form: WorkloadForm) -> str:
    """Return the owner that pods with this Workload and template claim."""
    return "/".join((WORKLOAD.kind, *form))


def _rest(group: str, stem: str) -> str:
    return group.removeprefix(stem).removeprefix("-")


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
