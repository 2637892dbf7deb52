"""What the runner does when a step, the scheduler or the cleanup fails, on a cluster in memory."""

import contextlib
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from kubernetes.client.exceptions import ApiException

from conformance import runner
from conformance.adapters import ADAPTERS
from conformance.cluster import Cluster
from conformance.runner import Limits, Result, Runner
from conformance.values.history import Json, Settled
from conformance.values.scenario import Gang, Nodes, Scenario, Step

READY = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "99"}}
FOUR = Gang(name="gang", members=4)


class InMemory:
    """A cluster that places the first `room` pods at once; `broken` paths refuse deletions."""

    def __init__(self, room: int = 0, broken: str = " ") -> None:
        self.objects: dict[str, Json] = {}
        self._room = room
        self._broken = broken
        self._watches: dict[str, queue.Queue[tuple[str, Json] | None]] = {}

    def get(self, path: str, **_: Any) -> Json:
        if path in self.objects:
            return self.objects[path]
        plural = path.rpartition("/")[2]
        items = [it for key, it in self.objects.items() if f"/{plural}/" in key]
        return {"items": items, "metadata": {"resourceVersion": "1"}}

    def create(self, path: str, body: Json) -> Json:
        name, plural = body["metadata"]["name"], path.rpartition("/")[2]
        made = body | {"metadata": body["metadata"] | {"uid": name}}
        if plural == "nodes":
            made["status"] = READY
        if plural == "pods":
            made["metadata"]["namespace"] = path.split("/")[4]
            if self._room > 0:
                made["spec"]["nodeName"] = "somewhere"
                self._room -= 1
        self.objects[f"{path}/{name}"] = made
        self._tell(plural, "ADDED", made)
        return made

    def delete(self, path: str, **_: Any) -> None:
        if self._broken in path:
            raise ApiException(500, "broken")
        labels = path.partition("%3D")[2]
        for key, each in list(self.objects.items()):
            plural = key.split("/")[-2]
            of_gang = labels and each["metadata"].get("labels", {}).get("gang-conformance/gang")
            if key == path or (of_gang and of_gang == labels):
                self._tell(plural, "DELETED", self.objects.pop(key))

    def watch(self, path: str, *_: Any, **__: Any) -> Iterator[tuple[str, Json]]:
        events = self._watches[path] = queue.Queue()
        for each in self.get(path)["items"]:
            yield "ADDED", each
        with contextlib.suppress(queue.Empty):  # servers end watches, too
            while event := events.get(timeout=1):
                yield event

    def _tell(self, plural: str, kind: str, raw: Json) -> None:
        if events := self._watches.get(f"/api/v1/{plural}"):
            events.put((kind, raw))

    def left(self) -> list[str]:
        return [path for path in self.objects if "/nodes/" in path or path.count("/") == 4]


def play(
    cluster: InMemory, *steps: Mapping[str, Any], kill: str = "", needs: Sequence[Any] = (),
    **limits: float,
) -> Result:  # fmt: skip
    start = [Step(nodes=[Nodes(cpu=9)])]
    scenario = Scenario(
        name="it", title="", outcome="", needs=frozenset(needs),
        steps=[*start, *(Step(**step) for step in steps)],
    )  # fmt: skip
    times = Limits(**({"patience": 20, "quiet": 0.1} | limits))
    adapter = ADAPTERS["kueue"]  # its gangs have no objects
    made = Runner(
        cluster=cast("Cluster", cluster), adapter=adapter, scheduler="x", kill=kill, limits=times
    )
    return made.run(scenario)


def test_a_state_that_comes_to_rest_is_settled_and_nothing_is_left() -> None:
    cluster = InMemory(room=4)
    result = play(cluster, {"gangs": [FOUR]}, {"settles": {"gang": 4}})
    assert (result.outcome, result.findings, cluster.left()) == ("passed", [], [])


def test_a_state_that_does_not_come_to_rest_in_time_is_not_reached_and_not_settled() -> None:
    result = play(
        InMemory(room=4), {"gangs": [FOUR]}, {"settles": {"gang": 4}}, patience=5, quiet=600
    )
    assert [finding.check for finding in result.findings] == ["progress"]
    assert not any(isinstance(event, Settled) for event in result.history)


def test_a_wrong_state_at_rest_is_judged_as_settled() -> None:
    result = play(InMemory(room=3), {"gangs": [FOUR]}, {"settles": {"gang": 4}}, patience=5)
    assert {finding.check for finding in result.findings} >= {"progress", "half"}


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"remove_placed": True}, "StageError: no gang is placed, so none can be removed"),
        ({"lose_node_of": "gang"}, "StageError: no pod of gang is placed"),
    ],
)
def test_a_step_that_cannot_be_played_is_an_error_of_its_scenario(
    step: Mapping[str, Any], says: str
) -> None:
    cluster = InMemory()
    result = play(cluster, {"gangs": [FOUR]}, step)
    assert result.outcome == "error"
    assert result.note.startswith(says)
    assert cluster.left() == []


def test_nodes_and_namespace_are_removed_even_if_pods_cannot_be() -> None:
    cluster = InMemory(room=4, broken="/pods?")
    result = play(cluster, {"gangs": [FOUR]}, {"settles": {"gang": 4}})
    assert (result.outcome, result.note) == (
        "error", "the cleanup failed: ApiException: (500) Reason: broken",
    )  # fmt: skip
    assert cluster.left() == []


@pytest.mark.parametrize(
    ("kill", "says"),
    [("echo no such pod >&2; exit 3", "no such pod"), ("exec sleep 600", "timed out after")],
)
def test_a_scheduler_that_cannot_be_killed_is_an_error_of_its_scenario(
    kill: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_KILL_SECONDS", 1)
    result = play(InMemory(), {"kill_scheduler": True}, kill=kill, needs=["kill"])
    assert result.outcome == "error"
    assert says in result.note


def test_the_scheduler_is_not_killed_at_a_moment_that_never_comes(tmp_path: Path) -> None:
    file = tmp_path / "killed"
    result = play(
        InMemory(room=2), {"kill_at": 3}, {"gangs": [FOUR]}, {"places": 3},
        kill=f"touch {file}", needs=["kill"], patience=5,
    )  # fmt: skip
    for thread in threading.enumerate():
        if thread.name == "kill":
            thread.join()
    assert result.outcome == "failed"
    assert not file.exists()
