"""NodePools for which Karpenter buys nodes, and all the nodes that it bought."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

from e2e.harness.controlplane.karpenter import ZONES
from e2e.harness.objects import NODE_LABEL, Json
from e2e.harness.support.waiting import eventually
from kube.base.errors import AlreadyExists, NotFound
from kube.client.client import Client
from kube.client.meta import RawObject, decode_raw
from kube.client.patch import PatchBuilder
from kube.client.resources import Resource
from kube.informers.cache import Cache
from kube.informers.reflector import Reflector

NODE_POOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
NODE_CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False)
NODE_CLASSES = Resource(
    "karpenter.kwok.sh", "v1alpha1", "kwoknodeclasses", "KWOKNodeClass", namespaced=False
)
POOL_LABEL = "karpenter.sh/nodepool"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
ZONE = "topology.kubernetes.io/zone"

_CLASS = "default"
_MILLICPU = 1000
_RESERVED = 100


@dataclass(frozen=True, slots=True)
class Offer:
    """The nodes that a NodePool may buy: for `size` pods of one CPU, at most `limit` of them."""

    sizes: Sequence[int] = (4,)
    limit: int | None = None
    zones: Sequence[str] = ZONES[:1]
    consolidation: str = "WhenEmpty"

    def spec(self, room: str) -> Json:
        requirements = {
            "node.kubernetes.io/instance-type": [f"c-{size}x-amd64-linux" for size in self.sizes],
            "karpenter.sh/capacity-type": ["on-demand"],
            ZONE: list(self.zones),
        }
        template = {
            "nodeClassRef": {
                "group": NODE_CLASSES.group,
                "kind": NODE_CLASSES.kind,
                "name": _CLASS,
            },
            "expireAfter": "Never",
            "requirements": [
                {"key": key, "operator": "In", "values": values}
                for key, values in requirements.items()
            ],
        }
        spec: Json = {
            "template": {"metadata": {"labels": {NODE_LABEL: room}}, "spec": template},
            # Idle nodes are deleted at once, all of them, so that needless nodes are noticed.
            "disruption": {
                "consolidationPolicy": self.consolidation,
                "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}],
            },
        }
        return spec if self.limit is None else spec | {"limits": self.limits(self.limit)}

    def limits(self, nodes: int) -> Json:
        return {"cpu": f"{nodes * (self.sizes[0] * _MILLICPU + _RESERVED)}m"}


class NodePools:
    """The NodePools of one flow. `bought` are the names of all NodeClaims that they ever had."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pools: dict[str, Offer] = {}
        self._claims: Cache[RawObject] = Cache()
        self._claims.subscribe(self._changed)
        self.bought: set[str] = set()
        self.given_back: set[str] = set()

    @classmethod
    @asynccontextmanager
    async def opened(cls, client: Client) -> AsyncIterator[Self]:
        """Follow the NodeClaims; at the end delete the NodePools, and so their nodes."""
        pools = cls(client)
        await pools._create_class()
        reflector = Reflector(client, NODE_CLAIMS, pools._claims, decode=decode_raw)
        following = asyncio.ensure_future(reflector.run())
        try:
            await reflector.synced.wait()
            yield pools
        finally:
            following.cancel()
            await asyncio.wait({following})
            # After that: the watch's connection closes while these requests are in progress.
            await pools._close()

    async def create(self, name: str, offer: Offer | None = None, *, room: str = "") -> None:
        """Create a NodePool for the pods of the flow `room`, by default of the same name."""
        offer = offer or Offer()
        self._pools[name] = offer
        made = {
            "apiVersion": NODE_POOLS.api_version,
            "kind": NODE_POOLS.kind,
            "metadata": {"name": name},
            "spec": offer.spec(room or name),
        }
        await self._client.create(NODE_POOLS, made)

    @asynccontextmanager
    async def for_others(self, room: str) -> AsyncIterator[Self]:
        """Create a NodePool for other pods during the block, whose nodes are counted separately."""
        async with self.opened(self._client) as others:
            await others.create(room)
            yield others

    async def raise_limit(self, name: str, nodes: int) -> None:
        ops = PatchBuilder().replace("/spec/limits", self._pools[name].limits(nodes))
        await self._client.patch(NODE_POOLS, name, ops)

    async def delete(self, name: str) -> None:
        """Delete it; Karpenter drains its nodes and deletes them."""
        await self._client.delete(NODE_POOLS, name, propagation="Background")

    def held(self) -> int:
        """Return the number of nodes that are bought and neither deleted nor about to be."""
        return len(self.bought - self.given_back)

    async def zones(self) -> set[str]:
        """Return the zones of the nodes, once each of them has one."""
        found: list[str] = []

        async def probe() -> bool:
            nonlocal found
            labels = (claim.raw["metadata"]["labels"] for claim in self._claims.values())
            ours = [each for each in labels if each.get(POOL_LABEL) in self._pools]
            found = [each[ZONE] for each in ours if ZONE in each]
            return len(found) == len(ours)

        await eventually(probe, "all nodes to be in a zone", 30)
        return set(found)

    async def holds(self, nodes: int, timeout: float = 90) -> None:
        """Wait until that many nodes are bought and kept."""

        async def probe() -> bool:
            return self.held() == nodes

        try:
            await eventually(probe, f"{nodes} nodes", timeout)
        except TimeoutError as error:
            raise TimeoutError(
                f"{error}; bought {len(self.bought)}, given back {len(self.given_back)}"
            ) from error

    def _changed(self, _: RawObject | None, new: RawObject | None) -> None:
        if new is None:
            return
        meta = new.raw["metadata"]
        if meta.get("labels", {}).get(POOL_LABEL) not in self._pools:
            return
        self.bought.add(meta["name"])
        if "deletionTimestamp" in meta:
            self.given_back.add(meta["name"])

    async def _create_class(self) -> None:
        made = {
            "apiVersion": NODE_CLASSES.api_version,
            "kind": NODE_CLASSES.kind,
            "metadata": {"name": _CLASS},
        }
        try:
            await self._client.create(NODE_CLASSES, made)
        except AlreadyExists:  # by the flow before
            return

    async def _close(self) -> None:
        for name in self._pools:
            try:
                await self.delete(name)
            except NotFound:  # the flow deleted it
                continue
