"""The metrics of the scheduler.

No label has a value that a tenant chooses, such as a namespace: docs/metrics.md says why.
"""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

QUEUES: Final = ("active", "unschedulable", "backoff")
"""The parts of the scheduling queue, by kube-scheduler's names."""

DECISIONS = Counter(
    "muster_scheduler_schedule_attempts_total",
    "Roots decided, by result: scheduled, unschedulable or error.",
    ["result"],
)
ROUNDS = Counter(
    "muster_scheduler_rounds_total", "How often the scheduler had decided all that was ready."
)
DECISION_SECONDS = Histogram(
    "muster_scheduler_scheduling_attempt_duration_seconds",
    "Time to decide one root.",
    buckets=(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
)
PHASE_SECONDS = Histogram(
    "muster_scheduler_phase_duration_seconds",
    "Time of each phase of a cycle: QueueSort, PreFilter, Filter, PostFilter, Reserve.",
    ["phase"],
    buckets=(0.00001, 0.0001, 0.001, 0.01, 0.1, 1.0),
)
SEARCH_STEPS = Histogram(
    "muster_scheduler_search_steps",
    "Placements of one PodGroup that a decision tried.",
    buckets=(1, 2, 4, 8, 16, 64, 256, 1024),
)
# Up to two hours: a gang may wait for capacity far longer than a decision takes.
_WAITS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
GANG_FIRST_BIND_SECONDS = Histogram(
    "muster_scheduler_gang_first_bind_duration_seconds",
    "Time from when a root has its quorum, so from its last member, until its first pod is bound.",
    ["kind"],
    buckets=_WAITS,
)
GANG_SECONDS = Histogram(
    "muster_scheduler_gang_scheduling_duration_seconds",
    "Time from when a root has its quorum, so from its last member, until its minimum is bound.",
    ["kind"],
    buckets=_WAITS,
)
PENDING_ROOTS = Gauge(
    "muster_scheduler_pending_roots", "Roots that wait: active, unschedulable, backoff.", ["queue"]
)
BINDS = Counter("muster_scheduler_binds_total", "Bindings sent, by result.", ["result"])
BINDS_OPEN = Gauge("muster_scheduler_binds_open", "Bindings decided and without an answer.")
GANGS_GIVEN_UP = Counter(
    "muster_scheduler_bindings_given_up_total",
    "Roots whose pods could not all be bound in time; those bound were deleted.",
)
GANGS_STUCK = Gauge(
    "muster_scheduler_bindings_stuck",
    "Roots that were given up and of which a bound pod cannot be deleted.",
)
HELD_PLACES = Gauge("muster_scheduler_held_places", "Places held for pods that do not exist yet.")
HELD_EXPIRED = Counter(
    "muster_scheduler_held_places_expired_total",
    "Places that were given up as their pods did not come in time.",
)
RESERVATIONS_WRITTEN = Counter(
    "muster_scheduler_reservations_total", "Writes of Reservations, by result.", ["result"]
)
RESERVATIONS_OPEN = Gauge(
    "muster_scheduler_reservations_open", "Reservations stored and not yet deleted."
)
RESUMED = Counter(
    "muster_scheduler_resumed_total",
    "Decisions that a new leader found in Reservations: finished, continued, given_up, unreadable.",
    ["result"],
)
TAKEOVER_SECONDS = Gauge(
    "muster_scheduler_takeover_duration_seconds",
    "Time from becoming the leader until deciding, the last time.",
)
TAKEOVERS_STALE = Counter(
    "muster_scheduler_takeovers_stale_total",
    "Caches that could not be brought up to date when this process became the leader.",
    ["resource"],
)
PREEMPTIONS = Counter(
    "muster_scheduler_preemption_attempts_total",
    "Refused roots by preemption: evict, wait (for victims to end), delayed, paused, none.",
    ["result"],
)
PREEMPTION_SECONDS = Histogram(
    "muster_scheduler_preemption_evaluation_duration_seconds",
    "Time to decide about preemption for one root.",
    buckets=(0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
)
PREEMPTION_PLANS = Counter(
    "muster_scheduler_preemption_plans_total",
    "Plans carried out, by whether it was proved that no cheaper victims would do.",
    ["proved"],
)
VICTIMS = Counter("muster_scheduler_preemption_victims_total", "Pods evicted by preemption.")
VICTIMS_SPARED = Counter(
    "muster_scheduler_preemption_victims_spared_total",
    "Victims that could not be evicted: refused, or unanswered for too long.",
    ["reason"],
)
STARVATION_ACTIVE = Gauge(
    "muster_scheduler_starvation_active",
    "1 while a starving root goes before all roots of no higher priority.",
)
STARVATIONS = Counter(
    "muster_scheduler_starvations_total", "How often a starving root began to go before others."
)
EVICTIONS_OPEN = Gauge(
    "muster_scheduler_evictions_open", "Preemption plans and nominations not yet carried out."
)
REPORTS_DUE = Gauge(
    "muster_scheduler_reports_due", "Roots whose status, or whose pods' status, is to be written."
)
STATUS_WRITES = Counter(
    "muster_scheduler_status_writes_total",
    "Status patches, by kind and result.",
    ["kind", "result"],
)

DEVICES_HIDDEN = Gauge(
    "muster_scheduler_devices_hidden",
    "Devices that are not given to anybody, as something about them is not understood.",
)
CLAIM_WRITES = Counter(
    "muster_scheduler_claim_writes_total",
    "Writes of ResourceClaims, by result: created, allocated, reserved, finalizer, released,"
    " deleted, conflict, failed.",
    ["result"],
)
CLAIM_RACES_LOST = Counter(
    "muster_scheduler_claim_races_lost_total",
    "Allocations given back because another scheduler had allocated the same devices before.",
)
DEVICES_TWICE = Counter(
    "muster_scheduler_devices_allocated_twice_total",
    "Devices that another scheduler allocated although a claim had them already.",
)
DEVICE_WORK_POSTPONED = Counter(
    "muster_scheduler_device_work_postponed_total",
    "Decisions put off because they would take long to find devices; they go on later.",
)

# A counter that is new at its first event has not increased, as far as Prometheus can tell.
for _result in ("evict", "wait", "delayed", "paused", "none"):
    PREEMPTIONS.labels(_result)
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
