"""The condition DisruptionTarget: one request for a known pod, and never a second one."""

from typing import Literal

import pytest

from kube.client.meta import Json
from kube.client.resources import PODS
from scheduler.core.values.model import PodInfo, Requirements
from scheduler.preemption.disruption_target import DisruptionMarks
from scheduler.support.kinds import GROUPS
from tests.support.clock import FakeClock
from tests.support.memory_api import MemoryApi

POD: Json = {"metadata": {"name": "pod"}, "spec": {}}
READY: Json = {"type": "Ready", "status": "True"}
SPARED: Json = {"type": "DisruptionTarget", "status": "False"}


class Server(MemoryApi):
    """API server with one pod."""

    def __init__(self, conditions: list[Json] | None) -> None:
        super().__init__()
        status: Json = {} if conditions is None else {"conditions": conditions}
        self._made = self.put(PODS, POD | {"status": status}, "ns")

    def known(self, conditions: Literal["", "some", "target"] = "some") -> PodInfo:
        """Return the pod as a watch delivers it now, with these conditions."""
        meta = self._made["metadata"]
        version = self.all(PODS)[0]["metadata"]["resourceVersion"]
        return PodInfo(
            meta["uid"], "ns", "pod", Requirements(), version=version, conditions=conditions
        )

    def now(self) -> list[Json]:
        """Return its conditions."""
        (pod,) = self.all(PODS)
        found: list[Json] = pod["status"].get("conditions") or []
        return found

    def targets(self) -> list[str]:
        return [each["status"] for each in self.now() if each["type"] == "DisruptionTarget"]

    @property
    def requests(self) -> list[str]:
        return [each.verb for each in self.sent]


async def mark(server: Server, info: PodInfo) -> None:
    await DisruptionMarks(server, FakeClock()).set_pod(info, "muster-scheduler: preempted")


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        pytest.param([READY], "some", id="beside others"),
        pytest.param([], "", id="none so far"),
        pytest.param(None, "", id="no list so far"),
    ],
)
async def test_a_pod_that_is_as_it_was_delivered_takes_one_request(
    conditions: list[Json] | None, said: Literal["", "some"]
) -> None:
    server = Server(conditions)

    await mark(server, server.known(said))

    assert server.requests == ["patch"]
    assert server.targets() == ["True"]
    assert server.now()[:-1] == (conditions or [])


async def test_a_pod_that_changed_since_is_read_first_and_keeps_what_it_says() -> None:
    server = Server(None)
    known = server.known("")
    server.change(PODS, "pod", {"status": {"conditions": [READY]}}, "ns")

    await mark(server, known)

    assert server.requests == ["patch", "get", "patch"]
    assert server.targets() == ["True"]
    assert READY in server.now()


async def test_a_pod_with_the_condition_gets_no_second_one() -> None:
    """The server would keep both: only the cached object shows it."""
    server = Server([SPARED, READY])

    await mark(server, server.known("target"))

    assert server.targets() == ["True"]


async def test_another_pod_of_the_name_is_not_marked() -> None:
    server = Server([READY])
    known = server.known()
    server.remove(PODS, "pod", "ns")
    server.put(PODS, POD | {"status": {}}, "ns")

    await mark(server, known)

    assert server.targets() == []


async def test_a_pod_that_was_never_delivered_is_read_first() -> None:
    server = Server([READY])
    known = server.known()

    await mark(server, PodInfo(known.uid, "ns", "pod", Requirements()))

    assert server.requests == ["get", "patch"]


GROUP: Json = {"metadata": {"name": "g"}, "spec": {}}
OURS: Json = {
    "type": "DisruptionTarget",
    "status": "True",
    "message": "muster-scheduler: preempted",
    "lastTransitionTime": "2020-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("before", "kept"), [("True", True), ("False", False)], ids=["marked", "spared"]
)
async def test_a_group_is_a_target_since_it_was_none(before: str, kept: bool) -> None:
    server, groups = MemoryApi(), GROUPS["PodGroup"]
    server.put(groups, GROUP | {"status": {"conditions": [OURS | {"status": before}]}}, "ns")

    await DisruptionMarks(server, FakeClock()).set_group(groups, "ns", "g", "again")

    (now,) = server.all(groups)[0]["status"]["conditions"]
    assert (now["status"], now["message"]) == ("True", "again")
    assert (now["lastTransitionTime"] == OURS["lastTransitionTime"]) == kept


@pytest.mark.parametrize(
    ("said", "uid", "cleared"),
    [
        pytest.param(OURS, "", True, id="our mark"),
        pytest.param(OURS, "another", False, id="of another pod of its name"),
        pytest.param(OURS | {"message": "taint"}, "", False, id="of somebody else"),
        pytest.param(OURS | {"status": "False"}, "", False, id="taken back already"),
    ],
)
async def test_only_our_mark_of_this_very_pod_is_taken_back(
    said: Json, uid: str, cleared: bool
) -> None:
    server = Server([said])
    marks = DisruptionMarks(server, FakeClock())

    await marks.clear(PODS, "ns", "pod", uid or server.known().uid)

    assert (server.now() != [said]) == cleared
