"""`/api/fit` of the console in the cluster says before what the scheduler does afterwards."""

import ssl
from contextlib import AsyncExitStack
from typing import Any

import aiohttp

from console.serving.serving import Console
from e2e.flows.clients.test_console_tenants import POD_GROUPS, Tenant, own_access, served
from e2e.harness.environment import Environment
from e2e.harness.objects import Json, job
from e2e.harness.support import accounts
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.accounts import Account, rule
from e2e.kubernetes.apiserver.objects import Namespace
from kube.client.resources import JOBS

__all__ = ["own_access", "served"]


async def user_of(
    stack: AsyncExitStack, env: Environment, rest: Rest, served: tuple[Console, ssl.SSLContext]
) -> Tenant:
    """Return a user who sees the namespace and may create Jobs there, logged in."""
    ns = Namespace(env.name)
    (await rest.post(ns.core("serviceaccounts"), {"metadata": {"name": "user"}})).expect(201)
    token = await accounts.token(rest, env.name, "user")
    own = await stack.enter_async_context(Rest(rest.access, token=token))
    account = Account(rest, own, ns, "user")
    lists = (rule("", "pods", "list"), rule(POD_GROUPS.group, "podgroups", "list"))
    await account.may(*lists, rule("batch", "jobs", "create"))

    async def may_list() -> bool:
        return await account.allowed(ns.pods())

    await eventually(may_list, "the user's rights", timeout=60)
    console, trust = served
    http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust))
    await stack.enter_async_context(http)
    user = Tenant(account, token, http, f"https://localhost:{console.port}")
    assert await user.log_in(token) == 200
    return user


async def ask(user: Tenant, namespace: str, *objects: Json) -> tuple[int, Any]:
    workloads = [{"objects": [each]} for each in objects]
    body = {"workloads": workloads, "namespace": namespace}
    headers = {"Origin": user.url}
    async with user.http.post(f"{user.url}/api/fit", json=body, headers=headers) as response:
        return response.status, await response.json()


async def test_the_answer_is_what_the_scheduler_does(
    env: Environment, rest: Rest, served: tuple[Console, ssl.SSLContext]
) -> None:
    node = await env.add_node(cpu=4)
    console, _ = served

    async def known() -> bool:
        return node in console.cluster.state.nodes.row_of

    await eventually(known, "the node in the console", timeout=60)
    small, large = job("small", env.name, pods=3), job("large", env.name, pods=5)
    async with AsyncExitStack() as stack:
        user = await user_of(stack, env, rest, served)
        status, answer = await ask(user, env.name, small, large)
        assert status == 200, answer
        fits, waits = (each["roots"][0] for each in answer["workloads"])
        assert (fits["fits"], fits["pods"], fits["nodes"]) == ("now", 3, None)
        assert waits["fits"] == "no"
        assert (await ask(user, "default", small))[0] == 403

        await env.create(JOBS, large)
        blocker = await env.waits("pg-job-large", needed=5, free=4)
        assert blocker["summary"] == waits["sentence"]
        await env.create(JOBS, small)
        await env.runs("batch.kubernetes.io/job-name=small", 3)
        # The scheduler corrects what it said a few seconds before.
        await env.waits("pg-job-large", needed=5, free=1)
