"""Muster in the cluster, installed as its users install it."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from e2e.harness.controlplane.places import ROOT
from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.waiting import eventually

NAMESPACE = "muster-system"
_PROCESSES = ("controller", "scheduler", "webhook")
DEPLOYMENTS = tuple(f"muster-{process}" for process in _PROCESSES)

_TIMEOUT = "--timeout=240s"


async def by_manifests(kubectl: Kubectl) -> None:
    """Apply manifests/base unless it is applied, and wait until every replica is ready."""
    if not await kubectl("get", "deployments", "-n", NAMESPACE, "-o", "name"):
        await kubectl("apply", "-k", f"{ROOT / 'manifests/base'}")
    await rolled_out(kubectl)


async def rolled_out(kubectl: Kubectl, *more: str) -> None:
    """Wait until every replica of every process is ready."""
    for name in (*DEPLOYMENTS, *more):
        await kubectl("rollout", "status", f"deployment/{name}", "-n", NAMESPACE, _TIMEOUT)


async def restarted(kubectl: Kubectl) -> None:
    """Replace every replica of every process, one after the other, and wait until all are ready."""
    for name in DEPLOYMENTS:
        await kubectl("rollout", "restart", f"deployment/{name}", "-n", NAMESPACE)
    await rolled_out(kubectl)


async def is_back(kubectl: Kubectl, node: str, since: datetime) -> None:
    """Wait until Muster's pods on a restarted node have started since this time.

    Until its kubelet updates their status, they are Ready as before, and get requests.
    """

    async def have_started() -> bool:
        there = [pod for pod in await pods(kubectl) if pod["spec"].get("nodeName") == node]
        return all(is_ready(pod) and _started(pod) >= since for pod in there)

    await eventually(have_started, f"Muster on {node} to run again", 240)


def _started(pod: dict[str, Any]) -> datetime:
    (status,) = pod["status"]["containerStatuses"]
    return datetime.fromisoformat(status["state"]["running"]["startedAt"])


async def are_spread(kubectl: Kubectl, nodes: Sequence[str]) -> bool:
    """Return True if each process has a replica on each of the nodes."""
    found = {(_process(it), it["spec"].get("nodeName")) for it in await pods(kubectl)}
    return found >= {(process, node) for process in _PROCESSES for node in nodes}


def _process(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["app.kubernetes.io/component"])


async def pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    """Return Muster's pods."""
    found: list[dict[str, Any]] = json.loads(
        await kubectl("get", "pods", "-n", NAMESPACE, "-o", "json")
    )["items"]
    return found


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)
