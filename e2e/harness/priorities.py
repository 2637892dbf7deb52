"""Priority classes of a flow."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from e2e.harness.environment import Environment
from e2e.harness.objects import POD_GROUPS, Json, pod, pod_group
from kube.base.errors import Forbidden
from kube.client.resources import PODS, PRIORITY_CLASSES, Resource


@asynccontextmanager
async def known_class(env: Environment, name: str, value: int) -> AsyncIterator[str]:
    """Create a priority class of the flow, and yield its full name once it can be used."""
    full = f"{env.name}-{name}"
    await env.client.create(PRIORITY_CLASSES, {"metadata": {"name": full}, "value": value})
    try:
        await class_is_known(env, full)
        yield full
    finally:
        await env.client.delete(PRIORITY_CLASSES, full)


async def class_is_known(env: Environment, name: str) -> None:
    """Wait until the webhook and the API server, which read classes from caches, know this one."""
    for kind, asking in (
        (POD_GROUPS, pod_group(name, 1)),
        (PODS, pod(name, "", scheduler="no")),
    ):
        asking["spec"]["priorityClassName"] = name
        await env.until(f"{name} to be known", partial(_is_accepted, env, kind, asking))
        await env.delete(kind, name)


async def _is_accepted(env: Environment, kind: Resource, obj: Json) -> bool:
    try:
        await env.create(kind, obj)
    except Forbidden:
        return False
    return True
