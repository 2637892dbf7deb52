"""Admission of pods that name a group; match conditions keep other pods from the webhook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from api import causes
from api.causes import Cause
from api.constants import (
    ANNOTATION_GROUPS_API,
    JOB,
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
    POD_GROUP,
    WORKLOAD,
)
from api.features import Feature, feature_of_form
from api.group_claims import own_claims, template_entries
from api.groups import (
    Form,
    GroupReference,
    groups_of_object,
    incomplete_reference,
    is_ours,
    workload_form_of,
)
from api.integration import unread_keys
from api.integration.common.native import GroupsApi
from api.integration.common.templates import find_root_template
from api.integration.pods import groups_from_pods
from api.integration.pods.references import (
    check_references,
    conflicting_references,
    reference_path,
)
from api.membership import Owners, claims_of
from api.reading import annotations_of, controller_of, dig, labels_of, listing, text, texts
from api.scheduler_names import is_open
from webhooks.cache.informers import Lister
from webhooks.reviews.review import ALLOWED, AdmissionRequest, AdmissionResponse

_BY_FIELD: Final = (Form.FIELD, Form.NATIVE)


class _Owned(NamedTuple):
    kind: str
    uid: str


def mutate(
    request: AdmissionRequest, lister: Lister, *, foreign: bool = False
) -> AdmissionResponse:
    """Set Muster's schedulerName on a new pod that names a group, unless it chose another.

    A pod whose group is one of Kubernetes' own, by its annotation, also gets the field for these.
    Only Muster's own labels count, as other forms belong to other schedulers, too. In a namespace
    that opted in (`foreign`) every form counts.
    """
    pod, schedulers = request.object or {}, lister.scheduler_names
    # The API server rejects a pod without a spec, so there is nothing to complete.
    if request.operation != "CREATE" or not isinstance(pod.get("spec"), Mapping):
        return ALLOWED
    chosen, groups = text(pod["spec"].get("schedulerName")), groups_of_object(pod, ours=foreign)
    # A pod that names a group only in part is Muster's, too, or another scheduler would start it.
    named = groups or incomplete_reference(texts(labels_of(pod)))
    # A pod that names another scheduler belongs to that one.
    if not named or not (is_open(chosen) or chosen in schedulers):
        return ALLOWED
    patch = []
    if is_open(chosen):
        patch = [{"op": "add", "path": "/spec/schedulerName", "value": schedulers.default}]
    return AdmissionResponse([*patch, *_native_field(pod, groups)])


def _native_field(pod: Mapping[str, Any], groups: list[GroupReference]) -> Iterator[dict[str, Any]]:
    """Yield the operation that names the pod's group as one of Kubernetes' own."""
    native = annotations_of(pod).get(ANNOTATION_GROUPS_API) == GroupsApi.NATIVE
    if (
        native
        and groups
        and groups[0].form is Form.LABEL
        and not dig(pod, "spec", "schedulingGroup")
    ):
        value = {"podGroupName": groups[0].name}
        yield {"op": "add", "path": "/spec/schedulingGroup", "value": value}


def validate(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """Check that a pod of Muster's names one group, which is final and not being deleted."""
    pod = request.object or {}
    if not is_ours(pod, lister.scheduler_names):
        return ALLOWED
    groups = _groups(pod, lister)
    if request.operation == "UPDATE":
        old = request.old_object or {}
        return AdmissionResponse(causes=_changed_group(_groups(old, lister), old, groups, pod))
    if request.operation != "CREATE":
        return ALLOWED
    wrong = [
        *check_references(groups, pod),
        *groups_from_pods.check_pod(groups, pod),
        *_own_claims(groups, pod, request.namespace, lister),
    ]
    # 403, as the same pod can be created once the group is deleted.
    gone = _deleting(groups, pod, request.namespace, lister)
    return AdmissionResponse(
        causes=[*gone, *wrong],
        warnings=[
            *_anothers_group(groups, pod, request.namespace, lister),
            *_off(groups, pod, lister),
            *groups_from_pods.warnings_of(groups, pod),
            *_unknown(pod),
        ],
        forbidden=bool(gone),
    )


def _groups(pod: Mapping[str, Any], lister: Lister) -> list[GroupReference]:
    """Return the references without the field that Kubernetes' Job controller adds by itself."""
    groups = groups_of_object(pod, ours=True, native=lister.native)
    others = [each for each in groups if each.form not in _BY_FIELD]
    return others if others and controller_of(pod).get("kind") == JOB.kind else groups


def _unknown(pod: Mapping[str, Any]) -> list[str]:
    """Return warnings about unknown keys of Muster's."""
    # Pods of a template get no warnings: the author of the template got them for it.
    owned = listing(dig(pod, "metadata", "ownerReferences"))
    return [] if owned else unread_keys.warnings(unread_keys.unknown_keys(pod))


def _own_claims(
    groups: list[GroupReference], pod: Mapping[str, Any], namespace: str, lister: Lister
) -> Iterator[Cause]:
    """Yield causes for a claim template from which the group has one shared claim."""
    if not _names_ours(groups) or not listing(dig(pod, "spec", "resourceClaims")):
        return
    name, form = groups[0].name, workload_form_of(pod)
    shared = lister.shared_claims(namespace, name)
    # Such a group may not exist before its first pod, so its claims come from the template.
    if not shared and form is not None and groups[0].form is Form.WORKLOAD:
        workload = lister.workload(namespace, form.name)
        template = find_root_template(workload, form.pod_group) if workload is not None else None
        shared = template_entries(template.fields.get("resourceClaims")) if template else {}
    yield from own_claims(pod, name, shared)


def _changed_group(
    before: list[GroupReference],
    old: Mapping[str, Any],
    groups: list[GroupReference],
    pod: Mapping[str, Any],
) -> list[Cause]:
    if _name(before) != _name(groups):
        place = groups[0] if groups else before[0]
        text_ = f"field is immutable: the group of the pod is {_name(before) or 'none'}"
        return [causes.invalid(reference_path(place, pod if groups else old), _name(groups), text_)]
    # Errors that the old pod had already must not block an unrelated update, such as of finalizers.
    known = conflicting_references(before, old)
    return [cause for cause in conflicting_references(groups, pod) if cause not in known]


def _names_ours(groups: list[GroupReference]) -> bool:
    """Return True if the pod is of a group of Muster's, not of one of Kubernetes' own."""
    return bool(groups) and groups[0].form is not Form.NATIVE


def _deleting(
    groups: list[GroupReference], pod: Mapping[str, Any], namespace: str, lister: Lister
) -> list[Cause]:
    if not _names_ours(groups):
        return []
    claims = _claims(groups[0], pod)
    if not lister.pod_group_is_deleting(namespace, groups[0].name, claims):
        return []
    problem = f"PodGroup {groups[0].name!r} is being deleted. Retry after it is deleted"
    return [causes.forbidden(reference_path(groups[0], pod), problem)]


def _claims(reference: GroupReference, pod: Mapping[str, Any]) -> Owners:
    """Return the owners that the pod's group must have."""
    owner = controller_of(pod)
    owned = _Owned(text(owner.get("kind")), text(owner.get("uid"))) if owner else None
    labels, annotations = texts(labels_of(pod)), texts(annotations_of(pod))
    # Only the owner's UID counts: pods of the next owner of the name wait for a group of their own.
    return claims_of(reference, labels, annotations, certain=True, controller=owned)


def _feature(reference: GroupReference, pod: Mapping[str, Any]) -> Feature | None:
    """Return the feature that creates the group; None for a group that a user creates."""
    if groups_from_pods.ask_of(reference, annotations_of(pod)) is not None:
        return Feature.POD_GROUPS_FROM_PODS
    return feature_of_form(reference.form)


def _off(groups: list[GroupReference], pod: Mapping[str, Any], lister: Lister) -> list[str]:
    """Return a warning for a form of naming groups that is off."""
    # A warning and no rejection: the pod may replace one that ran, and its controller would create
    # it again without end. The pod waits, and its status states why.
    feature = _feature(groups[0], pod) if groups else None
    if feature is None or feature in lister.gates:
        return []
    path = reference_path(groups[0], pod)
    off = lister.gates.off_text(feature)
    return [f"{path}: {off}, so Muster creates no group, and the pod waits for one"]


def _anothers_group(
    groups: list[GroupReference], pod: Mapping[str, Any], namespace: str, lister: Lister
) -> list[str]:
    """Return a warning if another owner has the group that the pod means."""
    form = workload_form_of(pod)
    if groups and groups[0].form is Form.WORKLOAD and form is not None:
        owner = (WORKLOAD.kind, form.name)
    elif groups and groups[0].form is Form.COSCHEDULING:
        owner = (POD_GROUP.kind, labels_of(pod)[LABEL_COSCHEDULING])
    else:
        return []
    name = groups[0].name
    if not lister.group_is_taken(POD_GROUP.kind, namespace, name, owner):
        return []
    text_ = (
        f"PodGroup {name!r} was not created for {owner[0]} {owner[1]!r}, and the pod waits until "
        f"it is deleted. To make the pod a member of it, use the label {LABEL_POD_GROUP}"
    )
    return [f"{reference_path(groups[0], pod)}: {text_}"]


def _name(groups: list[GroupReference]) -> str:
    return groups[0].name if groups else ""
