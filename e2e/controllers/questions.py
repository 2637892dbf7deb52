"""What the flows of the controllers ask and do beside the stage."""

from collections.abc import Mapping
from typing import Any

from e2e.suite.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, Json
from e2e.suite.stage import Stage
from kube.resources import EVENTS, Resource


async def change(stage: Stage, resource: Resource, name: str, **spec: Any) -> None:
    ops = [{"op": "add", "path": f"/spec/{key}", "value": value} for key, value in spec.items()]
    await stage.client.patch(resource, name, ops, stage.name)


async def names(stage: Stage, resource: Resource) -> list[str]:
    return sorted(it["metadata"]["name"] for it in await items(stage, resource))


async def items(stage: Stage, resource: Resource) -> list[Json]:
    found: list[Json] = (await stage.client.list(resource, stage.name))["items"]
    return found


async def uids(stage: Stage) -> Mapping[str, str]:
    groups = [*await items(stage, POD_GROUPS), *await items(stage, COMPOSITE_POD_GROUPS)]
    return {it["metadata"]["name"]: it["metadata"]["uid"] for it in groups}


async def have(stage: Stage, resource: Resource, *wanted: str) -> None:
    """Wait until there are exactly these, none of them being deleted."""

    async def probe() -> bool:
        there = await items(stage, resource)
        living = [it for it in there if "deletionTimestamp" not in it["metadata"]]
        found = sorted(it["metadata"]["name"] for it in there)
        return found == sorted(wanted) and len(living) == len(there)

    await stage.until(f"{resource.plural} to be {wanted}", probe)


async def event_reasons(stage: Stage, kind: str, name: str) -> list[str]:
    return [
        it["reason"]
        for it in await items(stage, EVENTS)
        if (it["involvedObject"]["kind"], it["involvedObject"]["name"]) == (kind, name)
        and it.get("source", {}).get("component", "").startswith("muster")
    ]
