"""Metrics that all processes have, on the registry of the process.

Metrics that Kubernetes' own components have, too, have their names after `muster_`. No name that a
tenant chooses is the value of a label: the number of series depends on the configuration alone.
"""

from prometheus_client import Counter, Gauge, Histogram

BUILD_INFO = Gauge(
    "muster_build_info",
    "1 for the version and the commit that this process runs.",
    ["version", "commit"],
)
LOG_WRITES_FAILED = Counter(
    "muster_log_writes_failed_total",
    "Number of log lines that could not be written, on a full disk for instance.",
)
API_REQUESTS = Counter(
    "muster_rest_client_requests_total",
    "Number of requests to the API server, by method and status code; the code is "
    "<error> without a response.",
    ["method", "code"],
)
WATCH_LAG = Gauge(
    "muster_watch_lag_seconds",
    "Seconds since the last list, event or bookmark of a resource, or since its watch "
    "was accepted.",
    ["resource"],
)
WATCH_RELISTS = Counter(
    "muster_watch_lists_total",
    "Number of full lists by a watch, including the first one.",
    ["resource"],
)
QUARANTINED = Gauge(
    "muster_quarantined_objects",
    "Number of objects that cannot be decoded or applied, and are skipped until they change.",
    ["resource"],
)
FAILING = Gauge(
    "muster_failing",
    "Number of keys whose last attempt raised an unexpected error, and that are retried.",
    ["work"],
)
LONGEST_STRETCH = Gauge(
    "muster_loop_longest_stretch_seconds",
    "Longest time in seconds since the start that one task held the event loop; above "
    "0.05 s the log names the object.",
    ["work"],
)
STALLS = Counter(
    "muster_loop_stalls_total",
    "Number of times that one task held the event loop for more than 0.05 s.",
    ["work"],
)
STALL_SECONDS = Counter(
    "muster_loop_stall_seconds_total",
    "Seconds that tasks held the event loop in stretches of more than 0.05 s.",
    ["work"],
)
EVENTS_DROPPED = Counter(
    "muster_events_dropped_total",
    "Number of Kubernetes events that were not sent.",
    ["reason"],
)
FEATURE_ENABLED = Gauge(
    "muster_feature_enabled",
    "1 if a feature gate is on in this process, 0 if it is off.",
    ["name", "stage"],
)
LEADER = Gauge(
    "muster_leader_election_master_status",
    "1 while this process holds the lease, otherwise 0.",
    ["name"],
)
QUEUE_DEPTH = Gauge("muster_workqueue_depth", "Number of keys that wait in a work queue.", ["name"])
QUEUE_RETRIES = Counter(
    "muster_workqueue_retries_total", "Number of retries of keys after a failure.", ["name"]
)
RECONCILE_SECONDS = Histogram(
    "muster_workqueue_work_duration_seconds",
    "Duration in seconds of the processing of a key.",
    ["name"],
)
