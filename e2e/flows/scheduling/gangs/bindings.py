"""Every Binding of a test's pods, from a watch."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from e2e.harness.environment import Environment
from kube.client.meta import Key, RawObject, decode_raw
from kube.client.resources import PODS
from kube.informers.reflector import Reflector


@dataclass(slots=True)
class Bindings:
    """The node of each pod by UID; `twice` are pods observed on two nodes."""

    nodes: dict[str, str] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)

    def upsert(self, pod: RawObject) -> None:
        node = pod.raw["spec"].get("nodeName")
        uid = pod.metadata.uid
        if node and self.nodes.setdefault(uid, node) != node:
            self.twice.append(pod.metadata.name)

    def delete(self, key: Key) -> None:
        """Keep the record of a deleted pod."""

    @classmethod
    @asynccontextmanager
    async def followed(cls, env: Environment) -> AsyncIterator["Bindings"]:
        """Follow the pods of the environment inside the block."""
        bindings = cls()
        reflector = Reflector(env.client, PODS, bindings, decode=decode_raw, namespace=env.name)
        task = asyncio.ensure_future(reflector.run())
        try:
            await reflector.synced.wait()
            yield bindings
        finally:
            task.cancel()
            await asyncio.wait({task})
