"""Tenants: a namespace each, and an account that has only the role `edit` in it."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from e2e.faults.hostile.steps import KINDS, Step
from e2e.harness.objects import POD_GROUPS, Json, pod_group
from e2e.harness.support import accounts
from e2e.harness.support.rest import Answer, Rest
from e2e.harness.support.waiting import Patience, eventually
from kube.client.resources import CONFIG_MAPS, JOBSETS, PODS, Resource

EDIT: Final = "edit"
_RBAC: Final = "rbac.authorization.k8s.io"
_ROLES: Final = f"/apis/{_RBAC}/v1/clusterroles"
_WRITE: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_AT_ONCE: Final = 24
_MANY: Final = 100
_SHOWN: Final = 300

_CLAIM_RULE: Final = ("resource.k8s.io", ["resourceclaims", "resourceclaimtemplates"])

# The rules of `edit` for the kinds used here: an embedded cluster has no such role.
_EDIT_RULES: Final = (
    ("", ["pods", "persistentvolumeclaims", "configmaps", "services", "serviceaccounts", "events"]),
    ("apps", ["daemonsets", "deployments", "replicasets", "statefulsets"]),
    ("batch", ["jobs", "cronjobs"]),
    ("policy", ["poddisruptionbudgets"]),
    _CLAIM_RULE,
    ("scheduling.muster.dev", ["workloads", "podgroups", "compositepodgroups"]),
    ("coscheduling.muster.dev", ["podgroups"]),
)


@dataclass
class Tenant:
    """One tenant. `refusals` counts rejected requests by the API server's message."""

    name: str
    rest: Rest
    admitted: int = 0
    refusals: Counter[str] = field(default_factory=Counter)

    def path(self, resource: Resource, name: str | None = None) -> str:
        return resource.path(self.name, name)

    async def send(self, step: Step) -> Answer:
        """Send one request, counted as admitted or rejected."""
        answer = await self._send(step)
        if answer.status < 300:
            self.admitted += 1
        else:
            self.refusals[f"{answer.status} {answer.text[:_SHOWN]}"] += 1
        return answer

    async def carry_out(self, steps: Sequence[Step]) -> list[Answer]:
        """Carry out all steps; consecutive creations are sent concurrently."""
        answers: list[Answer] = []
        batch: list[Step] = []
        for step in steps:
            if step.verb != "create" or any(each.name == step.name for each in batch):
                answers += await self._together(batch)
                batch = []
            batch.append(step)
            if step.verb != "create":
                answers += await self._together(batch)
                batch = []
        return answers + await self._together(batch)

    async def insist(self, steps: Sequence[Step]) -> None:
        """Carry out all steps. Raises AssertionError if one is rejected."""
        for answer in await self.carry_out(steps):
            answer.ok()

    async def objects(self, resource: Resource) -> list[Json]:
        answer = await self.rest.get(self.path(resource))
        items: list[Json] = answer.ok()["items"] if answer.status != 404 else []
        return items

    async def leave(self, patience: float = 60.0) -> None:
        """Delete all objects.

        Raises TimeoutError, which names the remaining objects, if no object was deleted for
        `patience` seconds: the total time depends on the machine, as does that of one round.
        """
        limit = Patience(patience)
        while left := await self._delete_all():
            if limit.is_over(sum(left.values())):
                told = f"nothing more of {self.name} has gone for {patience:.0f} s: {left}"
                raise TimeoutError(told)
            await asyncio.sleep(0.05)

    async def _delete_all(self) -> dict[str, int]:
        """Request the deletion of all objects; return their number by kind."""
        left = {}
        for kind in KINDS:
            if found := await self.objects(kind):
                left[kind.full_name] = len(found)
                await self._give_up(kind, found)
        return left

    async def _give_up(self, kind: Resource, found: Sequence[Json]) -> None:
        """Remove the tenant's own finalizers, then delete the objects, concurrently.

        Muster removes its own finalizers, but from many objects: a chain is deleted level by level.
        """
        steps = []
        for obj in found:
            meta = obj["metadata"]
            kept = [each for each in meta.get("finalizers") or () if "hostile" not in each]
            kept = [] if len(found) > _MANY else kept
            if len(kept) != len(meta.get("finalizers") or ()):
                patch = {"metadata": {"finalizers": kept or None}}
                steps.append(Step("patch", kind, meta["name"], patch))
        await self._side_by_side(steps, self._send)
        now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        if any("deletionTimestamp" not in o["metadata"] or kind == PODS for o in found):
            # A server under load may not delete a long collection within the timeout of a request.
            # The next round deletes the rest.
            with suppress(TimeoutError):
                await self.rest.delete(self.path(kind), now)

    async def _together(self, steps: Sequence[Step]) -> list[Answer]:
        return await self._side_by_side(steps, self.send)

    async def _side_by_side(
        self, steps: Sequence[Step], send: Callable[[Step], Awaitable[Answer]]
    ) -> list[Answer]:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(step: Step) -> Answer:
            async with slots:
                return await send(step)

        return await asyncio.gather(*map(one, steps))

    async def _send(self, step: Step) -> Answer:
        if step.verb == "create":
            return await self.rest.post(self.path(step.resource), step.body)
        path = self.path(step.resource, step.name)
        if step.verb == "patch":
            return await self.rest.patch(path, step.body)
        return await self.rest.delete(path, step.body or None)


@dataclass
class OtherTenant:
    """A tenant that requests one gang after the other, on nodes of its own.

    `took` are the seconds until each was bound. `slowest_write` is the time of the slowest write
    without Muster's involvement while the last gang was pending: the speed of the API server
    itself.
    """

    tenant: Tenant
    of_pod: Json
    size: int = 4
    took: list[float] = field(default_factory=list)
    slowest_write: float = 0.0
    _count: int = 0

    async def gang(self, within: float = 30.0) -> float:
        """Return the seconds from the first request to the last Binding. Raises TimeoutError."""
        self._count += 1
        self.slowest_write = 0.0
        name = f"gang-{self._count}"
        began = time.monotonic()
        await self.ask(name)

        async def bound() -> bool:
            await self._write()
            return await self.bound(name) == self.size

        await eventually(bound, f"{name} of {self.tenant.name} to be bound", within)
        self.took.append(time.monotonic() - began)
        await self.forget(name)
        return self.took[-1]

    async def ask(self, name: str, **spec: Any) -> None:
        """Create the group, and its pods concurrently; `spec` extends the group's.

        The pods have the group's priority class.
        """
        group = pod_group(name, self.size)
        group["spec"] |= spec
        rest = self.tenant.rest
        (await rest.post(self.tenant.path(POD_GROUPS), group)).ok()
        pods = [self.member(f"{name}-{at}", name) for at in range(self.size)]
        for pod in pods:
            pod["spec"] |= {key: spec[key] for key in spec if key == "priorityClassName"}
        answers = (rest.post(self.tenant.path(PODS), pod) for pod in pods)
        for answer in await asyncio.gather(*answers):
            answer.ok()

    def member(self, name: str, group: str | None) -> Json:
        labels = {"scheduling.muster.dev/pod-group": group} if group else {}
        container = {
            "name": "main",
            "image": "registry.example/none:1",
            "resources": {"requests": {"cpu": "1"}},
        }
        spec = {
            "schedulerName": "muster-scheduler",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        meta = {"name": name, "labels": labels}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {**spec, **self.of_pod},
        }

    async def bound(self, name: str) -> int:
        params = {"labelSelector": f"scheduling.muster.dev/pod-group={name}"}
        pods = (await self.tenant.rest.get(self.tenant.path(PODS), params=params)).ok()["items"]
        return sum(1 for pod in pods if pod["spec"].get("nodeName"))

    async def _write(self) -> None:
        """Write a ConfigMap once more."""
        rest, began = self.tenant.rest, time.monotonic()
        change = {"data": {"written": str(began)}}
        answer = await rest.patch(self.tenant.path(CONFIG_MAPS, "pace"), change)
        if answer.status == 404:
            made = {"metadata": {"name": "pace"}, **change}
            answer = await rest.post(self.tenant.path(CONFIG_MAPS), made)
        answer.ok()
        self.slowest_write = max(self.slowest_write, time.monotonic() - began)

    async def forget(self, name: str) -> None:
        """Delete the gang without grace, so that its capacity is free at once."""
        rest, now = self.tenant.rest, {"gracePeriodSeconds": 0}
        for at in range(self.size):
            await rest.delete(self.tenant.path(PODS, f"{name}-{at}"), now)
        await rest.delete(self.tenant.path(POD_GROUPS, name))


@asynccontextmanager
async def tenant(admin: Rest, name: str) -> AsyncIterator[Tenant]:
    """Create a namespace and its `edit` account for the duration of the block."""
    await _edit_exists(admin)
    meta = {"name": name, "namespace": name}
    (await admin.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok()
    account = {"metadata": meta}
    (await admin.post(f"/api/v1/namespaces/{name}/serviceaccounts", account)).ok()
    subject = {"kind": "ServiceAccount", **meta}
    for role in (EDIT, _MORE):
        binding = {
            "metadata": {**meta, "name": role},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [subject],
        }
        path = f"/apis/{_RBAC}/v1/namespaces/{name}/rolebindings"
        (await admin.post(path, binding)).ok()
    token = await accounts.token(admin, name, name)
    try:
        async with Rest(admin.access, token=token) as rest:
            made = Tenant(name, rest)
            await eventually(lambda: _may_write(made), f"{name} to have its rights", 30)
            yield made
    finally:
        await admin.delete(f"/api/v1/namespaces/{name}")


_MORE: Final = "hostile-tenants"


async def _edit_exists(admin: Rest) -> None:
    """Create `edit` if the cluster lacks it, and a role with the permissions that `edit` lacks.

    These are for JobSets, and on Kubernetes 1.33 for claims, which it does not serve by default.
    """
    rules = [_rule(group, resources) for group, resources in _EDIT_RULES]
    more = [_rule(JOBSETS.group, [JOBSETS.plural]), _rule(*_CLAIM_RULE)]
    for name, content in ((EDIT, rules), (_MORE, more)):
        answer = await admin.post(_ROLES, {"metadata": {"name": name}, "rules": content})
        assert answer.status in (201, 409), answer.text


def _rule(group: str, resources: list[str]) -> Json:
    return {"apiGroups": [group], "resources": resources, "verbs": _WRITE}


async def _may_write(made: Tenant) -> bool:
    """Return True if `edit` has all its rules: a controller aggregates those of our kinds."""
    answers = [await made.rest.get(made.path(kind)) for kind in (PODS, POD_GROUPS, JOBSETS)]
    return all(answer.status == 200 for answer in answers)
