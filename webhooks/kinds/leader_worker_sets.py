"""LeaderWorkerSets that ask for groups."""

from __future__ import annotations

from api.features import Feature
from api.integration.feature_use import uses_of_lws
from api.integration.lws.admission import lws_admission, lws_pod_specs
from api.integration.lws.rules import overwritten
from api.integration.lws.view import read_lws
from webhooks.cache.informers import Lister
from webhooks.kinds.jobs import served, validated, with_unread
from webhooks.reviews.review import AdmissionRequest, AdmissionResponse


def mutate(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """Name the groups in the pod templates. Errors are reported by validation."""
    admission = lws_admission(
        request.object or {},
        request.old_object,
        request.operation,
        schedulers=lister.scheduler_names,
    )
    # Validation sees the marks alone.
    told = overwritten(read_lws(request.object or {})) if admission.patch else ()
    return AdmissionResponse(admission.patch, warnings=told)


def validate(request: AdmissionRequest, lister: Lister) -> AdmissionResponse:
    """All that is wrong with what a LeaderWorkerSet asks for."""
    operation, new = request.operation, request.object or {}
    admission = lws_admission(
        new,
        request.old_object,
        operation,
        schedulers=lister.scheduler_names,
        expects=Feature.EXPECTED_PODS in lister.gates,
    )
    admission = served(admission, operation, uses_of_lws(new), lister)
    return with_unread(request, validated(operation, new, admission, lister, lws_pod_specs))
