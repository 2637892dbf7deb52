"""The condition DisruptionTarget: one request where the pod is known, and never a second one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from kube.errors import Conflict
from kube.meta import Json
from kube.patch import Operation, PatchBuilder
from kube.resources import PODS, Resource
from localcluster.patch import json_patch
from scheduler.core.model import PodInfo, Requirements
from scheduler.disruption_marks import DisruptionMarks
from tests.support.clock import FakeClock

READY: Json = {"type": "Ready", "status": "True"}
SPARED: Json = {"type": "DisruptionTarget", "status": "False"}


@dataclass
class OnePod:
    """An API server with one pod."""

    conditions: list[Json] | None
    version: str = "7"
    uid: str = "u"
    requests: list[str] = field(default_factory=list)

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        assert (resource, name, namespace) == (PODS, "pod", "ns")
        self.requests.append("get")
        return self._object()

    async def patch(
        self,
        resource: Resource,
        name: str,
        ops: PatchBuilder | Sequence[Operation],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Json:
        assert (resource, name, namespace, subresource) == (PODS, "pod", "ns", "status")
        self.requests.append("patch")
        patched: Json = json_patch(self._object(), list(ops))
        if patched["metadata"]["resourceVersion"] != self.version:
            raise Conflict(409, "Conflict", "it changed")
        self.conditions = patched["status"]["conditions"]
        return patched

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        raise AssertionError("nothing is deleted here")

    def _object(self) -> Json:
        meta = {"uid": self.uid, "resourceVersion": self.version}
        status = {} if self.conditions is None else {"conditions": [*self.conditions]}
        return {"metadata": meta, "status": status}

    def targets(self) -> list[str]:
        found = self.conditions or []
        return [each["status"] for each in found if each["type"] == "DisruptionTarget"]


KNOWN = PodInfo("u", "ns", "pod", Requirements(), node="n", version="7")


async def mark(server: OnePod, info: PodInfo) -> None:
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
    conditions: list[Json] | None, said: str
) -> None:
    server = OnePod(conditions)

    await mark(server, replace(KNOWN, conditions=said))  # type: ignore[arg-type]

    assert server.requests == ["patch"]
    assert server.targets() == ["True"]
    assert (server.conditions or [])[:-1] == (conditions or [])


async def test_a_pod_that_changed_since_is_read_first_and_keeps_what_it_says() -> None:
    server = OnePod([READY], version="8")

    await mark(server, KNOWN)

    assert server.requests == ["patch", "get", "patch"]
    assert server.targets() == ["True"]
    assert READY in (server.conditions or [])


async def test_a_pod_with_the_condition_gets_no_second_one() -> None:
    """The server would keep both: only the last delivery knows."""
    server = OnePod([SPARED, READY])

    await mark(server, replace(KNOWN, conditions="target"))

    assert server.targets() == ["True"]


async def test_another_pod_of_the_name_is_not_marked() -> None:
    server = OnePod([READY], version="8", uid="another")

    await mark(server, replace(KNOWN, conditions="some"))

    assert server.targets() == []


async def test_a_pod_that_was_never_delivered_is_read_first() -> None:
    server = OnePod([READY])

    await mark(server, replace(KNOWN, version=""))

    assert server.requests == ["get", "patch"]
