"""Admission of kinds that request groups (`api.integration.kinds`), and of their creators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from api.causes import Cause
from api.features import Feature, refused
from api.integration import unread_keys
from api.integration.common.autoscalers import SILENT, Autoscalers
from api.integration.common.embedding_kind import EmbeddingKind
from api.integration.common.owner_kind import OwnerKind, Review
from api.integration.common.result import Taken
from api.integration.common.workloads import Workloads
from api.priority import check_preemption, unknown_class
from api.reading import dig, text
from webhooks.cache.informers import Lister
from webhooks.reviews.review import ALLOWED, AdmissionRequest, AdmissionResponse

T = TypeVar("T")


def mutate(
    kind: OwnerKind, request: AdmissionRequest, lister: Lister, autoscalers: Autoscalers = SILENT
) -> AdmissionResponse:
    """Name the groups in the object's templates. Validation reports errors."""
    obj, review = request.object or {}, _review(request, lister, autoscalers)
    admission = kind.admit(obj, review)
    warnings = list(kind.mutation_warnings(obj, admission, review))
    return AdmissionResponse(admission.patch, warnings=warnings)


def validate(kind: OwnerKind, request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """Report all errors in the object's request for groups."""
    obj = request.object or {}
    response = _validated(kind, obj, _review(request, lister), lister)
    return _with_unread(request, response) if kind.reports_unread_keys(obj) else response


def validate_embedding(
    kind: EmbeddingKind, request: AdmissionRequest, lister: Lister
) -> AdmissionResponse:
    """Report the admission result of the object that this one will create."""
    if not kind.is_checked(request.operation):
        # Without this check the user would see nothing: the controller's create request would be
        # rejected again and again.
        return ALLOWED
    obj, response = request.object or {}, ALLOWED
    embedded = kind.embedded(obj)
    if embedded is not None:
        new = Review(
            "CREATE",
            namespace=request.namespace,
            schedulers=lister.scheduler_names,
            native=lister.native_api,
        )
        response = _validated(kind.inner, embedded, new, lister)
    causes, warnings = kind.conclude(obj, response.causes, response.warnings)
    forbidden = response.forbidden and bool(causes)
    return _with_unread(request, AdmissionResponse((), causes, warnings, forbidden))


def _validated(
    kind: OwnerKind, obj: Mapping[str, Any], review: Review, lister: Lister
) -> AdmissionResponse:
    """Return the causes of the rules, or 403 for a pod template that preempts against its class.

    A new object is also rejected for features that are off. A missing PriorityClass is a warning.
    """
    admission = kind.admit(obj, review)
    # A stored object keeps what it has, so that unrelated updates of it pass.
    is_new = review.operation == "CREATE"
    off = refused(kind.uses(obj, lister.scheduler_names), lister.gates) if is_new else []
    causes = [*off, *admission.causes]
    denied: list[Cause] = []
    unknown: list[str] = []
    if is_new and not causes:
        classes, found = lister.priority_classes(), list(kind.pod_specs(obj))
        denied = _present(check_preemption(spec, classes, path) for path, spec in found)
        # A warning only: the class may be created before the pods are.
        unknown = _present(unknown_class(spec, classes, path) for path, spec in found)
    return AdmissionResponse(
        causes=[*causes, *denied],
        warnings=[*admission.warnings, *unknown],
        forbidden=bool(denied),
    )


def _with_unread(request: AdmissionRequest, response: AdmissionResponse) -> AdmissionResponse:
    """Add warnings about Muster's keys in a new object that nothing reads."""
    if request.operation != "CREATE":
        return response
    found = unread_keys.warnings(unread_keys.unread_keys(request.kind.kind, request.object or {}))
    return replace(response, warnings=[*response.warnings, *found])


def _present(found: Iterable[T | None]) -> list[T]:
    return [one for one in found if one is not None]


def _review(request: AdmissionRequest, lister: Lister, autoscalers: Autoscalers = SILENT) -> Review:
    return Review(
        request.operation,
        request.old_object,
        uid=request.uid,
        namespace=request.namespace,
        taken=_taken(request, lister),
        schedulers=lister.scheduler_names,
        expects=Feature.EXPECTED_PODS in lister.gates,
        workloads=Workloads(
            partial(lister.workload_of_user, request.namespace),
            partial(lister.workload_of_owner, request.namespace),
        ),
        autoscalers=autoscalers,
        native=lister.native_api,
    )


def _taken(request: AdmissionRequest, lister: Lister) -> Taken:
    """Return a function that tells if another owner has a group of a kind and name."""
    owner = (request.kind.kind, text(dig(request.object, "metadata", "name")))

    # Admission chooses another name then, because a group of another owner is never changed.
    def taken(kind: str, name: str) -> bool:
        return lister.group_is_taken(kind, request.namespace, name, owner)

    return taken
