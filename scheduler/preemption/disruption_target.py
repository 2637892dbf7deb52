"""The condition DisruptionTarget, which states that a pod or group was chosen as a victim."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from api.constants import CONDITION_DISRUPTION_TARGET, REASON_PREEMPTION, SCHEDULER_COMPONENT
from api.eviction import preempted_condition
from kube.base.clock import Clock, rfc3339
from kube.base.errors import Conflict, Invalid
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import PODS, Resource
from scheduler.core.values.model import PodInfo

_PREFIX: Final = f"{SCHEDULER_COMPONENT}:"
_TARGET: Final[Json] = {"status": "True", "reason": REASON_PREEMPTION}
_SPARED: Final[Json] = {
    "status": "False",
    "reason": "EvictionFailed",
    "message": f"{_PREFIX} could not be evicted",
}


class DisruptionMarks:
    """A writer of the condition on objects as they are now. Raises kube.base.errors."""

    def __init__(self, api: Client, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def set_group(
        self, resource: Resource, namespace: str, name: str, message: str, window: float = 0.0
    ) -> int:
        """Set the condition on a group, unless `message` is empty. Return its preemptions.

        With a `window`, in seconds, this preemption is counted in the condition Preempted of the
        group. Otherwise the number is 0.
        """
        obj, number = await self._api.get(resource, name, namespace), 0
        said = _TARGET | {"message": message}
        conditions = [self._of(resource, obj, said)] if message else []
        if window:
            generation, now = obj["metadata"].get("generation", 0), self._clock.now()
            counted, number = preempted_condition(obj.get("status") or {}, now, window, generation)
            conditions.append(counted)
        await self._put(resource, obj, name, namespace, conditions)
        return number

    async def set_pod(self, info: PodInfo, message: str) -> None:
        """Set the condition on this very pod.

        One request is enough if the pod is as the watch delivered it last and never had the
        condition.
        """
        said = _TARGET | {"message": message}
        if info.version and info.conditions != "target":
            # For another pod of the name, the list to add to may be missing: Invalid.
            with suppress(Conflict, Invalid):
                await self._add(info, said)
                return
        obj = await self._api.get(PODS, info.name, info.namespace)
        # The name may be that of another pod by now.
        if obj["metadata"]["uid"] == info.uid:
            await self._put(PODS, obj, info.name, info.namespace, [self._of(PODS, obj, said)])

    async def _add(self, info: PodInfo, said: Json) -> None:
        """Add the condition. Raises Conflict or Invalid if the pod has changed, or is another."""
        condition = self._condition(said)
        # The version protects conditions that others wrote since the watch delivered the pod.
        ops = PatchBuilder().at_version(info.version)
        if info.conditions:
            ops.add("/status/conditions/-", condition)
        else:
            ops.add("/status/conditions", [condition])
        await self._api.patch(PODS, info.name, ops, info.namespace, subresource="status")

    async def clear(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """Set the condition to False, if the object has that UID and this scheduler had set it."""
        obj = await self._api.get(resource, name, namespace)
        # The prefix of the message is ours: another component's condition is not ours to revert.
        marked = any(
            c.get("status") == "True" and str(c.get("message")).startswith(_PREFIX)
            for c in _conditions(obj)
            if c.get("type") == CONDITION_DISRUPTION_TARGET
        )
        if marked and obj["metadata"]["uid"] == uid:
            spared = self._of(resource, obj, _SPARED)
            await self._put(resource, obj, name, namespace, [spared])

    def _of(self, resource: Resource, obj: Json, said: Json) -> Json:
        """Return the condition for an object as it is now."""
        condition = self._condition(said)
        if resource is not PODS:
            condition["observedGeneration"] = obj["metadata"].get("generation", 0)
            # A pod's begins with this eviction: `Evictor.resume` compares it with creations.
            condition["lastTransitionTime"] = _since(obj, said) or condition["lastTransitionTime"]
        return condition

    async def _put(
        self, resource: Resource, obj: Json, name: str, namespace: str, conditions: list[Json]
    ) -> None:
        """Add or replace conditions of the object."""
        types = {condition["type"] for condition in conditions}
        others = [c for c in _conditions(obj) if c.get("type") not in types]
        ops = PatchBuilder().at_version(obj["metadata"]["resourceVersion"])
        # JSON patch adds no key to an object that does not exist.
        if not obj.get("status"):
            ops.add("/status", {})
        ops.add("/status/conditions", [*others, *conditions])
        await self._api.patch(resource, name, ops, namespace, subresource="status")

    def _condition(self, said: Json) -> Json:
        now = rfc3339(self._clock.now())
        return {"type": CONDITION_DISRUPTION_TARGET, "lastTransitionTime": now, **said}


def _since(obj: Json, said: Json) -> str:
    """Return since when the object's condition has this status; empty if it has not."""
    for each in _conditions(obj):
        if each.get("type") == CONDITION_DISRUPTION_TARGET and each.get("status") == said["status"]:
            return str(each.get("lastTransitionTime") or "")
    return ""


def _conditions(obj: Json) -> list[Json]:
    """Return the object's conditions, as far as they are objects: an owner may write anything."""
    found = (obj.get("status") or {}).get("conditions") or []
    return [each for each in found if isinstance(each, dict)]
