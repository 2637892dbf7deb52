"""A discrete-event loop around the scheduler: jobs arrive, are placed, run, end, are evicted.

Between two events the state does not change, so time jumps from one to the next. All events of one
time are applied before any decision.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Final

from analysis.lab.clock import START, VirtualClock
from analysis.lab.cluster import Cluster
from analysis.lab.deciding import Outbox, decider_of
from analysis.lab.errors import LabError
from analysis.lab.fragments import Fragments
from analysis.lab.lives import Life, groups_of, life_of, new_pods, replacement
from analysis.lab.trace import Job
from analysis.lab.usage import ResourceUsage
from analysis.lab.variants import Variant
from scheduler.core.groups.forest import Pod
from scheduler.core.search.place import Placement
from scheduler.core.state.state import State
from scheduler.core.values.model import NodeInfo

_EPOCH: Final = START.timestamp()


@dataclass(slots=True)
class Run:
    """The outcome of one variant: the jobs' life cycles, the usage, and the end in seconds.

    `lost` is the work of evicted jobs since their checkpoints in amount x seconds, by resource.
    """

    variant: Variant
    lives: list[Life]
    usage: ResourceUsage
    fragments: Fragments
    nodes: int
    end: float = 0.0
    decisions: int = 0
    evictions: int = 0
    lost: dict[str, float] = field(default_factory=dict)


class Simulation:
    """One variant of a trace on a cluster."""

    def __init__(self, cluster: Cluster, jobs: Sequence[Job], variant: Variant) -> None:
        """Set up the simulation. Raises LabError if jobs request what no node offers.

        `jobs` are ordered by arrival.
        """
        if variant.nodes:
            cluster = cluster.more(variant.nodes)
        nodes = cluster.nodes()
        self._clock = VirtualClock()
        self._variant = variant
        self._state = State()
        for node in nodes:
            self._state.set_node(node)
        _check_keys(nodes, jobs, variant)
        resources = sorted({name for job in jobs for name, _ in job.requests} | {"cpu"})
        keys = _keys(cluster, nodes, jobs)
        usage = ResourceUsage(nodes, keys, resources)
        fragments = Fragments(self._state, jobs, keys)
        self._lives = {f"{job.namespace}/{job.name}": life_of(job) for job in jobs}
        self._outbox = Outbox()
        self._decider = decider_of(self._state, self._outbox, self._clock, variant)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = count()
        self.result = Run(variant, list(self._lives.values()), usage, fragments, len(nodes))

    def run(self, until: float | None = None) -> Run:
        """Play the trace until all jobs ended, no event is left, or `until` seconds passed."""
        for life in self._lives.values():
            self._at(life.job.arrival, partial(self._come, life))
        while True:
            time = self._next_time()
            if time is None or (until is not None and time > until):
                break
            self._pass_to(time)
            while self._events and self._events[0][0] <= time:
                heapq.heappop(self._events)[2]()
            self._decider.decide(self._carry_out)
        if until is not None:
            self._pass_to(until)
        self.result.end = self._clock.seconds
        self.result.decisions = self._outbox.decisions
        return self.result

    def _next_time(self) -> float | None:
        """Return the time of the next event; retries alone do not keep a simulation running."""
        if not self._events:
            return None
        due = self._decider.next_time()
        first = self._events[0][0]
        return first if due is None else max(min(first, due), self._clock.seconds)

    def _pass_to(self, time: float) -> None:
        self.result.fragments.sample(self._clock.seconds, time)
        self.result.usage.advance(time)
        self._clock.seconds = time

    def _at(self, time: float, what: Callable[[], None]) -> None:
        # The serial number keeps events of one time in order: functions cannot be compared.
        heapq.heappush(self._events, (time, next(self._serial), what))

    def _come(self, life: Life) -> None:
        for spec in groups_of(life, self._variant, self._clock):
            self._state.set_group(spec)
            life.groups.append(spec.key)
        self._create_pods(life)

    def _create_pods(self, life: Life) -> None:
        for pod in new_pods(life, self._variant, self._clock):
            self._state.set_pod(pod)

    def _carry_out(self) -> None:
        """Carry out the last decision."""
        placements, self._outbox.placements = self._outbox.placements, []
        for placement in placements:
            self._bind(placement)
        victims, self._outbox.victims = self._outbox.victims, []
        for pod in victims:
            self._evict(pod)

    def _bind(self, placement: Placement) -> None:
        touched: dict[int, Life] = {}
        for pod, row in zip(placement.pods, placement.rows, strict=True):
            life, node = self._life(pod.info.uid), self._state.nodes.name_of(row)
            info = replace(
                pod.info, node=node, phase="Running", started=_EPOCH + self._clock.seconds
            )
            life.pods[info.uid] = info
            self._state.set_pod(info)
            life.place(info.uid, node)
            self._count(life, node, 1)
            touched[id(life)] = life
        for life in touched.values():
            self._placed(life)

    def _placed(self, life: Life) -> None:
        now = self._clock.seconds
        if life.first_placed is None:
            life.first_placed = now
        if life.whole_since is not None:
            return
        if life.is_complete:
            self._begin(life)
        elif life.partial_since is None:
            life.partial_since = now
            if self._variant.order == "one-by-one":
                turn = life.round
                self._at(now + self._variant.give_up, lambda: self._give_up(life, turn))

    def _begin(self, life: Life) -> None:
        now, turn = self._clock.seconds, life.round
        self._count_partial(life, -1)
        life.begin(now)
        if life.confined is None:
            life.confined = self._confined(life)
        self._at(now + life.remaining, lambda: self._finish(life, turn))

    def _confined(self, life: Life) -> bool | None:
        """Return whether it runs in one domain of its key, even if the variant requires none."""
        key, nodes = life.job.key, self._state.nodes
        if not key:
            return None
        rows = {nodes.row_of[name] for name in life.placed.values()}
        found = {info.labels.get(key) for row in rows if (info := nodes.infos[row]) is not None}
        return len(found) == 1

    def _finish(self, life: Life, turn: int) -> None:
        # The job may have been recreated since this event was scheduled: then the event is void.
        if life.round != turn or life.whole_since is None or life.ended is not None:
            return
        life.ended = self._clock.seconds
        self._remove_pods(life)
        for key in reversed(life.groups):
            self._state.remove_group(key)

    def _give_up(self, life: Life, turn: int) -> None:
        """Recreate a job that was partial for too long, as after a user's timeout."""
        if life.round != turn or life.whole_since is not None or life.ended is not None:
            return
        life.given_up += 1
        self._remove_pods(life)
        self._create_pods(life)

    def _evict(self, pod: Pod) -> None:
        uid = pod.info.uid
        life = self._life(uid)
        if uid in life.leaving or uid not in life.placed:
            # A plan may name a pod that an earlier plan has evicted already.
            return
        self.result.evictions += 1
        life.leaving.add(uid)
        until, turn = self._clock.seconds + life.job.grace, life.round
        preemption = replace(pod.info.preemption, leaves_by=until)
        info = replace(life.pods[uid], terminating=True, preemption=preemption)
        life.pods[uid] = info
        self._state.set_pod(info)
        self._at(until, lambda: self._remove_victim(life, uid, turn))

    def _remove_victim(self, life: Life, uid: str, turn: int) -> None:
        """Remove an ended victim; recreate it, or its job if that cannot go on without it."""
        if life.round != turn or life.ended is not None:
            return
        life.leaving.discard(uid)
        self._unplace(life, uid)
        if life.whole_since is not None and not life.is_complete:
            self._stop(life, life.whole_since)
        if not life.stopped:
            self._state.set_pod(replacement(life, uid, self._variant, self._clock))
        elif not life.leaving:
            self._remove_pods(life)
            self._create_pods(life)

    def _stop(self, life: Life, since: float) -> None:
        """Stop the job: the work since its last checkpoint is lost."""
        done = self._clock.seconds - since
        saved = life.saved(done)
        life.remaining -= saved
        life.stops.append(self._clock.seconds)
        lost = (done - saved) * life.job.total
        for name, value in life.requirements.requests:
            self.result.lost[name] = self.result.lost.get(name, 0.0) + lost * value
        life.whole_since, life.stopped = None, True
        self._count_partial(life, 1)

    def _remove_pods(self, life: Life) -> None:
        for uid in list(life.placed):
            self._unplace(life, uid)
        for uid in life.pods:
            self._state.remove_pod(uid)
        life.pods.clear()
        life.leaving.clear()
        life.partial_since = life.whole_since = None
        life.stopped = False

    def _unplace(self, life: Life, uid: str) -> None:
        self._count(life, life.unplace(uid), -1)
        self._state.remove_pod(uid)
        life.pods.pop(uid, None)

    def _count(self, life: Life, node: str, sign: int) -> None:
        usage = self.result.usage
        vector = usage.vector(life.requirements)
        usage.change(node, vector * sign)
        if life.whole_since is None:
            usage.partial += vector * sign

    def _count_partial(self, life: Life, sign: int) -> None:
        """Count its placed pods as pods of a job that does not run (1), or no longer (-1)."""
        usage = self.result.usage
        usage.partial += usage.vector(life.requirements) * (sign * len(life.placed))

    def _life(self, uid: str) -> Life:
        return self._lives[uid.rsplit("/", 3)[0]]


def _keys(cluster: Cluster, nodes: Sequence[NodeInfo], jobs: Sequence[Job]) -> tuple[str, ...]:
    """Return the topology keys of the results: those of the pools, and those that jobs name."""
    named = {key for job in jobs for key in (job.key, job.gang_key)}
    there = {key for node in nodes for key in node.labels}
    return tuple(sorted({*cluster.keys, *(named & there)}))


def _check_keys(nodes: Sequence[NodeInfo], jobs: Sequence[Job], variant: Variant) -> None:
    """Raise LabError for a topology key that no node has."""
    known = {key for node in nodes for key in node.labels}
    for job in jobs:
        for key in (job.key, job.gang_key):
            if key and key not in known and variant.topology != "none":
                raise LabError(f"job {job.name}: no node of the cluster has the label {key}")
