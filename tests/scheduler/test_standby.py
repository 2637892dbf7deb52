"""A scheduler without the lease keeps no state of deleted objects."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable

from controllers.cache.objects import POD_GROUPS
from kube.base.settings import LeaderElection
from kube.client.resources import LEASES, NODES, PODS
from scheduler.app import Scheduler
from scheduler.support.config import Config
from tests.support.builders import make_node, make_pod
from tests.support.clock import settle
from tests.support.growth import kept_by
from tests.support.memory_api import MemoryApi


async def test_nothing_is_kept_of_objects_that_come_and_go() -> None:
    api = MemoryApi()
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 1_000_000, "leaseTransitions": 1}
    api.put(LEASES, {"metadata": {"name": "muster-scheduler"}, "spec": spec}, "muster-system")
    scheduler, stop = Scheduler(api, Config(), LeaderElection()), asyncio.Event()
    task = asyncio.ensure_future(scheduler.run(stop))

    async def kept(waves: range) -> Counter[str]:
        for number in waves:
            await wave(api, scheduler, number)
        return kept_by(scheduler, without=(api,))

    try:
        await scheduler._informers.wait()
        before = await kept(range(5))
        after = await kept(range(5, 25))
    finally:
        stop.set()
        await task
        gc.unfreeze()

    assert after - before == Counter()


async def wave(api: MemoryApi, scheduler: Scheduler, number: int) -> None:
    """Create a node, a gang and its pods, all with unique names, labels and requests."""
    own, namespace = f"x{number}", f"ns{number}"
    # Classes of equal taints are cached up to a limit, so there are few of them.
    api.put(NODES, make_node(own).label(own, own).taint(f"t{number % 3}").build())
    gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    api.put(POD_GROUPS, {"metadata": {"name": own}, "spec": gang}, namespace)
    for each, node in (("waits", ""), ("runs", own)):
        pod = make_pod(f"{each}{number}", namespace).in_group(own).cpu(f"{number + 1}m")
        pod.label(own, each).node_selector(own, own).tolerates(own)
        api.put(PODS, (pod.bound_to(node) if node else pod).build(), namespace)
    await until(lambda: len(scheduler.state.pods) == 2 and len(scheduler.state.nodes.row_of) == 1)
    for resource in (PODS, POD_GROUPS, NODES):
        for obj in api.all(resource):
            api.drop(resource, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
    await until(lambda: not scheduler.state.pods and not scheduler.state.nodes.row_of)


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        await settle()
    raise AssertionError("the caches do not follow")
