"""The examples of the workloads in docs, and the deletion of their groups."""

import copy
from collections.abc import Sequence
from pathlib import Path

import yaml

from api.constants import ANNOTATION_WAITING_FOR, SCHEDULER_NAME
from e2e.harness.environment import Environment
from e2e.harness.objects import NODE_LABEL, POD_GROUPS
from kube.client.meta import Json
from kube.client.resources import JOBS, PODS, STATEFUL_SETS, Resource

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
_KINDS = {it.kind: it for it in (JOBS, PODS, STATEFUL_SETS)}


def executors(obj: Json) -> tuple[int, Json]:
    """Return the number of executors of a SparkApplication, and the template of their pods."""
    spec = obj["spec"]["executor"]
    requests = {"requests": {"cpu": str(spec["cores"])}}
    container = {"name": "executor", "image": obj["spec"]["image"], "resources": requests}
    meta = {"labels": spec["labels"], "annotations": spec["annotations"]}
    return spec["instances"], {"metadata": meta, "spec": {"containers": [container]}}


async def runs_as_pods(env: Environment, example: str) -> None:
    """Create the pods that the kind's own controller would create: they wait and run together."""
    (obj,) = yaml.safe_load_all((EXAMPLES / f"{example}.yaml").read_text())
    count, template = executors(obj)
    await env.add_node(cpu=count)
    for at in range(count):
        if at == count - 1:
            await env.grouped("ring")
            assert await env.bound() == 0
        pod = copy.deepcopy(template)
        pod["metadata"]["name"] = f"ring-{at}"
        pod["spec"]["nodeSelector"] = {NODE_LABEL: env.name}
        await env.create(PODS, pod)
    await env.scheduled("ring")
    spec = (await env.group("ring"))["spec"]
    assert spec["schedulingPolicy"]["gang"]["minCount"] == count
    await env.delete_pods()
    await env.gone(POD_GROUPS, "ring")


async def ended(env: Environment) -> None:
    """Wait until no pod is left."""

    async def probe() -> bool:
        return not await env.pods()

    await env.until("the pods to be gone", probe)


async def runs(env: Environment, example: str, groups: Sequence[str]) -> None:
    """Check that Muster places the example, and that its groups are deleted with it."""
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
        await env.gone(POD_GROUPS, name)


async def reports(env: Environment, kind: Resource, name: str, words: str) -> None:
    """Wait until the object reports that it waits for `words`; nothing, if these are empty."""

    async def probe() -> bool:
        found = await env.client.get(kind, name, env.name)
        text = (found["metadata"].get("annotations") or {}).get(ANNOTATION_WAITING_FOR, "")
        return words in text if words else not text

    await env.until(f"{kind.kind} {name} to report {words or 'nothing'}", probe)
