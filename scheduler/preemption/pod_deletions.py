"""The deletion of one pod, and of no other that has its name."""

from __future__ import annotations

from kube.base.errors import Conflict, NotFound
from kube.client.client import Client
from kube.client.resources import PODS
from scheduler.core.values.model import PodInfo


async def delete_pod(api: Client, info: PodInfo, grace_seconds: int | None = None) -> bool:
    """Delete this very pod; False if it is gone already. Raises kube.base.errors.

    Conflict means that another pod has its name, or that this one was not deleted.
    """
    try:
        await api.delete(PODS, info.name, info.namespace, uid=info.uid, grace_seconds=grace_seconds)
    except NotFound:
        return False
    except Conflict:
        # A precondition on the UID also fails if the pod was replaced: that is no failure here.
        if await _exists(api, info):
            raise
        return False
    return True


async def _exists(api: Client, info: PodInfo) -> bool:
    try:
        found = await api.get(PODS, info.name, info.namespace)
    except NotFound:
        return False
    return bool(found["metadata"]["uid"] == info.uid)
