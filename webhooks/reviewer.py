"""The table of routes, and one review through it: bytes in, bytes out, no transport."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from api.causes import Cause
from api.constants import (
    COMPOSITE_POD_GROUP,
    COSCHEDULING,
    JOB,
    JOBSET,
    POD_GROUP,
    WORKLOAD,
    KindName,
)
from kube.resources import PODS
from webhooks import groups, owners, pods
from webhooks.metrics import REVIEW_SECONDS, REVIEWS
from webhooks.review import OUTCOMES, Answer, MalformedReviewError, Request, decode, encode
from webhooks.world import World

POD = KindName(PODS.group, PODS.version, PODS.plural, PODS.kind)

Handler = Callable[[Request, World], Answer]


class Route(NamedTuple):
    """What is served at one path: the kind that must be asked about, and who answers."""

    kind: KindName
    handler: Handler


ROUTES: Mapping[str, Route] = {
    "mutate/workloads": Route(WORKLOAD, groups.keep),
    "mutate/podgroups": Route(POD_GROUP, groups.mutate),
    "mutate/compositepodgroups": Route(COMPOSITE_POD_GROUP, groups.mutate),
    "mutate/jobsets": Route(JOBSET, owners.mutate_jobset),
    "mutate/jobs": Route(JOB, owners.mutate_job),
    "mutate/pods": Route(POD, pods.mutate),
    "validate/workloads": Route(WORKLOAD, groups.judge),
    "validate/podgroups": Route(POD_GROUP, groups.judge),
    "validate/compositepodgroups": Route(COMPOSITE_POD_GROUP, groups.judge),
    "validate/coscheduling": Route(COSCHEDULING, groups.judge),
    "validate/jobsets": Route(JOBSET, owners.judge_jobset),
    "validate/jobs": Route(JOB, owners.judge_job),
    "validate/pods": Route(POD, pods.judge),
}


class UnknownRouteError(Exception):
    """There is nothing at this path."""

    def __init__(self, route: str) -> None:
        """`route` as it was asked for, without a leading slash."""
        super().__init__(f"no webhook at /{route}: there are /{', /'.join(ROUTES)}")
        self.route = route


class Reviewer:
    """Answers reviews from what `world` knows."""

    def __init__(self, world: World) -> None:
        self._world = world
        # Looking labels up costs as much as a rule.
        self._seconds = {name: REVIEW_SECONDS.labels(name) for name in ROUTES}
        self._counts = {
            (name, outcome): REVIEWS.labels(name, outcome)
            for name in ROUTES
            for outcome in (*OUTCOMES, "malformed", "error")
        }

    def review(self, route: str, body: bytes) -> bytes:
        """The AdmissionReview that answers the one in `body`.

        Raises UnknownRouteError, and MalformedReviewError for a body that is no review of the
        kind that the route serves. Every review is counted by its outcome.
        """
        if route not in ROUTES:
            REVIEWS.labels("unknown", "unknown").inc()
            raise UnknownRouteError(route)
        outcome = "error"
        started = time.perf_counter()
        try:
            request = _decoded(body, ROUTES[route].kind)
            answer = ROUTES[route].handler(request, self._world)
            encoded = encode(request, answer)
            outcome = answer.outcome
            return encoded
        except MalformedReviewError:
            outcome = "malformed"
            raise
        finally:
            self._seconds[route].observe(time.perf_counter() - started)
            self._counts[route, outcome].inc()


def _decoded(body: bytes, kind: KindName) -> Request:
    """The request, which must be about `kind` in the version that the rules know."""
    request = decode(body)
    found = (request.resource.group, request.resource.version, request.resource.resource)
    if found != (kind.group, kind.version, kind.plural):
        raise MalformedReviewError(
            [
                Cause(
                    "request.resource",
                    "FieldValueInvalid",
                    f"this path serves {kind.plural} of {kind.api_version}, "
                    f"not {found[2]} of {found[0]}/{found[1]}",
                )
            ]
        )
    if request.kind.kind != kind.kind:
        raise MalformedReviewError(
            [Cause("request.kind.kind", "FieldValueInvalid", f"must be {kind.kind}")]
        )
    return request
