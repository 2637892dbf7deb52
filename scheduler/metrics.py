"""What the scheduler counts."""

from prometheus_client import Counter, Gauge, Histogram

DECISIONS = Counter(
    "muster_scheduler_decisions_total", "Roots decided, by outcome: placed or refused.", ["outcome"]
)
ROUNDS = Counter(
    "muster_scheduler_rounds_total", "Times that everything ready had been decided, once each."
)
DECISION_SECONDS = Histogram(
    "muster_scheduler_decision_seconds",
    "Time to decide one root.",
    buckets=(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
)
SEARCH_STEPS = Histogram(
    "muster_scheduler_search_steps",
    "Fills of one leaf that a decision took.",
    buckets=(1, 2, 4, 8, 16, 64, 256, 1024),
)
QUEUE_ROOTS = Gauge(
    "muster_scheduler_roots", "Roots by place: ready, refused, backing off.", ["at"]
)
BINDS = Counter("muster_scheduler_binds_total", "Bindings sent, by result.", ["result"])
BINDS_OPEN = Gauge("muster_scheduler_binds_open", "Bindings decided and not yet answered.")
GANGS_GIVEN_UP = Counter(
    "muster_scheduler_bindings_given_up_total",
    "Roots whose binding did not end within its time and was taken back.",
)
RESERVATIONS_WRITTEN = Counter(
    "muster_scheduler_reservations_total", "Reservations, by result of the write.", ["result"]
)
RESERVATIONS_OPEN = Gauge(
    "muster_scheduler_reservations_open", "Reservations stored and not yet deleted."
)
RESUMED = Counter(
    "muster_scheduler_resumed_total",
    "Decisions found in Reservations when beginning to lead: finished, continued or given up.",
    ["outcome"],
)
PREEMPTIONS = Counter(
    "muster_scheduler_preemptions_total",
    "Refused roots by what preemption could do: evict, wait for those that leave, delayed, none.",
    ["outcome"],
)
PREEMPTION_SECONDS = Histogram(
    "muster_scheduler_preemption_seconds",
    "Time to decide whom to evict for one root.",
    buckets=(0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
)
VICTIMS = Counter("muster_scheduler_victims_total", "Pods evicted for others.")
STARVATION_ACTIVE = Gauge(
    "muster_scheduler_door_closed", "1 while a starving root goes before all of no higher priority."
)
STARVATIONS = Counter(
    "muster_scheduler_door_closings_total", "How often a starving root closed the door."
)
EVICTIONS_OPEN = Gauge(
    "muster_scheduler_evictions_open", "Evictions and nominations decided and not yet carried out."
)
REPORTS_DUE = Gauge(
    "muster_scheduler_reports_due", "Reports of roots and of their pods to be made."
)
STATUS_WRITES = Counter(
    "muster_scheduler_status_writes_total",
    "Status patches, by kind and result.",
    ["kind", "result"],
)
UNUSABLE_OBJECTS = Counter(
    "muster_scheduler_unusable_objects_total",
    "Objects left out because of bad amounts.",
    ["resource"],
)
