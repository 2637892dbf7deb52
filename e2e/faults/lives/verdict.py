"""The invariants of a life: while it plays, and after it has settled.

After settling, everything that the owner's controllers want exists, no pod waits that would fit, no
gang runs partially that never ran completely, each pod is in the group created for its owner, and
the groups' statuses are correct.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from api.constants import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_WAITING_FOR,
    CONDITION_COMPOSITE_SCHEDULED,
    CONDITION_POD_GROUP_SCHEDULED,
    LABEL_POD_GROUP,
)
from e2e.faults.lives import state as states
from e2e.faults.lives.script import Life
from e2e.faults.lives.state import (
    State,
    at_once,
    conditions,
    controller_uid,
    due,
    ended,
    labels,
    leaving,
    lives,
    name,
    node_of,
    notes,
    over,
    phase,
    status_of,
    suspended,
    wanted,
)
from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, Json
from kube.client.resources import JOBS, JOBSETS, PODS, Resource

_SCHEDULED = {
    POD_GROUPS: CONDITION_POD_GROUP_SCHEDULED,
    COMPOSITE_POD_GROUPS: CONDITION_COMPOSITE_SCHEDULED,
}


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that start together, by the mode of their owner."""

    name: str
    jobs: tuple[Json, ...]
    pods: tuple[Json, ...]
    """All existing pods, including terminated ones."""
    asked: int | None
    """The user's own min-count; 0 if pods start one by one."""

    def bound(self) -> list[Json]:
        return [pod for pod in self.pods if lives(pod) and node_of(pod)]

    def waiting(self) -> list[Json]:
        return [pod for pod in self.pods if lives(pod) and not node_of(pod)]

    def minimum(self) -> int:
        """Return the number of active pods that must be bound, if any is.

        Succeeded pods that still exist count for minCount, so fewer active ones are needed.
        """
        base = sum(map(at_once, self.jobs)) if self.asked is None else self.asked
        active = {controller_uid(pod): 0 for pod in self.pods}
        for pod in self.pods:
            active[controller_uid(pod)] += lives(pod)
        need = sum(wanted(job, active.get(job["metadata"]["uid"], 0)) for job in self.jobs)
        done = sum(phase(pod) == "Succeeded" and not leaving(pod) for pod in self.pods)
        return max(0, min(base, need + done) - done)


def gangs(life: Life, state: State, asked: int | None) -> list[Gang]:
    """Return the gangs of the current owner; `asked` is the current min-count."""
    jobs = state.own_jobs()
    if not jobs:
        return []

    def gang(title: str, members: Sequence[Json]) -> Gang:
        pods = tuple(pod for job in members for pod in state.pods_of(job))
        return Gang(title, tuple(members), pods, asked)

    if life.mode in ("Plain", "Basic"):
        asked = 0
        return [gang(life.kind, jobs)]
    if life.mode == "Own Gang":
        roles = sorted({labels(job)[states.ROLE] for job in jobs})
        return [gang(role, [j for j in jobs if labels(j)[states.ROLE] == role]) for role in roles]
    if life.mode == "Own ReplicatedGang":
        return [gang(name(job), [job]) for job in jobs]
    return [gang(life.kind, jobs)]


@dataclass(slots=True)
class Verdict:
    """Verdict on one life. The player updates `asked`, `room` and `told`."""

    life: Life
    look: Callable[[], State]
    asked: int | None = None
    room: int = 0
    told: set[str] = field(default_factory=set)
    """The names of the pods that the player ended as Failed."""
    faults: list[str] = field(default_factory=list)
    _seen_bound: set[str] = field(default_factory=set)
    _bound_at_rest: frozenset[str] = frozenset()
    _whole: set[str] = field(default_factory=set)
    """The gangs that were complete at some moment since the last rest or change with a wait."""
    _least: dict[str, int] = field(default_factory=dict)
    _true: set[str] = field(default_factory=set)
    """The UIDs of the groups that reported themselves as scheduled."""

    # While it plays

    def note(self, kind: Resource, _old: Json | None, new: Json | None) -> None:
        """Handle a change; a violated invariant is a fault at once."""
        if kind in _SCHEDULED and new is not None:
            self._note_group(kind, new)
        if kind == PODS and new is not None:
            self._note_pod(new)
        if kind in (PODS, JOBS, JOBSETS):
            self.note_sizes()

    def _note_group(self, kind: Resource, group: Json) -> None:
        uid, said = group["metadata"]["uid"], conditions(group).get(_SCHEDULED[kind])
        if said == "True":
            self._true.add(uid)
        elif uid in self._true:
            self._true.discard(uid)
            self.faults.append(f"{kind.kind} {name(group)} said True, and then {said}")

    def _note_pod(self, pod: Json) -> None:
        if node_of(pod):
            self._seen_bound.add(pod["metadata"]["uid"])
        if phase(pod) == "Failed" and not leaving(pod) and name(pod) not in self.told:
            self.told.add(name(pod))
            why = status_of(pod).get("message") or status_of(pod).get("reason") or "no reason"
            self.faults.append(f"pod {name(pod)} failed by itself: {why}")

    def note_sizes(self) -> None:
        """Record the complete gangs, by any size that they had since the last rest.

        The watch may deliver a size that changes during a placement only after it.
        """
        for gang in gangs(self.life, self.look(), self.asked):
            least = min(gang.minimum(), self._least.get(gang.name, gang.minimum()))
            self._least[gang.name] = least
            if gang.bound() and len(gang.bound()) >= least:
                self._whole.add(gang.name)

    def begin(self) -> None:
        """Count only the new sizes: all watches have delivered a change made at rest."""
        self._whole.clear()
        self._least.clear()

    # At rest

    def rest(self) -> None:
        """Record the state at rest: later Bindings are results of later steps."""
        bound = (pod for pod in self.look().pods if lives(pod) and node_of(pod))
        self._bound_at_rest = frozenset(pod["metadata"]["uid"] for pod in bound)
        self.begin()

    def unrest(self) -> tuple[list[str], list[str]]:
        """Return the outstanding work of the owner's controllers, and of Muster."""
        state = self.look()
        if state.owner is None:
            return ["the owner is not there"], []
        controllers = list(self._controllers(state, state.owner))
        muster = list(self._muster(state, state.owner))
        return controllers, muster

    def _controllers(self, state: State, owner: Json) -> Iterator[str]:
        if state.owner is None:
            return
        yield from self._jobs_missing(state, owner)
        for job in state.own_jobs():
            yield from _job_unrest(job, state.pods_of(job))
        own = {job["metadata"]["uid"] for job in state.own_jobs()}
        for pod in state.pods:
            if not ended(pod) and controller_uid(pod) not in own:
                yield f"pod {name(pod)} of another Job is still there"

    def _jobs_missing(self, state: State, owner: Json) -> Iterator[str]:
        if owner["kind"] == "Job" or over(owner):
            return
        jobs = state.own_jobs()
        there = {name(job) for job in jobs if not leaving(job)}
        missing = [each for each in due(owner, jobs) if each not in there]
        if missing and not suspended(owner):
            yield f"JobSet has no Job {', '.join(missing)}"
        if any(over(job) == "Failed" for job in jobs):
            yield "a Job has failed, and the JobSet says nothing of it"
        started = [job for job in jobs if suspended(owner) or name(job) in due(owner, jobs)]
        if any(suspended(job) != suspended(owner) for job in started if not over(job)):
            yield "a Job is not suspended as its JobSet is"
        if jobs and len(there) == len(_all_jobs(owner)) and all(over(job) for job in jobs):
            yield "all Jobs are over, and the JobSet is not"

    def _muster(self, state: State, owner: Json) -> Iterator[str]:
        free = self.room - sum(bool(node_of(pod)) and not ended(pod) for pod in state.pods)
        waiting = 0
        for gang in gangs(self.life, state, self.asked):
            waiting += len(gang.waiting())
            yield from self._waits_though_room(gang, free)
            yield from self._runs_in_part(gang)
        for pod in state.pods:
            if lives(pod) and node_of(pod) and phase(pod) == "Pending":
                yield f"pod {name(pod)} is bound and does not run"
        yield from self._outside(state, owner)
        if not waiting:
            yield from self._says_that_it_waits(state, owner)
        if suspended(owner) and not over(owner) and not any(map(lives, state.pods)):
            for group in (*state.groups, *state.composites):
                yield f"{group['kind']} {name(group)} is there though all is suspended"

    def _waits_though_room(self, gang: Gang, free: int) -> Iterator[str]:
        bound, waiting = len(gang.bound()), len(gang.waiting())
        need = max(1, gang.minimum() - bound)
        if waiting and need <= free and need <= waiting:
            yield (
                f"{waiting} pods of gang {gang.name} wait though {need} suffice beside the {bound} "
                f"that are bound, and there is room for {free}"
            )

    def _runs_in_part(self, gang: Gang) -> Iterator[str]:
        bound, least = gang.bound(), gang.minimum()
        fresh = [pod for pod in bound if pod["metadata"]["uid"] not in self._bound_at_rest]
        if gang.waiting() and fresh and len(bound) < least and gang.name not in self._whole:
            yield (
                f"HALF GANG: {len(bound)} of {least} pods of gang {gang.name} are bound, "
                f"{len(fresh)} of them since the last rest"
            )

    def _outside(self, state: State, owner: Json) -> Iterator[str]:
        if self.life.mode == "Plain":
            return
        uids = {job["metadata"]["uid"] for job in state.own_jobs()} | {owner["metadata"]["uid"]}
        there = {name(group): group for group in state.groups}
        for pod in state.pods:
            if not lives(pod):
                continue
            group = there.get(labels(pod).get(LABEL_POD_GROUP, ""))
            if group is None or leaving(group):
                yield f"pod {name(pod)} has no group"
            elif notes(group).get(ANNOTATION_MADE_FOR, "").rpartition("/")[2] not in uids:
                yield f"pod {name(pod)} is in PodGroup {name(group)}, made for another owner"

    def _says_that_it_waits(self, state: State, owner: Json) -> Iterator[str]:
        """Yield a fault if a status reports waiting although no pod waits."""
        if said := notes(owner).get(ANNOTATION_WAITING_FOR):
            yield f"{owner['kind']} says that it waits, though no pod does: {said}"
        for gang in gangs(self.life, state, self.asked):
            named = {labels(pod).get(LABEL_POD_GROUP) for pod in gang.bound()}
            for group in state.groups:
                told = conditions(group).get(CONDITION_POD_GROUP_SCHEDULED)
                if name(group) in named and told != "True":
                    yield f"PodGroup {name(group)} says {told}, though all of its pods run"


def _all_jobs(owner: Json) -> list[str]:
    roles = owner["spec"]["replicatedJobs"]
    return [f"{each['name']}-{i}" for each in roles for i in range(each.get("replicas", 1))]


def _job_unrest(job: Json, pods: Sequence[Json]) -> Iterator[str]:
    """Yield the outstanding work of the Job controller for one Job."""
    living = [pod for pod in pods if lives(pod)]
    want, status = wanted(job, len(living)), status_of(job)
    if len(living) != want:
        yield f"Job {name(job)} has {len(living)} of {want} pods"
    if any(leaving(pod) and not ended(pod) for pod in pods):
        yield f"pods of Job {name(job)} are being deleted"
    if over(job) or leaving(job):
        return
    if want == 0 and not suspended(job) and job["spec"].get("parallelism", 1):
        yield f"Job {name(job)} wants no more pods, and has not ended"
    if status.get("active", 0) != len(living):
        yield f"Job {name(job)} counts {status.get('active', 0)} of {len(living)} pods as active"
    running = sum(phase(pod) == "Running" for pod in living)
    if status.get("ready", 0) != running:
        yield f"Job {name(job)} counts {status.get('ready', 0)} of {running} pods as ready"
    if status.get("uncountedTerminatedPods") not in (None, {}):
        yield f"Job {name(job)} has yet to count pods that ended"
