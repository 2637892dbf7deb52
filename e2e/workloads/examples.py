"""The examples of any workload, and how their groups end."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from api.constants import SCHEDULER_NAME
from e2e.suite.environment import Environment
from kube.errors import NotFound
from kube.resources import JOBS, PODS, STATEFUL_SETS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_KINDS = {it.kind: it for it in (JOBS, PODS, STATEFUL_SETS)}


async def gone(env: Environment, group: str) -> None:
    async def probe() -> bool:
        try:
            await env.group(group)
        except NotFound:
            return True
        return False

    await env.until(f"{group} to be gone", probe)


async def runs(env: Environment, example: str, groups: Sequence[str]) -> None:
    """The example is placed by Muster, and its groups go with it."""
    await env.add_node(cpu=4)
    manifest = (EXAMPLES / f"{example}.yaml").read_text()
    made = [(_KINDS[obj["kind"]], obj) for obj in yaml.safe_load_all(manifest)]
    for kind, obj in made:
        await env.create(kind, obj)

    for name in groups:
        await env.scheduled(name)
    pods = await env.pods()
    assert all(pod["spec"].get("nodeName") for pod in pods)
    assert {pod["spec"]["schedulerName"] for pod in pods} == {SCHEDULER_NAME}

    for kind, obj in made:
        await env.delete(kind, obj["metadata"]["name"])
    for name in groups:
        await gone(env, name)
