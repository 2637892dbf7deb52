"""Queries and changes for the flows of the controllers, in addition to `Environment`."""

from collections.abc import Mapping
from typing import Any

from e2e.harness.environment import Environment
from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, Json
from kube.client.resources import EVENTS, Resource


async def change(env: Environment, resource: Resource, name: str, **spec: Any) -> None:
    ops = [{"op": "add", "path": f"/spec/{key}", "value": value} for key, value in spec.items()]
    await env.client.patch(resource, name, ops, env.name)


async def names(env: Environment, resource: Resource) -> list[str]:
    return sorted(it["metadata"]["name"] for it in await items(env, resource))


async def items(env: Environment, resource: Resource) -> list[Json]:
    found: list[Json] = (await env.client.list(resource, env.name))["items"]
    return found


async def uids(env: Environment) -> Mapping[str, str]:
    groups = [*await items(env, POD_GROUPS), *await items(env, COMPOSITE_POD_GROUPS)]
    return {it["metadata"]["name"]: it["metadata"]["uid"] for it in groups}


async def wait_for_objects(env: Environment, resource: Resource, *wanted: str) -> None:
    """Wait until exactly these objects exist, none of them being deleted."""

    async def probe() -> bool:
        there = await items(env, resource)
        living = [it for it in there if "deletionTimestamp" not in it["metadata"]]
        found = sorted(it["metadata"]["name"] for it in there)
        return found == sorted(wanted) and len(living) == len(there)

    await env.until(f"{resource.plural} to be {wanted}", probe)


async def min_count_is(env: Environment, name: str, count: int) -> None:
    """Wait until a group has this minCount."""

    async def probe() -> bool:
        policy = (await env.group(name))["spec"].get("schedulingPolicy")
        return bool(policy == {"gang": {"minCount": count}})

    await env.until(f"{name} to need {count}", probe)


async def event_reasons(env: Environment, kind: str, name: str) -> list[str]:
    return [
        it["reason"]
        for it in await items(env, EVENTS)
        if (it["involvedObject"]["kind"], it["involvedObject"]["name"]) == (kind, name)
        and it.get("source", {}).get("component", "").startswith("muster")
    ]
