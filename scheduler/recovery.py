"""What became of the decisions that an earlier leader stored."""

from __future__ import annotations

from dataclasses import replace

import structlog

from kube.errors import KubeError
from kube.object_client import Getter
from kube.resources import PODS
from scheduler.core.forest import Pod
from scheduler.core.state import State
from scheduler.reservations import StoredDecision

_log = structlog.get_logger()


async def refresh_pods(api: Getter, state: State, decision: StoredDecision) -> None:
    """Ask for the pods themselves: the cache may not have the last leader's Bindings yet."""
    for reserved in decision.pods:
        pod = state.pods.get(reserved.uid)
        if pod is None or not pod.waiting:
            continue
        try:
            obj = await api.get(PODS, pod.info.name, pod.info.namespace)
        except KubeError as error:
            _log.warning("pod not read", pod=pod.info.name, problem=str(error))
            continue
        node = (obj.get("spec") or {}).get("nodeName")
        if node and obj["metadata"].get("uid") == reserved.uid:
            state.set_pod(replace(pod.info, node=node))


def bound_pods(state: State, decision: StoredDecision) -> list[Pod]:
    """The pods of the decision that are bound."""
    pods = (state.pods.get(reserved.uid) for reserved in decision.pods)
    return [pod for pod in pods if pod is not None and pod.info.node]
