"""Metrics of the API client, on the registry of the process."""

from prometheus_client import Counter, Gauge, Histogram

API_REQUESTS = Counter(
    "muster_api_requests_total",
    "Requests to the API server by method and status code; code is 0 when no answer came.",
    ["method", "code"],
)
WATCH_LAG = Gauge(
    "muster_watch_lag_seconds",
    "Age of the last event or bookmark of a watch.",
    ["resource"],
)
WATCH_RELISTS = Counter(
    "muster_watch_lists_total",
    "Full lists made by a watch, the first one included.",
    ["resource"],
)
WATCH_UNDECODABLE = Counter(
    "muster_watch_undecodable_total",
    "Objects that could not be decoded and were left out.",
    ["resource"],
)
EVENTS_DROPPED = Counter(
    "muster_events_dropped_total",
    "Kubernetes events that were not sent.",
    ["reason"],
)
LEADER = Gauge("muster_leader", "1 while this process holds the lease.", ["lease"])
QUEUE_DEPTH = Gauge("muster_workqueue_depth", "Keys waiting in a work queue.", ["queue"])
QUEUE_RETRIES = Counter(
    "muster_workqueue_retries_total", "Keys put back after a failure.", ["queue"]
)
RECONCILE_SECONDS = Histogram(
    "muster_workqueue_work_seconds", "Time from taking a key to being done with it.", ["queue"]
)
