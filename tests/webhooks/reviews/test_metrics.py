"""No request to the webhook creates more series."""

import pytest
from prometheus_client import REGISTRY, generate_latest

from tests.webhooks.review_requests import FakeLister
from webhooks.reviews.review import MalformedReviewError
from webhooks.routing.reviewer import ROUTES, Reviewer, UnknownRouteError


def series() -> set[str]:
    lines = generate_latest(REGISTRY).decode().splitlines()
    return {line.rpartition(" ")[0] for line in lines if line.startswith("muster_webhook_review")}


def test_routes_and_bodies_of_any_kind_make_no_more_series() -> None:
    reviewer = Reviewer(FakeLister())
    with pytest.raises(UnknownRouteError):
        reviewer.review("validate/unknown", b"{}")
    before = series()
    for number in range(100):
        with pytest.raises(UnknownRouteError):
            reviewer.review(f"mutate/tenant-{number}", b"{}")
        for route in ROUTES:
            with pytest.raises(MalformedReviewError):
                reviewer.review(route, b'{"kind": "tenant-%d"}' % number)

    assert series() == before
