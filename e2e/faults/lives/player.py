"""Player of one life: it creates the owner, carries out the script, and ends the pods.

Before a step that waits, and at the end, the namespace must settle. Then all running pods succeed,
repeatedly, until the owner has ended; it is deleted, and no object may remain.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from api.constants import ANNOTATION_GROUP_TEMPLATE, ANNOTATION_MIN_COUNT, SCHEDULER_NAME
from e2e.faults.lives import report
from e2e.faults.lives.drawing import members
from e2e.faults.lives.script import NAME, TEMPLATE, WORKLOAD_NAME, Life, Step
from e2e.faults.lives.state import State, leaving, lives, look, name, over, phase, suspended
from e2e.faults.lives.verdict import Verdict
from e2e.faults.lives.watched import KINDS, Watched
from e2e.harness.clusters.nodes import FINISH_ANNOTATION
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.muster import SCHEDULER, Muster
from e2e.harness.objects import NODE_LABEL, WORKLOADS, Json, pod_spec
from kube.base.errors import AlreadyExists, ApiError, Conflict, NotFound
from kube.client.client import Client
from kube.client.resources import JOBS, JOBSETS, NAMESPACES, PODS, Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")

MUSTER_SECONDS = 20.0
"""Maximum seconds without change while Muster has work to do."""
CONTROLLERS_SECONDS = 75.0
"""Maximum seconds without change while a Job waits to replace a failed pod."""
GONE_SECONDS = 60.0
"""Maximum seconds without change while deleted objects remain."""
LONGEST_SECONDS = 600.0
"""Maximum seconds of a complete life."""
_ROUNDS = 40


class LifeError(AssertionError):
    """A life failed; the text has one line for each problem."""


class Shared:
    """The Muster of all lives: a process that one life kills is missing for all of them."""

    def __init__(self, muster: Muster) -> None:
        self.last = time.monotonic()
        """Time at which a process was last started, or no scheduler led."""
        self._muster = muster
        self._lock = asyncio.Lock()

    async def kill(self, process: str) -> None:
        """Kill a process, and restart it."""
        async with self._lock:
            self._muster.kill(process)
            await self._muster.start(process)
            self.last = time.monotonic()

    async def decides(self) -> None:
        """Trigger a new decision on all pending pods; without a leader, note that they may wait."""
        page = self._muster.page(SCHEDULER, "/debug/decide")
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            timeout = aiohttp.ClientTimeout(total=30)
            async with (
                aiohttp.ClientSession(trust_env=False, timeout=timeout) as session,
                session.post(page) as answer,
            ):
                if (await answer.json())["leads"]:
                    return
        self.last = time.monotonic()


class Player:
    """One life in its own namespace."""

    def __init__(
        self,
        life: Life,
        namespace: str,
        cluster: Cluster,
        client: Client,
        watched: Watched,
        shared: Shared,
    ) -> None:
        self.life = life
        self.verdict = Verdict(life, self.look, life.min_count)
        self._namespace = namespace
        self._cluster = cluster
        self._client = client
        self._watched = watched
        self._shared = shared
        self._nodes: list[str] = []

    def look(self) -> State:
        return look(self._watched, self._namespace, self.life)

    async def play(self) -> None:
        """Play the life. Raises LifeError."""
        await self._client.create(NAMESPACES, {"metadata": {"name": self._namespace}})
        self._watched.listen(self._namespace, self.verdict.note)
        doing = "create"
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                await self._submit_all()
                for number, step in enumerate(self.life.steps):
                    doing = f"{number}. {step.what}"
                    await self._step(step)
                self._fail_if(self.verdict.faults)
        except (LifeError, ApiError, TimeoutError) as error:
            text = [f"while in step {doing}: {error}"]
            raise LifeError(
                "\n".join((*self.life.lines(), *text, *report.seen(self.look())))
            ) from error
        finally:
            self._watched.forget(self._namespace)
            await self._clear()

    async def _step(self, step: Step) -> None:
        if step.what == "delete":
            await self._finish()
            await self._delete(step.given["propagation"])
            await self._all_gone()
            return
        if step.quiet:
            await self.settle()
        state = self.look()
        if step.what != "again" and (state.owner is None or over(state.owner)):
            return
        acts: dict[str, Callable[..., Awaitable[Json | None]]] = {
            "end": self._end,
            "remove": self._remove,
            "suspend": self._suspend,
            "resume": self._resume,
            "scale": self._scale,
            "min-count": self._min_count,
            "room": self._room,
            "again": self._again,
            "kill": self._kill,
        }
        self.verdict.note_sizes()
        changed = await acts[step.what](**step.given)
        if step.quiet and changed is not None:
            await self._heard(changed)
            self.verdict.begin()

    # Waiting

    async def settle(self) -> None:
        """Wait until the namespace settles. Raises LifeError once nothing changes."""
        since = time.monotonic()
        while True:
            self._fail_if(self.verdict.faults)
            state = self.look()
            if state.owner is None:
                return
            controllers, muster = self.verdict.unrest()
            if not controllers and not muster:
                waits = any(lives(pod) and phase(pod) == "Pending" for pod in state.pods)
                if await self._watched.changes(self._namespace, 0.7 if waits else 0.2):
                    since = time.monotonic()
                    continue
                self.verdict.rest()
                return
            patience = CONTROLLERS_SECONDS if controllers else MUSTER_SECONDS
            await self._or_fail(since, patience, [*controllers, *muster])
            if await self._watched.changes(self._namespace, 0.5):
                since = time.monotonic()

    async def _until(self, probe: Callable[[], list[str]], patience: float) -> None:
        """Wait until there are no problems. Raises LifeError once nothing changes."""
        since = time.monotonic()
        while problems := probe():
            self._fail_if(self.verdict.faults)
            await self._or_fail(since, patience, problems)
            if await self._watched.changes(self._namespace, 0.5):
                since = time.monotonic()

    async def _or_fail(self, since: float, patience: float, problems: list[str]) -> None:
        if time.monotonic() - max(since, self._shared.last) < patience:
            return
        await self._shared.decides()
        happens = await self._watched.changes(self._namespace, 3)
        idle = time.monotonic() - max(since, self._shared.last)
        if not happens and idle > patience:
            raise LifeError("\n".join((f"nothing has happened for {idle:.0f} s:", *problems)))

    def _fail_if(self, faults: list[str]) -> None:
        if faults:
            raise LifeError("\n".join(faults))

    async def _heard(self, changed: Json) -> None:
        """Wait until the watch has delivered a change that the server accepted."""
        version = int(changed["metadata"]["resourceVersion"])
        kind = WORKLOADS if changed["kind"] == WORKLOADS.kind else self.life.resource

        def probe() -> list[str]:
            found = self._watched.get(kind, self._namespace, changed["metadata"]["name"])
            at = int(found["metadata"]["resourceVersion"]) if found else version
            return [] if at >= version else ["the watch does not tell of a change"]

        await self._until(probe, MUSTER_SECONDS)

    # Steps

    async def _submit_all(self) -> None:
        life = self.life
        if life.room:
            await self._room(life.room)
        if life.mode == "Delegated":
            await self._client.create(CONFIG_MAPS, {"metadata": {"name": "run"}}, self._namespace)
        if life.mode in ("Workload", "Delegated"):
            await self._client.create(WORKLOADS, self._workload(), self._namespace)
        await self._submit()

    async def _submit(self) -> None:
        """Create the owner, retrying while one of its name exists."""
        made, since = await self._manifest(), time.monotonic()
        while True:
            await self._or_fail(since, GONE_SECONDS, ["the earlier owner of this name is left"])
            try:
                created = await self._client.create(self.life.resource, made, self._namespace)
                break
            except (AlreadyExists, Conflict):
                await self._watched.changes(self._namespace, 0.05)
        uid = created["metadata"]["uid"]

        def probe() -> list[str]:
            found = self._watched.get(self.life.resource, self._namespace, NAME)
            is_there = found is not None and found["metadata"]["uid"] == uid
            return [] if is_there else ["the watch does not tell of the new owner"]

        await self._until(probe, MUSTER_SECONDS)

    async def _end(self, count: int, phase: str) -> Json | None:
        running = await self._running()
        for pod in running[:count]:
            if phase == "Failed":
                self.verdict.told.add(name(pod))
            await self._finish_pod(pod, phase)
        return None

    async def _running(self) -> list[Json]:
        """Return the running pods in order, after waiting for the first while one may start."""
        while True:
            state = self.look()
            running = [pod for pod in state.pods if lives(pod) and phase(pod) == "Running"]
            if running or state.owner is None or over(state.owner):
                return sorted(running, key=_order)
            if not any(self.verdict.unrest()):
                return []
            if not await self._watched.changes(self._namespace, 5):
                return []

    async def _finish_pod(self, pod: Json, phase: str) -> None:
        path, key = "/metadata/annotations", FINISH_ANNOTATION.replace("/", "~1")
        noted = "annotations" in pod["metadata"]
        ops = [
            _add(f"{path}/{key}", value=phase)
            if noted
            else _add(path, value={FINISH_ANNOTATION: phase})
        ]
        with contextlib.suppress(NotFound):
            await self._client.patch(PODS, name(pod), ops, self._namespace)

    async def _remove(self, count: int, phase: str) -> Json | None:
        found = [p for p in self.look().pods if _phase(p) == phase and not leaving(p)]
        for pod in sorted(found, key=_order)[:count]:
            await self._delete_pod(pod)
        return None

    async def _delete_pod(self, pod: Json) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(PODS, name(pod), self._namespace, grace_seconds=0)

    async def _suspend(self) -> Json | None:
        return await self._patch([_add("/spec/suspend", value=True)])

    async def _resume(self) -> Json | None:
        return await self._patch([_add("/spec/suspend", value=False)])

    async def _scale(self, **given: Any) -> Json | None:
        if self.life.kind == "Job":
            return await self._scale_job(given["parallelism"])
        owner = self.look().owner
        roles = owner["spec"]["replicatedJobs"] if owner else []
        places = [place for place, role in enumerate(roles) if role["name"] == given["role"]]
        paths = (f"/spec/replicatedJobs/{place}/replicas" for place in places)
        ops = [_add(path, value=given["replicas"]) for path in paths]
        try:
            return await self._patch(ops)
        except ApiError:  # JobSet v0.11.0 rejects it
            return None

    async def _scale_job(self, parallelism: int) -> Json | None:
        owner = self.look().owner
        if owner is None:
            return None
        spec = owner["spec"]
        ops = [_add("/spec/parallelism", value=parallelism)]
        elastic = spec.get("completions") == spec["parallelism"] and parallelism
        if elastic and spec.get("completionMode") == "Indexed":
            ops.append(_add("/spec/completions", value=parallelism))
        return await self._patch(ops)

    async def _patch(self, ops: list[Json]) -> Json | None:
        try:
            return await self._client.patch(self.life.resource, NAME, ops, self._namespace)
        except NotFound:
            return None

    async def _min_count(self, share: float) -> Json | None:
        try:  # not from a cache: a recently scaled owner may have fewer
            owner = await self._client.get(self.life.resource, NAME, self._namespace)
        except NotFound:
            return None
        count = _part(share, members(self.life.kind, owner["spec"]))
        self.verdict.asked = count
        if self.life.mode in ("Workload", "Delegated"):
            return await self._patch_workload(count)
        key = ANNOTATION_MIN_COUNT.replace("/", "~1")
        return await self._patch([_add(f"/metadata/annotations/{key}", value=str(count))])

    async def _patch_workload(self, count: int) -> Json:
        path = "/spec/podGroupTemplates/0/schedulingPolicy/gang/minCount"
        ops = [_add(path, value=count)]
        return await self._client.patch(WORKLOADS, WORKLOAD_NAME, ops, self._namespace)

    async def _room(self, pods: int) -> Json | None:
        node = f"{self._namespace}-{len(self._nodes)}"
        self._nodes.append(node)
        capacity = {"cpu": str(pods), "pods": "200"}
        labels = {NODE_LABEL: self._namespace}
        await self._cluster.add_node(node, labels=labels, capacity=capacity)
        self.verdict.room += pods
        return None

    async def _kill(self, process: str) -> Json | None:
        await self._shared.kill(process)
        return None

    async def _again(self, propagation: str, share: float | None = None) -> Json | None:
        await self._delete(propagation, leave=True)
        if share is not None:
            count = _part(share, members(self.life.kind, self.life.spec))
            self.verdict.asked = count
            await self._patch_workload(count)
        else:
            self.verdict.asked = self.life.min_count
        self.verdict.rest()
        await self._submit()
        if propagation == "Orphan":
            await self._remove_orphans()
        return None

    async def _delete(self, propagation: str, *, leave: bool = False) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(
                self.life.resource, NAME, self._namespace, propagation=propagation
            )
        if propagation == "Orphan" and not leave:

            def gone() -> list[str]:
                there = self._watched.get(self.life.resource, self._namespace, NAME)
                return ["the owner is still there"] if there else []

            await self._until(gone, GONE_SECONDS)
            await self._remove_orphans()

    async def _remove_orphans(self) -> None:
        """Delete what an owner deleted with `orphan` left behind.

        An orphaned Job takes its pods along.
        """
        state = self.look()
        own = {each["metadata"]["uid"] for each in (state.owner, *state.own_jobs()) if each}
        for job in state.jobs:
            if job["metadata"]["uid"] not in own and not leaving(job):
                with contextlib.suppress(NotFound):
                    await self._client.delete(
                        JOBS, name(job), self._namespace, propagation="Background"
                    )
        kept = own | {job["metadata"]["uid"] for job in state.jobs}
        for pod in state.pods:
            owners = pod["metadata"].get("ownerReferences") or ()
            if not any(each["uid"] in kept for each in owners):
                await self._delete_pod(pod)

    # The end

    async def _finish(self) -> None:
        """With capacity for all, let every running pod succeed, until the owner has ended."""
        await self._room(20)
        for _ in range(_ROUNDS):
            await self.settle()
            state = self.look()
            if state.owner is None:
                return
            if over(state.owner):
                self._check_end(state.owner)
                return
            if suspended(state.owner):
                await self._resume()
                continue
            running = [pod for pod in state.pods if lives(pod)]
            if not running and (self.life.kind == "JobSet" or state.owner["spec"]["parallelism"]):
                return  # it needs no pods, and its status does not change
            if not running:
                await self._scale_job(1)
            for pod in running:
                await self._finish_pod(pod, "Succeeded")
        raise LifeError(f"after {_ROUNDS} rounds of pods that succeeded it has not ended")

    def _check_end(self, owner: Json) -> None:
        trouble = {"remove", "scale", "kill", "suspend", "again"}
        if any(step.what in trouble for step in self.life.steps) or self.verdict.told:
            return
        if over(owner) == "Failed":
            raise LifeError("it failed, though none of its pods did")

    async def _all_gone(self) -> None:
        """Wait until no object of the owner remains."""

        def left() -> list[str]:
            return [
                f"{kind.kind} {name(each)} is left"
                for kind in KINDS
                for each in self._watched.there(kind, self._namespace)
                if name(each) != WORKLOAD_NAME
            ]

        await self._until(left, GONE_SECONDS)

    async def _clear(self) -> None:
        """Delete all remaining objects: a failed life leaves some behind."""
        for kind in KINDS:
            for each in list(self._watched.there(kind, self._namespace)):
                with contextlib.suppress(NotFound):
                    await self._client.delete(
                        kind, name(each), self._namespace, propagation="Background"
                    )
        await self._client.delete(NAMESPACES, self._namespace)
        for node in self._nodes:
            await self._cluster.remove_node(node)

    # Objects

    async def _manifest(self) -> Json:
        life = self.life
        metadata: Json = {"name": NAME, "annotations": dict(life.annotations)}
        if life.kind == "JobSet":
            roles = [
                {**role, "template": self._template(role["template"])}
                for role in life.spec["replicatedJobs"]
            ]
            spec = {**life.spec, "replicatedJobs": roles}
            return {
                "apiVersion": JOBSETS.api_version,
                "kind": "JobSet",
                "metadata": metadata,
                "spec": spec,
            }
        spec = {**life.spec, "template": {"spec": self._pod_spec()}}
        if life.mode == "Delegated":
            metadata["annotations"][ANNOTATION_GROUP_TEMPLATE] = TEMPLATE
            metadata["ownerReferences"] = [await self._delegating_owner()]
        return {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": metadata, "spec": spec}

    def _template(self, template: Json) -> Json:
        return {**template, "spec": {**template["spec"], "template": {"spec": self._pod_spec()}}}

    def _pod_spec(self) -> Json:
        spec = pod_spec(self._namespace) | {"terminationGracePeriodSeconds": 0}
        if self.life.mode in ("Delegated", "Plain"):
            spec["schedulerName"] = SCHEDULER_NAME
        return spec

    async def _delegating_owner(self) -> Json:
        found = await self._client.get(CONFIG_MAPS, "run", self._namespace)
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
        return reference | {key: found["metadata"][key] for key in ("name", "uid")}

    def _workload(self) -> Json:
        owner = {"apiGroup": self.life.resource.group, "kind": self.life.kind, "name": NAME}
        if self.life.mode == "Delegated":
            owner = {"kind": "ConfigMap", "name": "run"}
        policy = {"gang": {"minCount": self.life.min_count}}
        templates = [{"name": TEMPLATE, "schedulingPolicy": policy}]
        return {
            "apiVersion": WORKLOADS.api_version,
            "kind": WORKLOADS.kind,
            "metadata": {"name": WORKLOAD_NAME},
            "spec": {"controllerRef": owner, "podGroupTemplates": templates},
        }


def _add(path: str, *, value: Any) -> Json:
    return {"op": "add", "path": path, "value": value}


def _part(share: float, size: int) -> int:
    return 1 + round(share * max(0, size - 1))


def _phase(pod: Json) -> str:
    return phase(pod)


def _order(pod: Json) -> tuple[str, str, str]:
    meta = pod["metadata"]
    return meta["creationTimestamp"], meta.get("generateName", ""), meta["name"]
