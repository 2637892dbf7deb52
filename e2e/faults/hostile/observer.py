"""Observers that follow objects with watches of their own, and record violated invariants."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from e2e.faults.hostile.inventory import Key, counts, ended, group_of, node_of, requested
from e2e.harness.objects import Json
from e2e.harness.support.rest import Rest

_PODS = "/api/v1/pods"
_LOST = (aiohttp.ClientError, OSError, EOFError, AssertionError, ValueError)


class Follower:
    """A watch of its own on all objects at a path, listed again whenever it breaks."""

    def __init__(self, kubeconfig: Path, path: str) -> None:
        self._kubeconfig = kubeconfig
        self._path = path

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        while True:
            with contextlib.suppress(*_LOST):
                async with Rest.open(self._kubeconfig) as rest:
                    await self._follow(rest)
            await asyncio.sleep(0.1)

    def begin(self, objects: Sequence[Json]) -> None:
        """Process a list of all objects."""
        raise NotImplementedError

    def see(self, obj: Json) -> None:
        """Process the current state of an object."""
        raise NotImplementedError

    def forget(self, uid: str) -> None:
        """Process the deletion of an object."""
        raise NotImplementedError

    async def _follow(self, rest: Rest) -> None:
        page = (await rest.get(self._path, timeout=10)).ok()
        self.begin(page["items"])
        version = page["metadata"]["resourceVersion"]
        async with rest.watch(self._path, {"resourceVersion": version}) as watch:
            while True:
                event = await watch.next(timeout=3600)
                if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
                    return
                if event["type"] == "DELETED":
                    self.forget(event["object"]["metadata"]["uid"])
                else:
                    self.see(event["object"])


class Observer(Follower):
    """Observer; `wrongs` has a line for each pod with a second node or on an overcommitted node.

    `capacity` is every node's, in millicores. `bound` counts Bindings.
    """

    def __init__(self, kubeconfig: Path, capacity: int) -> None:
        super().__init__(kubeconfig, _PODS)
        self.wrongs: list[str] = []
        self.bound = 0
        self._capacity = capacity
        self._nodes: dict[str, str] = {}  # by UID
        self._pods: dict[str, Json] = {}  # by UID
        self._peaks: dict[Key, int] = defaultdict(int)

    def peak(self, group: Key) -> int:
        """Return the maximum number of the group's pods that had a node at the same time."""
        return self._peaks[group]

    def rewind(self) -> None:
        """Forget the nodes of pods: the data of the cluster are those of an earlier moment."""
        self._nodes.clear()

    def begin(self, objects: Sequence[Json]) -> None:
        self._pods = {pod["metadata"]["uid"]: pod for pod in objects}
        for pod in objects:
            self._note(pod)

    def forget(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def see(self, obj: Json) -> None:
        self._pods[obj["metadata"]["uid"]] = obj
        if self._note(obj):
            self._check_room(obj)

    def _note(self, pod: Json) -> bool:
        """Record the pod's node; return True if it is new."""
        node, uid = node_of(pod), pod["metadata"]["uid"]
        if node is None:
            return False
        new = uid not in self._nodes
        if new:
            self.bound += 1
            self._nodes[uid] = node
        elif self._nodes[uid] != node:
            name = pod["metadata"]["name"]
            self.wrongs.append(f"pod {name} was bound to {self._nodes[uid]}, then to {node}")
        if (key := group_of(pod)) is not None:
            together = sum(
                group_of(each) == key and node_of(each) is not None and counts(each)
                for each in self._pods.values()
            )
            self._peaks[key] = max(self._peaks[key], together)
        return new

    def _check_room(self, pod: Json) -> None:
        node = node_of(pod)
        there = [each for each in self._pods.values() if node_of(each) == node and not ended(each)]
        used = sum(map(requested, there))
        if used > self._capacity:
            name = pod["metadata"]["name"]
            self.wrongs.append(f"pod {name} was bound to {node}, which then had {used}m CPU asked")
