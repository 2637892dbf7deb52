"""The gauges of a scheduler after it lost the lease."""

from prometheus_client import REGISTRY

from scheduler.support import metrics


def test_who_no_longer_leads_has_nothing_open() -> None:
    gauges = (metrics.BINDS_OPEN, metrics.RESERVATIONS_OPEN, metrics.REPORTS_DUE)
    for gauge in (*gauges, metrics.PENDING_ROOTS.labels("active")):
        gauge.set(7)
    metrics.no_longer_leading()

    names = ("binds_open", "reservations_open", "reports_due")
    values = [REGISTRY.get_sample_value(f"muster_scheduler_{name}") for name in names]
    active = REGISTRY.get_sample_value("muster_scheduler_pending_roots", {"queue": "active"})
    assert (*values, active) == (0, 0, 0, 0)
