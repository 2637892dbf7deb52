"""The path of a pod from its watch line to its Binding: files, functions, changes of file.

   python -m tools.bench.data_path

One scheduler process runs against the embedded cluster, in a thread of its own; only this thread is
profiled. A change of file is a call of a function in another file than that of the call before.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Self

import yaml

from kube.base.settings import LeaderElection
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.resources import CRDS, NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from kube.informers.watching import WatchState
from localcluster.cluster import LocalCluster
from scheduler.app import Scheduler
from scheduler.support.config import Config, Status
from scheduler.support.kinds import GROUPS

ROOT: Final = Path(__file__).parents[2]

COUNTED: Final = tuple(f"{ROOT / name}/" for name in ("api", "kube", "scheduler"))

CONFIG: Final = Config(status=Status(delay_seconds=0.05, pods_seconds=0.2))

ELECTION: Final = LeaderElection(lease_seconds=15, renew_seconds=10, retry_seconds=2)

_LINE: Final = WatchState.feed.__code__
_BINDING: Final = Client.bind.__code__

NAMESPACE: Final = "default"


@dataclass
class Passed:
    """Counts from the watch line of the first of these pods until all are bound."""

    name: str
    pods: int = 1
    functions: set[CodeType] = field(default_factory=set)
    changes: int = 0
    complete: threading.Event = field(default_factory=threading.Event)
    _bound: set[str] = field(default_factory=set)
    _counts: bool = False
    _last: str = ""

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.functions}

    def see(self, frame: FrameType) -> None:
        """Count a call of a function, or the continuation of a coroutine."""
        code = frame.f_code
        if code is _LINE and f'"{self.name}-0"'.encode() in bytes(frame.f_locals["line"]):
            self._counts = not self.complete.is_set()
        if self._counts:
            self.functions.add(code)
            self.changes += code.co_filename != self._last
            self._last = code.co_filename
        if code is _BINDING and frame.f_locals["pod"].startswith(f"{self.name}-"):
            self._bound.add(frame.f_locals["pod"])
            if len(self._bound) == self.pods:
                self._counts = False
                self.complete.set()

    def __str__(self) -> str:
        files = len(self.files)
        return f"{files} files, {len(self.functions)} functions, {self.changes} changes of file"


class Profiled:
    """A scheduler in a thread whose calls `passed` counts."""

    def __init__(self, kubeconfig: Path) -> None:
        self.passed = Passed("")
        self._kubeconfig = kubeconfig
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._main)

    def _main(self) -> None:
        # The profiler applies to the thread that sets it.
        sys.setprofile(self._profile)
        self._loop.run_until_complete(self._run())
        self._loop.close()

    def _profile(self, frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(COUNTED):
            self.passed.see(frame)

    async def _run(self) -> None:
        async with await Client.connect(self._kubeconfig) as client:
            await Scheduler(client, CONFIG, ELECTION).run(self._stop)

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(self._thread.join)


@dataclass
class Stage:
    client: Client
    scheduler: Profiled

    async def passed(self, name: str, pods: int = 1, **spec: Any) -> Passed:
        """Create a gang, or one plain pod, and wait until it is bound."""
        if pods > 1:
            await self.client.create(GROUPS["PodGroup"], _group(name, pods), NAMESPACE)
            await asyncio.sleep(0.5)
        passed = self.scheduler.passed = Passed(name, pods)
        for index in range(pods):
            pod = _pod(f"{name}-{index}", member=pods > 1, **spec)
            await self.client.create(PODS, pod, NAMESPACE)
        await asyncio.to_thread(passed.complete.wait)
        return passed


@contextlib.asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Start one node and a scheduler that has bound a pod."""
    async with LocalCluster() as cluster, await Client.connect(cluster.kubeconfig) as client:
        for path in sorted((ROOT / "manifests" / "crd").glob("*.yaml")):
            await client.create(CRDS, yaml.safe_load(path.read_text()))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}}
        await client.create(NAMESPACES, namespace)
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        status = {"allocatable": amounts, "capacity": amounts}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
        await client.create(NODES, node)
        urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
        await client.create(PRIORITY_CLASSES, urgent | {"metadata": {"name": "urgent"}})
        async with Profiled(cluster.kubeconfig) as scheduler:
            stage = Stage(client, scheduler)
            # The first pod takes code paths that run only once.
            await stage.passed("first")
            yield stage


async def measured() -> dict[str, Passed]:
    """Measure a plain pod, a gang of three, and a pod for which another is evicted."""
    async with stage() as on:
        found = {"plain pod": await on.passed("plain"), "gang of 3": await on.passed("gang", 3)}
        await on.passed("filler", cpu="3")
        found["eviction"] = await on.passed("urgent", cpu="3", priorityClassName="urgent")
        return found


def _group(name: str, pods: int) -> Json:
    kind, policy = GROUPS["PodGroup"], {"gang": {"minCount": pods}}
    return {
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {"name": name}, "spec": {"schedulingPolicy": policy},
    }  # fmt: skip


def _pod(name: str, *, member: bool, cpu: str = "1", **spec: Any) -> Json:
    labels = {"scheduling.muster.dev/pod-group": name.rpartition("-")[0]} if member else {}
    resources = {"requests": {"cpu": cpu}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedulerName": "muster-scheduler", "terminationGracePeriodSeconds": 0, **spec,
            "containers": [{"name": "c", "image": "none", "resources": resources}],
        },
    }  # fmt: skip


def main() -> None:
    for what, passed in asyncio.run(measured()).items():
        print(f"{what}: {passed}")


if __name__ == "__main__":
    main()
