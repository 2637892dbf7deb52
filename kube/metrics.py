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
QUARANTINED = Gauge(
    "muster_quarantined_objects",
    "Objects that could not be decoded or applied, and are set aside until they change.",
    ["resource"],
)
FAILING = Gauge(
    "muster_failing",
    "Keys whose handling raised an unexpected error the last time, and which are tried again.",
    ["work"],
)
LONGEST_STRETCH = Gauge(
    "muster_loop_longest_stretch_seconds",
    "Longest stretch of work since the start in which no other task of the event loop could run;"
    " the log names the object of one above 0.05 s.",
    ["work"],
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
