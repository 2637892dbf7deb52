"""The table of routes, and the handling of one review without any transport."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import structlog

from api.causes import Cause
from api.constants import COMPOSITE_POD_GROUP, COSCHEDULING, POD, POD_GROUP, WORKLOAD, KindName
from api.integration.common.autoscalers import SILENT, Autoscalers
from api.integration.kinds import EMBEDDING_KINDS, OWNER_KINDS
from webhooks.cache.informers import Lister
from webhooks.kinds import groups, owners, pods
from webhooks.reviews.metrics import REVIEW_SECONDS, REVIEWS
from webhooks.reviews.review import (
    OUTCOMES,
    AdmissionRequest,
    AdmissionResponse,
    MalformedReviewError,
    decode,
    encode,
    encode_failure,
)

log = structlog.get_logger(__name__)

Handler = Callable[[AdmissionRequest, Lister], AdmissionResponse]


class Route(NamedTuple):
    """The handler at one path, and the kind that its reviews must be about."""

    kind: KindName
    handler: Handler


ROUTES: Mapping[str, Route] = {
    "mutate/workloads": Route(WORKLOAD, groups.keep_unknown_fields),
    "mutate/podgroups": Route(POD_GROUP, groups.mutate),
    "mutate/compositepodgroups": Route(COMPOSITE_POD_GROUP, groups.mutate),
    "mutate/pods": Route(POD, pods.mutate),
    "mutate/foreign-pods": Route(POD, partial(pods.mutate, foreign=True)),
    "validate/workloads": Route(WORKLOAD, groups.validate),
    "validate/podgroups": Route(POD_GROUP, groups.validate),
    "validate/compositepodgroups": Route(COMPOSITE_POD_GROUP, groups.validate),
    "validate/coscheduling": Route(COSCHEDULING, groups.validate),
    "validate/pods": Route(POD, pods.validate),
    **{
        f"mutate/{it.kind.plural}": Route(it.kind, partial(owners.mutate, it))
        for it in OWNER_KINDS.values()
    },
    **{
        f"validate/{it.kind.plural}": Route(it.kind, partial(owners.validate, it))
        for it in OWNER_KINDS.values()
    },
    **{
        f"validate/{it.kind.plural}": Route(it.kind, partial(owners.validate_embedding, it))
        for it in EMBEDDING_KINDS.values()
    },
}


class UnknownRouteError(Exception):
    """No route has this path."""

    def __init__(self, route: str) -> None:
        super().__init__(f"no webhook at /{route}: the paths are /{', /'.join(ROUTES)}")
        self.route = route


class Reviewer:
    """A dispatcher of reviews; `lister` reads other objects of the cluster.

    `autoscalers` has the settings for autoscalers in the pods of new Jobs.
    """

    def __init__(self, lister: Lister, autoscalers: Autoscalers = SILENT) -> None:
        self._lister = lister
        self._handlers = {name: route.handler for name, route in ROUTES.items()}
        # The routes have no configuration, so handlers that use it are replaced here.
        for it in OWNER_KINDS.values():
            handler = partial(owners.mutate, it, autoscalers=autoscalers)
            self._handlers[f"mutate/{it.kind.plural}"] = handler
        # Looking up metric labels costs as much as a rule, so do it once.
        self._seconds = {name: REVIEW_SECONDS.labels(name) for name in ROUTES}
        self._counts = {
            (name, outcome): REVIEWS.labels(name, outcome)
            for name in ROUTES
            for outcome in (*OUTCOMES, "malformed", "error")
        }

    def review(self, route: str, body: bytes) -> bytes:
        """Return the AdmissionReview with the response to the one in `body`.

        A handler that fails rejects this request with a message; other requests are not affected.
        Every review is counted by its outcome. Raises UnknownRouteError, and MalformedReviewError
        for a body that is no review of the route's kind.
        """
        if route not in ROUTES:
            # One label for all unknown paths: any client could otherwise create metrics without
            # bound.
            REVIEWS.labels("unknown", "unknown").inc()
            raise UnknownRouteError(route)
        outcome = "error"
        started = time.perf_counter()
        try:
            request = _decoded(body, ROUTES[route].kind)
            try:
                response = self._handlers[route](request, self._lister)
                # Encode inside the block, as a response may also contain what cannot be encoded.
                encoded = encode(request, response)
            except Exception as error:
                log.exception(
                    "failed to review an object",
                    route=route,
                    namespace=request.namespace,
                    name=request.name,
                )
                return encode_failure(request, error)
            outcome = response.outcome
            return encoded
        except MalformedReviewError:
            outcome = "malformed"
            raise
        finally:
            self._seconds[route].observe(time.perf_counter() - started)
            self._counts[route, outcome].inc()


def _decoded(body: bytes, kind: KindName) -> AdmissionRequest:
    """Decode the request, which must be about `kind` in the version that the rules know."""
    request = decode(body)
    found = (request.resource.group, request.resource.version, request.resource.resource)
    # A wrong registration must fail loudly. The rules would read fields of another version as
    # absent.
    if found != (kind.group, kind.version, kind.plural):
        raise MalformedReviewError(
            [
                Cause(
                    "request.resource",
                    "FieldValueInvalid",
                    f"must be {kind.plural} of {kind.api_version} at this path, not {found[2]} of "
                    f"{found[0]}/{found[1]}",
                )
            ]
        )
    if request.kind.kind != kind.kind:
        raise MalformedReviewError(
            [Cause("request.kind.kind", "FieldValueInvalid", f"must be {kind.kind}")]
        )
    return request
