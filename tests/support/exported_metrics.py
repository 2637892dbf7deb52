"""Every metric that Muster exports, read from its own code."""

from itertools import chain
from types import ModuleType

from prometheus_client import Counter, Gauge, Histogram

import kube.base.metrics
import scheduler.support.metrics
import webhooks.reviews.metrics
from kube.base.clock import SystemClock
from kube.concurrency.freeze import Freeze
from scheduler.core.state.state import State
from scheduler.state_metrics import StateMetrics
from scheduler.support.wait_times import GangTimes

MODULES = (kube.base.metrics, scheduler.support.metrics, webhooks.reviews.metrics)


def exported() -> dict[str, frozenset[str]]:
    """Return the names of the metrics, counters with `_total`, and their label names."""
    state = State()
    times = GangTimes(state, SystemClock())
    families = StateMetrics(state, times, Freeze(), ["zone"]).metrics()
    live = {
        f"{each.name}_total" if each.type == "counter" else each.name: frozenset(
            getattr(each, "_labelnames", ())
        )
        for each in families
    }
    return live | dict(chain.from_iterable(map(_of, MODULES)))


def series() -> dict[str, frozenset[str]]:
    """Return the same by the names in which Prometheus stores them: histograms have three."""
    found = exported()
    for module in MODULES:
        for name, labels in _of(module):
            if name.endswith(("_seconds", "_steps")) and name in _histograms(module):
                del found[name]
                found |= {f"{name}_count": labels, f"{name}_sum": labels}
                found[f"{name}_bucket"] = labels | {"le"}
    return found


def _histograms(module: ModuleType) -> set[str]:
    return {each._name for each in vars(module).values() if isinstance(each, Histogram)}


def _of(module: ModuleType) -> list[tuple[str, frozenset[str]]]:
    kinds = (Counter, Gauge, Histogram)
    metrics = [each for each in vars(module).values() if isinstance(each, kinds)]
    return [
        (
            f"{each._name}_total" if isinstance(each, Counter) else each._name,
            frozenset(each._labelnames),
        )
        for each in metrics
    ]
