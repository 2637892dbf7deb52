"""The metrics of the scheduler.

No label has a value that a tenant chooses, such as a namespace: docs/metrics.md says why.
"""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

QUEUES: Final = ("active", "unschedulable", "backoff")
"""The parts of the scheduling queue, by kube-scheduler's names."""

DECISIONS = Counter(
    "muster_scheduler_schedule_attempts_total",
    "Number of attempts to schedule a root, by result: scheduled, unschedulable, error.",
    ["result"],
)
ROUNDS = Counter(
    "muster_scheduler_rounds_total",
    "Number of times that the scheduler had decided all ready roots.",
)
DECISION_SECONDS = Histogram(
    "muster_scheduler_scheduling_attempt_duration_seconds",
    "Duration in seconds of the decision about one root.",
    buckets=(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
)
PHASE_SECONDS = Histogram(
    "muster_scheduler_phase_duration_seconds",
    "Duration in seconds of each phase of a cycle: QueueSort, PreFilter, Filter, "
    "PostFilter, Reserve.",
    ["phase"],
    buckets=(0.00001, 0.0001, 0.001, 0.01, 0.1, 1.0),
)
SEARCH_STEPS = Histogram(
    "muster_scheduler_search_steps",
    "Number of placements of a PodGroup that a decision tried.",
    buckets=(1, 2, 4, 8, 16, 64, 256, 1024),
)
# Up to two hours: a gang may wait for capacity far longer than a decision takes.
_WAITS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
GANG_FIRST_BIND_SECONDS = Histogram(
    "muster_scheduler_gang_first_bind_duration_seconds",
    "Duration in seconds from the quorum of a root until its first pod is bound.",
    ["kind"],
    buckets=_WAITS,
)
GANG_SECONDS = Histogram(
    "muster_scheduler_gang_scheduling_duration_seconds",
    "Duration in seconds from the quorum of a root until its minimum is bound.",
    ["kind"],
    buckets=_WAITS,
)
PENDING_ROOTS = Gauge(
    "muster_scheduler_pending_roots",
    "Number of waiting roots, by queue: active, unschedulable, backoff.",
    ["queue"],
)
BINDS = Counter("muster_scheduler_binds_total", "Number of Bindings sent, by result.", ["result"])
BINDS_OPEN = Gauge("muster_scheduler_binds_open", "Number of Bindings without a response.")
GANGS_GIVEN_UP = Counter(
    "muster_scheduler_bindings_given_up_total",
    "Number of roots that were not completely bound in time; their bound pods were deleted.",
)
START_TIMEOUTS = Counter(
    "muster_scheduler_start_timeouts_total",
    "Number of roots that were given up because they did not start within their start-timeout.",
)
GANGS_STUCK = Gauge(
    "muster_scheduler_bindings_stuck",
    "Number of roots that were given up and have a bound pod that cannot be deleted.",
)
HELD_PLACES = Gauge("muster_scheduler_held_places", "Number of places held for expected pods.")
HELD_EXPIRED = Counter(
    "muster_scheduler_held_places_expired_total",
    "Number of held places that were released because their pods did not come in time.",
)
RESERVATIONS_WRITTEN = Counter(
    "muster_scheduler_reservations_total",
    "Number of writes of Reservations, by result.",
    ["result"],
)
RESERVATIONS_OPEN = Gauge(
    "muster_scheduler_reservations_open",
    "Number of Reservations that are stored and not yet deleted.",
)
RESUMED = Counter(
    "muster_scheduler_resumed_total",
    "Number of decisions that a new leader found in Reservations, by result: finished, "
    "continued, given_up, unreadable.",
    ["result"],
)
TAKEOVER_SECONDS = Gauge(
    "muster_scheduler_takeover_duration_seconds",
    "Duration in seconds from the last takeover of the lease until the first decision.",
)
TAKEOVERS_STALE = Counter(
    "muster_scheduler_takeovers_stale_total",
    "Number of caches that were not current when this process became the leader.",
    ["resource"],
)
PREEMPTIONS = Counter(
    "muster_scheduler_preemption_attempts_total",
    "Number of attempts to preempt for a refused root, by result: evict, wait (for "
    "victims to end), delayed, paused, none.",
    ["result"],
)
PREEMPTION_SECONDS = Histogram(
    "muster_scheduler_preemption_evaluation_duration_seconds",
    "Duration in seconds of the search for victims for one root.",
    buckets=(0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
)
PREEMPTION_PLANS = Counter(
    "muster_scheduler_preemption_plans_total",
    "Number of preemption plans carried out, by whether a proof excludes cheaper victims.",
    ["proved"],
)
PREEMPTIONS_REPEATED = Counter(
    "muster_scheduler_preemption_repeated_total",
    "Number of preemptions of a gang, or tree of gangs, that had been preempted already within "
    "repeatWindowSeconds.",
)
DEFRAGMENTATIONS = Counter(
    "muster_scheduler_defragmentation_attempts_total",
    "Number of searches for gangs to move for a refused root, by result: moved, or why none is "
    "moved: unsuited, leaving, nothing, short, returns, limit, terms.",
    ["result"],
)
VICTIMS = Counter(
    "muster_scheduler_preemption_victims_total", "Number of pods evicted by preemption."
)
VICTIMS_SPARED = Counter(
    "muster_scheduler_preemption_victims_spared_total",
    "Number of victims that could not be evicted, by reason: refused, unanswered (for too long).",
    ["reason"],
)
STARVATION_ACTIVE = Gauge(
    "muster_scheduler_starvation_active",
    "1 while a starving root has precedence over all others of no higher priority.",
)
STARVATIONS = Counter(
    "muster_scheduler_starvations_total", "Number of times that a starving root got precedence."
)
EVICTIONS_OPEN = Gauge(
    "muster_scheduler_evictions_open",
    "Number of preemption plans and nominations that are not yet carried out.",
)
REPORTS_DUE = Gauge(
    "muster_scheduler_reports_due",
    "Number of roots whose status, or whose pods' status, has to be written.",
)
STATUS_WRITES = Counter(
    "muster_scheduler_status_writes_total",
    "Number of status patches, by kind and result.",
    ["kind", "result"],
)

DEVICES_HIDDEN = Gauge(
    "muster_scheduler_devices_hidden",
    "Number of devices that the scheduler does not allocate because they have an unknown field.",
)
CLAIM_WRITES = Counter(
    "muster_scheduler_claim_writes_total",
    "Number of writes of ResourceClaims, by result: created, allocated, reserved, "
    "finalizer, released, deleted, conflict, failed.",
    ["result"],
)
CLAIM_RACES_LOST = Counter(
    "muster_scheduler_claim_races_lost_total",
    "Number of allocations released because another scheduler had allocated the same "
    "devices first.",
)
DEVICES_TWICE = Counter(
    "muster_scheduler_devices_allocated_twice_total",
    "Number of devices that another scheduler allocated although a claim already had them.",
)
DEVICE_WORK_POSTPONED = Counter(
    "muster_scheduler_device_work_postponed_total",
    "Number of decisions that continue later because the search for devices takes long.",
)

# A counter that is new at its first event has not increased, as far as Prometheus can tell.
for _result in ("evict", "wait", "delayed", "paused", "none"):
    PREEMPTIONS.labels(_result)
for _result in ("moved", "nothing", "short", "returns", "limit"):
    DEFRAGMENTATIONS.labels(_result)
for _result in ("finished", "continued", "given_up", "unreadable"):
    RESUMED.labels(_result)
for _result in ("allocated", "reserved", "finalizer", "released", "conflict", "failed"):
    CLAIM_WRITES.labels(_result)
for _reason in ("refused", "unanswered"):
    VICTIMS_SPARED.labels(_reason)


def no_longer_leading() -> None:
    """Reset the gauges of open Bindings and waiting roots: the next leader exports them."""
    for queue in QUEUES:
        PENDING_ROOTS.labels(queue).set(0)
    for gauge in (
        BINDS_OPEN,
        EVICTIONS_OPEN,
        GANGS_STUCK,
        REPORTS_DUE,
        RESERVATIONS_OPEN,
        STARVATION_ACTIVE,
    ):
        gauge.set(0)
