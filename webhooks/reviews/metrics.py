"""Metrics of the webhook, in the registry of the process."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

REVIEWS = Counter(
    "muster_webhook_reviews_total",
    "Number of admission reviews, by route and outcome: allowed, changed, invalid, forbidden, "
    "malformed, unknown (route), error (a bug in Muster).",
    ["route", "outcome"],
)
REVIEW_SECONDS = Histogram(
    "muster_webhook_review_duration_seconds",
    "Duration in seconds from the receipt of a complete review to the response.",
    ["route"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1),
)
CERTIFICATE_END = Gauge(
    "muster_webhook_certificate_expiration_timestamp_seconds",
    "Time at which the served certificates expire, in seconds since 1970.",
    ["certificate"],
)
READY = Gauge("muster_webhook_ready", "1 if all readiness checks pass, otherwise 0.")
