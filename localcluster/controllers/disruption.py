"""The disruption controller: it computes the allowed disruptions of PodDisruptionBudgets."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal

from localcluster.base.clock import Clock, parse_time, timestamp
from localcluster.base.selectors import LabelSelector, from_object
from localcluster.controllers.base.api_protocol import JOBS, PDBS, PODS
from localcluster.controllers.base.client import CachedClient
from localcluster.controllers.base.objects import (
    Key,
    Obj,
    condition,
    controller_of,
    is_deleting,
    is_terminal,
    is_true,
    key_of,
    labels_of,
    with_status,
)
from localcluster.controllers.base.workqueue import Loop

# An eviction that the API server granted counts as failed if the pod is not deleted by then.
DELETION_TIMEOUT = timedelta(minutes=2)
BY_NAMESPACE = "namespace"
BATCH_SECONDS = 0.05  # window in which pod changes are batched

Scale = Mapping[str, int]  # desired pods by UID of their controller


def budget_status(pdb: Obj, pods: Sequence[Obj], scale: Scale, now: datetime) -> Obj:
    """Return the status of a PodDisruptionBudget for the pods that it selects.

    `status.disruptedPods` lists the evictions that are granted but not yet observed as deletions.
    """
    old = pdb.get("status") or {}
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    disrupted = {
        name: since
        for name, since in (old.get("disruptedPods") or {}).items()
        if name in by_name
        and not is_deleting(by_name[name])
        and parse_time(since) + DELETION_TIMEOUT > now
    }
    healthy = sum(
        is_true(pod, "Ready") and not is_deleting(pod) and name not in disrupted
        for name, pod in by_name.items()
    )
    expected, desired = _expectation(pdb["spec"], pods, scale)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status: Obj = {
        "observedGeneration": pdb["metadata"].get("generation", 1),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": [_allowed_condition(pdb, allowed, now)],
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    return status


def _expectation(spec: Obj, pods: Sequence[Obj], scale: Scale) -> tuple[int, int]:
    """Return the expected number of pods, and the desired number of healthy ones."""
    controlled = sum(scale.values())
    if "maxUnavailable" in spec:
        return controlled, max(0, controlled - _portion(spec["maxUnavailable"], controlled))
    minimum = spec.get("minAvailable", 1)
    if isinstance(minimum, int):
        return len(pods), minimum
    return controlled, _portion(minimum, controlled)


def _portion(value: int | str, whole: int) -> int:
    """Return a number, or a percentage of `whole` rounded up."""
    if isinstance(value, int):
        return value
    share = Decimal(value.removesuffix("%")) * whole / 100
    return int(share.to_integral_value(ROUND_CEILING))


def _allowed_condition(pdb: Obj, allowed: int, now: datetime) -> Obj:
    value = "True" if allowed else "False"
    old = condition(pdb, "DisruptionAllowed") or {}
    same = old.get("status") == value
    return {
        "type": "DisruptionAllowed",
        "status": value,
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": pdb["metadata"].get("generation", 1),
        "lastTransitionTime": old["lastTransitionTime"] if same else timestamp(now),
    }


class DisruptionController:
    """Controller that keeps the status of every PodDisruptionBudget current."""

    def __init__(self, client: CachedClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._selectors: dict[Key, LabelSelector] = {}
        self.loop: Loop[Key] = Loop("disruption", clock, self._reconcile)
        client[PODS].add_index(BY_NAMESPACE, _namespace)
        client[PDBS].add_index(BY_NAMESPACE, _namespace)
        client[PODS].subscribe(self._pod_changed)
        client[PDBS].subscribe(self._pdb_changed)

    def _pdb_changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            self._selectors.pop(key_of(old or {}), None)
            return
        self._selectors[key_of(new)] = from_object(new["spec"].get("selector") or {})
        self.loop.queue.add(key_of(new))

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        pod = new or old
        if pod is None:
            return
        for pdb in self._client[PDBS].by_index(BY_NAMESPACE, pod["metadata"]["namespace"]):
            selector = self._selectors[key_of(pdb)]
            if any(one is not None and selector.matches(labels_of(one)) for one in (old, new)):
                self.loop.queue.add_after(key_of(pdb), BATCH_SECONDS)

    async def _reconcile(self, key: Key) -> float | None:
        pdb = self._client[PDBS].get(key)
        if pdb is None:
            return None
        selector = self._selectors[key]
        pods = [
            pod
            for pod in self._client[PODS].by_index(BY_NAMESPACE, key[0])
            if not is_terminal(pod) and selector.matches(labels_of(pod))
        ]
        status = budget_status(pdb, pods, self._scale(pods), self._clock.now())
        if status != pdb.get("status"):
            await self._client.update(PDBS, with_status(pdb, status), subresource="status")
        return DELETION_TIMEOUT.total_seconds() if status.get("disruptedPods") else None

    def _scale(self, pods: Iterable[Obj]) -> Scale:
        """Return the desired pods by controller.

        Of the controllers in this cluster only Jobs create pods; they scale by parallelism.
        """
        scale: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None or owner["uid"] in scale:
                continue
            job = self._client[JOBS].get((pod["metadata"]["namespace"], owner["name"]))
            if job is not None and job["metadata"]["uid"] == owner["uid"]:
                scale[owner["uid"]] = job["spec"].get("parallelism", 1)
        return scale


def _namespace(obj: Obj) -> Iterable[str]:
    return (obj["metadata"]["namespace"],)
