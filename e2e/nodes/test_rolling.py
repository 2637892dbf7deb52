"""Muster's processes end and others take over, while users create gangs."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.waiting import eventually
from e2e.nodes.installation import NAMESPACE, are_spread, pods, restarted, rolled_out
from e2e.nodes.tenant import Tenant, job

_LEASE = "muster-scheduler"
_PREFIX = "load-"
"""The names of its Jobs begin with this."""
_PAUSE = 0.1
"""Seconds between two Jobs of the load."""
_REAL = 50
"""One in so many is no dry run."""


class Load:
    """Jobs that a user creates one after the other; `refused` has what the API server said.

    Most are dry runs, which the webhook sees as others: containers cost more than requests.
    """

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self.created = 0
        self.refused: list[str] = []

    async def create(self) -> None:
        """Create small gangs until cancelled."""
        path = f"/apis/batch/v1/namespaces/{self._tenant.name}/jobs"
        while True:
            body = job(f"{_PREFIX}{self.created}", 2, cpu="10m", command=("true",))
            body["spec"]["ttlSecondsAfterFinished"] = 0
            params = {} if self.created % _REAL == 0 else {"dryRun": "All"}
            answer = await self._tenant.rest.post(path, body, params=params)
            if answer.status != 201:
                self.refused.append(answer.text)
            self.created += 1
            await asyncio.sleep(_PAUSE)

    async def all_ended(self) -> None:
        """Wait until the last of its Jobs has ended and is deleted."""

        async def none_left() -> bool:
            path = f"/apis/batch/v1/namespaces/{self._tenant.name}/jobs"
            names = [
                it["metadata"]["name"] for it in (await self._tenant.rest.get(path)).ok()["items"]
            ]
            return not any(name.startswith(_PREFIX) for name in names)

        await eventually(none_left, "the Jobs to end", 240)


@asynccontextmanager
async def load(tenant: Tenant) -> AsyncIterator[Load]:
    """Run the load for the duration of the block; no request may be refused, each Job must end."""
    made = Load(tenant)
    task = asyncio.create_task(made.create())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert made.refused == []
    await made.all_ended()


async def test_a_rolling_restart_refuses_no_request(tenant: Tenant, kubectl: Kubectl) -> None:
    async with load(tenant) as made:
        await restarted(kubectl)

    assert made.created > 10
    assert await are_spread(kubectl, tenant.nodes.workers)


async def test_another_scheduler_leads_when_the_leader_is_killed(
    tenant: Tenant, kubectl: Kubectl
) -> None:
    leader = await _leader(kubectl)
    name = leader.partition("_")[0]
    pod = next(it for it in await pods(kubectl) if it["metadata"]["name"] == name)

    tenant.nodes.kill_containers(pod["spec"]["nodeName"], pod["metadata"]["uid"])
    await tenant.apply(job("gang", 4))

    await tenant.running("gang", 4)
    assert await _leader(kubectl) not in ("", leader)
    await rolled_out(kubectl)


async def _leader(kubectl: Kubectl) -> str:
    lease = json.loads(await kubectl("get", "lease", _LEASE, "-n", NAMESPACE, "-o", "json"))
    holder: str = lease["spec"].get("holderIdentity") or ""
    return holder
