"""Priority classes of a flow."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from e2e.harness.environment import Environment
from e2e.harness.objects import POD_GROUPS, Json, pod_group
from kube.base.errors import Forbidden
from kube.client.resources import PRIORITY_CLASSES


@asynccontextmanager
async def known_class(env: Environment, name: str, value: int) -> AsyncIterator[str]:
    """Create a priority class of the flow and yield its full name once the webhook knows it."""
    full = f"{env.name}-{name}"
    await env.client.create(PRIORITY_CLASSES, {"metadata": {"name": full}, "value": value})
    await class_is_known(env, full)
    yield full
    await env.client.delete(PRIORITY_CLASSES, full)


async def class_is_known(env: Environment, name: str) -> None:
    """Wait until the webhook knows a priority class."""
    asking: Json = pod_group(name, 1)
    asking["spec"]["priorityClassName"] = name

    async def known() -> bool:
        try:
            await env.create(POD_GROUPS, asking)
        except Forbidden:
            return False
        return True

    await env.until("the class to be known", known)
    await env.delete(POD_GROUPS, name)
