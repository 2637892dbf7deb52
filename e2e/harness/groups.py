"""Groups and their pods created directly, for flows that Jobs cannot express."""

import contextlib
from typing import Any

from api.constants import LABEL_POD_GROUP
from e2e.harness.environment import Environment
from e2e.harness.objects import COMPOSITE_POD_GROUPS, POD_GROUPS, Json, pod
from kube.base.errors import NotFound
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS


async def leaf(
    env: Environment,
    name: str,
    pods: int,
    *,
    spec: Json | None = None,
    of_pod: Json | None = None,
    finalizers: tuple[str, ...] = (),
    **group: Any,
) -> None:
    """Create a gang of that many pods; keyword arguments as for `tree`."""
    made = leaf_group(name, pods, **group)
    made["spec"] |= spec or {}
    await env.create(POD_GROUPS, made)
    for index in range(pods):
        member = pod(f"{name}-{index}", env.name, group=name)
        member["metadata"]["finalizers"] = list(finalizers)
        member["spec"] |= of_pod or {}
        await env.create(PODS, member)


def leaf_group(name: str, pods: int, **group: Any) -> Json:
    """Return the PodGroup of such a gang."""
    return _group(POD_GROUPS.kind, name, {"gang": {"minCount": pods}}, **group)


async def tree(env: Environment, name: str, minimum: int, **group: Any) -> None:
    """Create a composite that needs that many of its children."""
    policy = {"gang": {"minGroupCount": minimum}}
    await env.create(COMPOSITE_POD_GROUPS, _group(COMPOSITE_POD_GROUPS.kind, name, policy, **group))


def members(name: str) -> str:
    """Return the selector of a leaf's pods."""
    return f"{LABEL_POD_GROUP}={name}"


async def remove_finalizers(env: Environment, selector: str) -> None:
    """Remove the finalizers, so that terminating pods are deleted."""
    for found in await env.pods(selector):
        if found["metadata"].get("finalizers"):
            # Their owner may remove them at the same moment, and the pod may be deleted.
            ops = PatchBuilder().add("/metadata/finalizers", [])
            with contextlib.suppress(NotFound):
                await env.client.patch(PODS, found["metadata"]["name"], ops, env.name)


def _group(
    kind: str,
    name: str,
    policy: Json,
    *,
    parent: str | None = None,
    key: str | None = None,
    preferred: bool = False,
    mode: str | None = None,
    priority_class: str | None = None,
    annotations: Json | None = None,
) -> Json:
    spec: Json = {
        "schedulingPolicy": policy,
        "workloadRef": {"workloadName": "made-by-hand", "templateName": name},
    }
    if parent is not None:
        spec["parentCompositePodGroupName"] = parent
    if key is not None:
        wish = {"preferred": True} if preferred else {}
        spec["schedulingConstraints"] = {"topology": [{"key": key, **wish}]}
    if mode is not None:
        spec["disruptionMode"] = {mode: {}}
    if priority_class is not None:
        spec["priorityClassName"] = priority_class
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": kind,
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": spec,
    }


async def held(env: Environment, group: str, count: int) -> None:
    """Wait until that many places are held for a PodGroup."""

    async def probe() -> bool:
        said = ((await env.group(group)).get("status") or {}).get("heldPlaces") or {}
        counts: list[int] = [it["count"] for it in said.get("pods", [])]
        return sum(counts) == count

    await env.grouped(group)
    await env.until(f"{count} places to be held for {group}", probe)
