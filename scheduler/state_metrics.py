"""Metrics that are read from the state on each scrape: groups, waits, free resources.

Only the leader exports them, so that the sum over all replicas is right. In the middle of a
decision the state contains its trial; then the last values are repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kube.concurrency.freeze import Freeze
from scheduler.cel.selectors import Selectors
from scheduler.core.explain.free_capacity import amounts_of_domains, free_amounts
from scheduler.core.explain.holders import held_capacity
from scheduler.core.groups.groups import GROUP_STATES
from scheduler.core.state.state import State
from scheduler.support.wait_times import KINDS, GangTimes

_PREFIX: Final = "muster_scheduler"


class StateMetrics:
    """The metrics of one scheduler's state."""

    def __init__(
        self,
        state: State,
        times: GangTimes,
        freeze: Freeze,
        topology_keys: Sequence[str],
        selectors: Selectors | None = None,
    ) -> None:
        """Read metrics from these parts; `selectors` evaluate the devices of the state."""
        self._state = state
        self._times = times
        self._freeze = freeze
        self._keys = topology_keys
        self._selectors = selectors or Selectors()
        self._last: list[Metric] = []

    def metrics(self) -> list[Metric]:
        """Return all metrics as of now, or as of before the decision that is under way."""
        if not self._freeze.is_active:
            self._last = [
                *self._groups(),
                *self._capacity_metrics(),
                *self._domains(),
                *self._devices(),
            ]
        return self._last

    def _groups(self) -> Iterator[Metric]:
        forest = self._state.forest
        groups = _gauge(
            "groups",
            "Number of groups, by kind and state: scheduled, binding, invalid, disrupted (lost "
            "pods after it was scheduled), pending (waits for capacity), incomplete (lacks "
            "members).",
            ["kind", "state"],
        )
        for kind in KINDS:
            for state in GROUP_STATES:
                groups.add_metric([kind, state], forest.states.get((kind, state), 0))
        yield groups
        pods, holders = forest.held
        yield _gauge(
            "held_pods",
            "Number of pods that are kept back because the group that they name is not theirs.",
            pods,
        )
        yield _gauge(
            "held_groups",
            "Number of PodGroups that are named by pods that are not theirs.",
            holders,
        )
        longest = _gauge(
            "longest_pending_seconds",
            "Longest time in seconds that a root has had its quorum without its minimum.",
            ["kind"],
        )
        for kind in KINDS:
            longest.add_metric([kind], self._times.longest(kind))
        yield longest

    def _capacity_metrics(self) -> Iterator[Metric]:
        free = _gauge(
            "nodes_free",
            "Free amount of a resource on all nodes that are not cordoned.",
            ["resource"],
        )
        offered = _gauge(
            "nodes_allocatable",
            "Allocatable amount of a resource on all nodes that are not cordoned.",
            ["resource"],
        )
        held = _gauge(
            "nodes_held",
            "Amount of a resource that is held for expected pods on all nodes that are not "
            "cordoned.",
            ["resource"],
        )
        for each in free_amounts(self._state.nodes, held_capacity(self._state)):
            free.add_metric([each.resource], each.free)
            offered.add_metric([each.resource], each.allocatable)
            held.add_metric([each.resource], each.held)
        yield from (free, offered, held)

    def _domains(self) -> Iterator[Metric]:
        count = _gauge("domains", "Number of topology domains of a key.", ["topology_key"])
        largest = _gauge(
            "domain_free_max",
            "Largest free amount of a resource in one domain of a key.",
            ["topology_key", "resource"],
        )
        free = _gauge(
            "domain_free",
            "Free amount of a resource in each domain, for keys with few domains.",
            ["topology_key", "domain", "resource"],
        )
        state = self._state
        # Only for keys of the configuration: tenants may use any number of keys.
        for each in amounts_of_domains(state.nodes, state.topologies, self._keys):
            count.add_metric([each.key], each.count)
            for resource, most in each.largest.items():
                largest.add_metric([each.key, resource], most)
            for resource, domains in each.free.items():
                for domain, amount in domains.items():
                    free.add_metric([each.key, domain, resource], amount)
        yield from (count, largest, free)

    def _devices(self) -> Iterator[Metric]:
        devices, selectors = self._state.devices, self._selectors
        pools = _gauge(
            "resource_pools",
            "Number of device pools, by state: complete, incomplete (slices are missing), "
            "invalid. Only complete pools provide devices.",
            ["state"],
        )
        for state, count in devices.pool_states().items():
            pools.add_metric([state], count)
        yield pools
        kinds, states = len(devices.sortings.contents), len(devices.states)
        yield _gauge(
            "device_contents", "Number of distinct devices, apart from their names.", kinds
        )
        yield _gauge(
            "device_states", "Number of distinct states of use of the devices of a node.", states
        )
        yield CounterMetricFamily(
            f"{_PREFIX}_device_steps",
            "Number of devices tried and selectors evaluated in the search for devices.",
            value=devices.allowance.spent,
        )
        judged = CounterMetricFamily(
            f"{_PREFIX}_selector_evaluations",
            "Number of devices evaluated by selectors, by result: judged, error.",
            labels=["result"],
        )
        judged.add_metric(["judged"], selectors.evaluations - selectors.errors)
        judged.add_metric(["error"], selectors.errors)
        yield judged


class _Leader(Collector):
    """A collector of the state's metrics of the scheduler of this process, while it leads."""

    def __init__(self) -> None:
        self.source: StateMetrics | None = None

    def collect(self) -> list[Metric]:
        return [] if self.source is None else self.source.metrics()


LEADER: Final = _Leader()
REGISTRY.register(LEADER)


def _gauge(name: str, text: str, of: list[str] | float) -> GaugeMetricFamily:
    """Return a gauge with these labels, or with this value and no labels."""
    if isinstance(of, list):
        return GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=of)
    return GaugeMetricFamily(f"{_PREFIX}_{name}", text, value=of)
