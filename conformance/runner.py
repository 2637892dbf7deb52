"""The runner: plays a scenario's steps on a cluster, and replaces pods as a controller does."""

import secrets
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any, Final, Literal

from msgspec import Struct

from conformance import objects
from conformance.adapters.base import Adapter
from conformance.checks import Finding, judge, true_status
from conformance.cluster import FAILURES, Cluster
from conformance.recorder import Recorder
from conformance.values.history import (
    GANG_LABEL,
    Awaited,
    Board,
    Deleted,
    Event,
    Killed,
    Pod,
    Removed,
    Settled,
)
from conformance.values.scenario import Gang, Lose, Nodes, Pods, Scenario, State, states

_KILL_SECONDS: Final = 60
"""Seconds that the command that kills the scheduler may take."""
_TICK_SECONDS: Final = 0.1
"""Seconds between two looks at timers while nothing happens."""
_STATUS_SECONDS: Final = 0.5
"""Seconds between two reads of statuses that do not agree with the pods yet."""


class StageError(RuntimeError):
    """The kit could not play a step; the scheduler is not to blame."""


class Limits(Struct, frozen=True, kw_only=True):
    """Times in seconds, for slow machines too.

    `grace` is how long a gang may be half placed, `patience` how long a state may take, and
    `quiet` how long no placement must change until a state counts as settled.
    """

    grace: float = 15
    patience: float = 60
    quiet: float = 2


class Result(Struct, frozen=True, kw_only=True):
    """The result of one scenario. `note` states why it was skipped, or could not be played."""

    scenario: Scenario
    outcome: Literal["passed", "failed", "skipped", "error"]
    seconds: float = 0
    findings: Sequence[Finding] = ()
    note: str = ""
    history: Sequence[Event] = ()


class Runner(Struct, frozen=True, kw_only=True):
    """What all scenarios of a run have in common; `kill` is a shell command."""

    cluster: Cluster
    adapter: Adapter
    scheduler: str
    kill: str = ""
    limits: Limits = Limits()

    def run(self, scenario: Scenario) -> Result:
        """Play a scenario on nodes and in a namespace of its own, and judge it."""
        offers = self.adapter.offers | ({"kill"} if self.kill else set())
        if missing := scenario.missing(offers):
            return Result(scenario=scenario, outcome="skipped", note=f"needs {', '.join(missing)}")
        began = time.monotonic()
        stage = Stage(self, scenario)
        try:
            note = _trouble(stage.play)
        finally:
            history = stage.recorder.events()
            left = _trouble(stage.close)
        note = note or (left and f"the cleanup failed: {left}")
        findings = judge(history, scenario, self.limits.grace)
        return Result(
            scenario=scenario,
            outcome="error" if note else "failed" if findings else "passed",
            seconds=time.monotonic() - began,
            findings=findings,
            note=note,
            history=history,
        )


def _trouble(act: Callable[[], None]) -> str:
    """Return why the kit or the API server failed, "" if neither did."""
    try:
        act()
    except (StageError, *FAILURES) as error:
        return " ".join(f"{type(error).__name__}: {error}".split())
    return ""


class Stage:
    """One scenario on the cluster."""

    def __init__(self, runner: Runner, scenario: Scenario) -> None:
        self._runner = runner
        self._cluster = runner.cluster
        self._scenario = scenario
        self._groups = scenario.groups()
        self._run = f"gang-{scenario.name[:40]}-{secrets.token_hex(2)}"
        self._namespace = f"/api/v1/namespaces/{self._run}"
        self._living: dict[str, list[str]] = {}  # the UIDs of the pods of each group
        self._count = 0
        self._kill_error = ""
        self._placed_at: dict[str, float] = {}
        self._selector = f"{objects.RUN_LABEL}={self._run}"
        self.recorder = Recorder(self._cluster, self._run, self._selector)

    def play(self) -> None:
        """Play all steps, to the first state that is not reached. Raises StageError."""
        self._prepare()
        self.recorder.start()
        verbs: Mapping[str, Callable[[Any], bool | None]] = {
            "nodes": self._add_nodes,
            "gangs": self._create,
            "pods": lambda pods: self._create([pods]),
            "remove": self._remove,
            "remove_placed": self._remove_placed,
            "lose": self._lose,
            "lose_node_of": self._lose_node_of,
            "kill_scheduler": self._kill,
            "kill_at": self._kill_at,
            "places": self._places,
            "evicts": self._evicts,
            "reaches": self._reaches,
            "settles": self._settles,
            "complete": self._complete,
        }
        for step in self._scenario.steps:
            verb, value = step.verb()
            if verbs[verb](value) is False:
                return
        events = self.recorder.events()
        if "kill" in self._scenario.needs and not any(isinstance(it, Killed) for it in events):
            raise StageError(f"the scheduler was not killed: {self._kill_error}")

    def close(self) -> None:
        """Remove everything; the priority classes stay for the next scenario."""
        try:
            self._observe([uid for name in [*self._living] for uid in self._delete_group(name)])
        finally:
            self.recorder.stop()
            nodes = self._cluster.get("/api/v1/nodes", labelSelector=self._selector)
            for node in nodes["items"]:
                self._cluster.delete(f"/api/v1/nodes/{node['metadata']['name']}")
            self._cluster.delete(self._namespace)

    def _prepare(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._run}}
        self._cluster.create("/api/v1/namespaces", body)
        for value in sorted({group.priority for group in self._groups.values()} - {0}):
            path = "/apis/scheduling.k8s.io/v1/priorityclasses"
            self._cluster.create(path, objects.priority_class(value))
        for each in self._runner.adapter.setup():
            self._cluster.create(each.path(self._run), each.body)

    def _add_nodes(self, given: Sequence[Nodes]) -> None:
        names = []
        for nodes in given:
            for _ in range(nodes.count):
                names.append(self._name("node"))
                body = objects.node(names[-1], self._run, nodes)
                self._cluster.create("/api/v1/nodes", body)

        def ready(board: Board) -> bool:
            return all(name in board.nodes and board.nodes[name].ready for name in names)

        if not self._until(ready):
            raise StageError("the nodes are not Ready: does KWOK run here?")

    def _create(self, groups: Sequence[Gang | Pods]) -> None:
        """Create the groups, then their pods in turn."""
        for group in groups:
            for each in self._manifests(group):
                self._cluster.create(each.path(self._run), each.body)
            self._living[group.name] = []
        for number in range(max(group.members for group in groups)):
            for group in groups:
                if number < group.members:
                    self._create_pod(group)

    def _create_pod(self, group: Gang | Pods) -> None:
        adapter, scheduler = self._runner.adapter, self._runner.scheduler
        name = self._name(group.name)
        pod = objects.pod(name, self._run, group.name, scheduler, group.priority)
        adapter.adjust(pod)
        if isinstance(group, Gang):
            adapter.join(pod, group)
        made = self._cluster.create(f"{self._namespace}/pods", pod)
        self._living[group.name].append(made["metadata"]["uid"])

    def _manifests(self, group: Gang | Pods) -> Sequence[Any]:
        return self._runner.adapter.group(group) if isinstance(group, Gang) else ()

    def _remove(self, name: str) -> None:
        self._observe(self._delete_group(name))

    def _delete_group(self, name: str) -> list[str]:
        """Delete a group and its pods; return their UIDs."""
        uids = self._living.pop(name)
        self.recorder.add(Removed(self.recorder.now(), name))
        selected = f"?labelSelector={GANG_LABEL}%3D{name}"
        self._cluster.delete(f"{self._namespace}/pods{selected}")
        for each in reversed(self._manifests(self._groups[name])):
            self._cluster.delete(f"{each.path(self._run)}/{name}")
        return uids

    def _remove_placed(self, _: bool) -> None:
        """Remove the first gang that has its minimum."""
        with self.recorder.changed:
            board = self.recorder.board
            gangs = [it for it in self._living if isinstance(self._groups[it], Gang)]
            placed = [it for it in gangs if board.placed(it) >= self._groups[it].least]
        if not placed:
            raise StageError("no gang is placed, so none can be removed")
        self._remove(min(placed))

    def _lose(self, lose: Lose) -> None:
        self._delete(self._placed(lose.gang)[: lose.pods])

    def _lose_node_of(self, gang: str) -> None:
        """Delete a node and its pods, as an administrator does after a failure."""
        placed = self._placed(gang)
        if not placed:
            raise StageError(f"no pod of {gang} is placed, so it cannot lose a node")
        node = placed[0].node
        with self.recorder.changed:
            pods = [pod for pod in self.recorder.board.pods.values() if pod.node == node]
        self.recorder.add(Deleted(self.recorder.now(), [pod.uid for pod in pods]))
        self._cluster.delete(f"/api/v1/nodes/{node}")
        self._delete(pods, gracePeriodSeconds=0)

    def _delete(self, pods: Sequence[Pod], **options: Any) -> None:
        self.recorder.add(Deleted(self.recorder.now(), [pod.uid for pod in pods]))
        for pod in pods:
            self._cluster.delete(f"{self._namespace}/pods/{pod.name}", **options)
        self._observe([pod.uid for pod in pods])

    def _observe(self, deleted: Sequence[str]) -> None:
        """Wait until the watch has shown the deletions, so that no old state counts as new."""
        if not self._until(lambda board: all(_is_lost(board, uid) for uid in deleted)):
            raise StageError("pods that were deleted are still there: does KWOK run here?")

    def _placed(self, gang: str) -> list[Pod]:
        with self.recorder.changed:
            pods = [pod for pod in self.recorder.board.of(gang) if pod.placed]
        return sorted(pods, key=lambda pod: pod.name)

    def _kill_at(self, placed: int) -> None:
        """Kill the scheduler during the next steps, in the middle of its work."""

        def wait() -> None:
            with self.recorder.changed:
                wait_for = self.recorder.changed.wait_for
                reached = wait_for(lambda: self._placed_pods() >= placed, patience)
            if reached:
                self._kill(True)

        patience = self._runner.limits.patience
        Thread(target=wait, name="kill", daemon=True).start()

    def _placed_pods(self) -> int:
        return sum(pod.placed and bool(pod.gang) for pod in self.recorder.board.pods.values())

    def _kill(self, _: bool) -> None:
        command = ["/bin/sh", "-c", self._runner.kill]
        try:
            subprocess.run(  # noqa: S603 - the user's own command
                command, capture_output=True, text=True, timeout=_KILL_SECONDS, check=True
            )
        except subprocess.SubprocessError as error:
            self._kill_error = f"{error} {getattr(error, 'stderr', '') or ''}"
        else:
            self.recorder.add(Killed(self.recorder.now()))

    def _places(self, count: int) -> bool:
        reached = self._until(lambda _: self._placed_pods() >= count)
        return self._awaited(f"{count} pods placed", reached)

    def _evicts(self, name: str) -> bool:
        members = self._groups[name].members
        lost = self._until(lambda board: board.placed(name) < members)
        return self._awaited(f"{name} evicted", lost)

    def _reaches(self, wanted: State) -> bool:
        def holds(board: Board) -> bool:
            return all(board.placed(name) >= count for name, count in wanted.items())

        return self._awaited(f"reached {_words(wanted)}", self._until(holds))

    def _settles(self, wanted: State | Sequence[State]) -> bool:
        def holds(board: Board) -> bool:
            return any(
                all(board.placed(name) == count for name, count in state.items())
                for state in states(wanted)
            )

        return self._rests(" or ".join(map(_words, states(wanted))), holds)

    def _complete(self, count: int) -> bool:
        def holds(board: Board) -> bool:
            placed = {name: board.placed(name) for name in self._living}
            complete = {n for n, number in placed.items() if number == self._groups[n].members}
            return len(complete) == count and not any(
                number for name, number in placed.items() if name not in complete
            )

        return self._rests(f"{count} complete gangs", holds)

    def _rests(self, words: str, holds: Callable[[Board], bool]) -> bool:
        """Wait for a state, for quiet, and for statuses that agree with the pods."""

        def quiet(board: Board) -> bool:
            since = self.recorder.now() - self.recorder.moved_at
            known = all(uid in board.pods for uids in self._living.values() for uid in uids)
            return known and since > self._runner.limits.quiet

        deadline = time.monotonic() + self._runner.limits.patience
        claims: dict[str, bool | None] = {}
        while self._until(lambda board: holds(board) and quiet(board), deadline):
            claims = self._claims()
            if time.monotonic() > deadline or self._agrees(claims):
                break
            self._until(lambda _: False, time.monotonic() + _STATUS_SECONDS)
        with self.recorder.changed:
            settled = quiet(self.recorder.board)
            reached = settled and holds(self.recorder.board)
        if settled:
            self.recorder.add(Settled(self.recorder.now(), claims))
        return self._awaited(f"settled at {words}", reached)

    def _agrees(self, claims: Mapping[str, bool | None]) -> bool:
        """Return True if the statuses agree with the pods now."""
        settled = Settled(self.recorder.now(), claims)
        history = [*self.recorder.events(), settled]
        found = true_status(history, self._scenario, self._runner.limits.grace)
        return not any(each.at == settled.at for each in found)

    def _awaited(self, wanted: str, reached: bool) -> bool:
        self.recorder.add(Awaited(self.recorder.now(), wanted, reached))
        return reached

    def _claims(self) -> dict[str, bool | None]:
        """Return what the status of each living gang reports."""
        found: dict[str, bool | None] = {}
        for name in self._living:
            for each in self._manifests(self._groups[name])[:1]:
                group = self._cluster.get(f"{each.path(self._run)}/{name}")
                found[name] = self._runner.adapter.is_scheduled(group)
        return found

    def _until(self, holds: Callable[[Board], bool], deadline: float | None = None) -> bool:
        """Act as the controller of all groups until the condition holds; False if it does not."""
        if deadline is None:
            deadline = time.monotonic() + self._runner.limits.patience
        while True:
            with self.recorder.changed:
                if holds(self.recorder.board):
                    return True
                if time.monotonic() > deadline:
                    return False
                self.recorder.changed.wait(_TICK_SECONDS)
            self._end_pods()
            self._replace_pods()

    def _end_pods(self) -> None:
        """Delete the pods whose time is over."""
        now = self.recorder.now()
        for name in self._living:
            seconds = self._groups[name].seconds
            if not seconds:
                continue
            placed = self._placed(name)
            over = [p for p in placed if now - self._placed_at.setdefault(p.uid, now) > seconds]
            if over:
                self._delete(over)

    def _replace_pods(self) -> None:
        """Create a pod for each that is ending, finished or gone."""
        for name, uids in self._living.items():
            with self.recorder.changed:
                board = self.recorder.board
                lost = [uid for uid in uids if _is_lost(board, uid)]
            for uid in lost:
                uids.remove(uid)
                self._create_pod(self._groups[name])

    def _name(self, of: str) -> str:
        self._count += 1
        return f"{self._run}-{self._count}" if of == "node" else f"{of}-{self._count}"


def _is_lost(board: Board, uid: str) -> bool:
    """Return True unless the pod exists, or its creation was not observed yet."""
    pod = board.pods.get(uid)
    return uid in board.gone or (pod is not None and (pod.ending or pod.finished))


def _words(state: State) -> str:
    return ", ".join(f"{name} {count}" for name, count in state.items())
