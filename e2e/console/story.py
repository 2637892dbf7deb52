"""The story of the screenshots: the demo's workloads on the embedded cluster."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from cli.config.config import File
from cli.demo.demo import RACK, example, node
from cli.servers.console_service import settings_of
from console.serving.serving import Console, local
from e2e.harness.environment import Environment
from e2e.harness.groups import remove_finalizers
from e2e.harness.objects import POD_GROUPS, of_jobset, pod, pod_group
from kube.client.client import Client
from kube.client.patch import PatchBuilder
from kube.client.resources import JOBSETS, NODES, PODS, PRIORITY_CLASSES

BLOCK: Final = "topology.example/block"
TRAINING: Final = "default/JobSet/training"
"""The gang of 16 that waits for one pod."""
URGENT: Final = "urgent"
"""The gang that preempts another, and its PriorityClass."""
HOLD: Final = "test.muster.dev/hold"


@dataclass(frozen=True, slots=True)
class Story:
    """The cluster and its console."""

    env: Environment
    console: Console

    async def nodes(self, blocks: int, racks: int, nodes: int) -> None:
        """Create nodes node-B-R-N, each with capacity for five pods of the examples."""
        for block in range(1, blocks + 1):
            for rack in range(1, racks + 1):
                for number in range(1, nodes + 1):
                    await self.node(block, rack, number)

    async def node(self, block: int, rack: int, number: int) -> None:
        """Create one node."""
        made = node(f"node-{block}-{rack}-{number}", f"rack-{block}-{rack}")
        made["metadata"]["labels"][BLOCK] = f"block-{block}"
        await self.env.client.create(NODES, made)

    async def waits(self) -> None:
        """Run three gangs, one in one rack. One more lacks a slot, one nodes, and one pods."""
        env = self.env
        urgent = {"metadata": {"name": URGENT}, "value": 1000}
        await env.client.create(PRIORITY_CLASSES, urgent)
        await self.nodes(2, 2, 3)
        cordoned = PatchBuilder().add("/spec", {"unschedulable": True})
        await env.client.patch(NODES, "node-2-2-3", cordoned)
        for name in ("bert", "llama"):
            await self._jobset("jobset-gang.yaml", name)
        await env.create(JOBSETS, example("jobset-one-rack.yaml"))
        for name, pods in (("bert", 16), ("llama", 16), ("one-rack", 8)):
            await env.runs(of_jobset(name), pods)
        await env.create(JOBSETS, example("jobset-gang.yaml"))
        await env.waits("pg-training", needed=16, free=15)
        await env.create(JOBSETS, example("jobset-too-big.yaml"))
        await env.waits("pg-too-big", needed=64, impossible=True)
        await env.create(POD_GROUPS, pod_group("fine-tune", 4))
        await env.create(PODS, pod("fine-tune-0", "", group="fine-tune"))

    async def preempts(self) -> None:
        """Create a gang of high priority. Finalizers keep the pods that it evicts terminating."""
        kept = PatchBuilder().add("/metadata/finalizers", [HOLD])
        for each in await self.env.pods():
            if each["spec"].get("nodeName"):
                await self.env.client.patch(PODS, each["metadata"]["name"], kept, self.env.name)
        await self._jobset("jobset-gang.yaml", URGENT, priorityClassName=URGENT)

    async def starts(self) -> None:
        """Let the evicted pods end, and add nodes for the gangs that wait."""
        await remove_finalizers(self.env, "")
        await self.env.runs(of_jobset(URGENT), 16)
        for rack in (1, 2):
            for number in (4, 5):
                await self.node(2, rack, number)
        await self.env.runs(of_jobset("training"), 16)

    async def _jobset(self, file: str, name: str, **of_pod: Any) -> None:
        made = example(file)
        made["metadata"]["name"] = name
        for job in made["spec"]["replicatedJobs"]:
            job["template"]["spec"]["template"]["spec"] |= of_pod
        await self.env.create(JOBSETS, made)


@asynccontextmanager
async def begun(env: Environment) -> AsyncIterator[Story]:
    """Open a console on a cluster without nodes."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            await Client.connect(env.cluster.kubeconfig, user_agent="muster-console")
        )
        console = await stack.enter_async_context(local(client, settings_of(File(), (BLOCK, RACK))))
        await console.cluster.wait()
        yield Story(env, console)
