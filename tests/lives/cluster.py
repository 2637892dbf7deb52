"""A cluster in memory and in virtual time: Muster's processes, and a model of Kubernetes.

The model includes what decides about pods: admission with Muster's webhooks, the controllers of
Jobs, Deployments and StatefulSets, the garbage collector, kubelets that end pods, and the
controllers that delete pods of nodes that are deleted or tainted NoExecute.
"""

import asyncio
import copy
import itertools
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from analysis.simulate.stored_pods import PodAdmission
from api.constants import (
    COMPOSITE_POD_GROUP,
    DEPLOYMENT,
    JOBSET,
    POD,
    POD_GROUP,
    SCHEDULER_NAME,
    STATEFUL_SET,
    WORKLOAD,
    KindName,
)
from api.membership import owners_of
from api.priority import PriorityClass
from api.reading import dig
from controllers.app import ControllerProcess
from kube.base.settings import LeaderElection
from kube.client.meta import Json, decode_partial
from kube.client.resources import (
    DEPLOYMENTS,
    JOBS,
    JOBSETS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    STATEFUL_SETS,
    Resource,
)
from localcluster.controllers.jobs.pods import new_pod
from localcluster.controllers.jobsets.admission import defaulted
from localcluster.controllers.jobsets.build import new_job
from scheduler.app import Scheduler
from scheduler.core.values.profiles import Scoring
from scheduler.support.config import Config, Status
from tests.support.clock import FakeClock, settle
from tests.support.memory_api import MemoryApi, Request
from tests.webhooks.review_requests import FakeLister, encoded, read, review_of
from webhooks.routing.reviewer import ROUTES, Reviewer

SPACE: Final = "team"
GROUPS: Final = tuple(Resource(*it) for it in (POD_GROUP, COMPOSITE_POD_GROUP, WORKLOAD))
_STEP: Final = 0.5
_ELECTION: Final = LeaderElection()
_CONFIG: Final = Config(status=Status(delay_seconds=0.1, busy_seconds=0.5, pods_seconds=1))
_PROFILES: Final = {SCHEDULER_NAME: Scoring("pack", "pack")}
"""Plain pods go to the same nodes as those of groups, with which they are compared."""
_OF_NOTHING_ELSE: Final = (JOBSETS, JOBS, DEPLOYMENTS, STATEFUL_SETS, PODS, *GROUPS)


class RejectedError(Exception):
    """Admission rejects an object."""


class Cluster:
    """A cluster: `start` it first and `stop` it at the end; only `pass_time` makes progress."""

    def __init__(self, pods: PodAdmission = PodAdmission()) -> None:
        """Create a cluster; `pods` has the LimitRanges and RuntimeClasses.

        PriorityClasses are objects.
        """
        self.clock = FakeClock()
        self.api = MemoryApi(self.clock, served=(PODS,))
        self.api.on_gone(self._collect)
        self.api.on(self._admit_group, "create")
        self.pods_are_refused = False
        self.rejected: list[str] = []
        """The reasons for which admission rejected pods."""
        self._pods = pods
        self._lister = FakeLister()
        self._reviewer = Reviewer(self._lister)
        self._scheduler = Scheduler(
            self.api, _CONFIG, _ELECTION, clock=self.clock, profiles=_PROFILES
        )
        self._controllers = ControllerProcess(self.api, _ELECTION, clock=self.clock)
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._serials = itertools.count()

    async def start(self) -> None:
        self.api.add(NAMESPACES, {"metadata": {"name": SPACE}})
        self.api.add(NAMESPACES, {"metadata": {"name": "muster-system"}})
        self._run(self._scheduler.run(self._stop))
        self._run(self._controllers.run(self._stop))
        await self.pass_time(2)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def pass_time(self, seconds: float) -> None:
        """Advance the time. Raises the error that ended a process."""
        for _ in range(round(seconds / _STEP)):
            self._live()
            await settle()
            await self.clock.advance(_STEP)
            for task in self._tasks:
                if task.done():
                    raise AssertionError("a process has ended") from task.exception()

    # What users and administrators do.

    def node(self, name: str, cpu: int, **labels: str) -> None:
        amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
        status = {"allocatable": amounts, "capacity": amounts}
        labels = {"kubernetes.io/hostname": name} | labels
        self.api.add(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})

    def priority_class(self, name: str, value: int, *, default: bool = False) -> None:
        made = {"metadata": {"name": name}, "value": value, "globalDefault": default}
        self.api.add(PRIORITY_CLASSES, made)

    def create(self, resource: Resource, obj: Json) -> Json:
        """Create an object. Raises RejectedError."""
        made = self._admitted(resource, obj | {"kind": resource.kind}, None)
        return self.api.add(resource, made, SPACE)

    def update(self, resource: Resource, name: str, patch: Json) -> None:
        """Update an object. Raises RejectedError."""
        old = self.api.stored(resource, name, SPACE)
        assert old is not None
        new = copy.deepcopy(old)
        merged = _merged(new, patch)
        self.api.put(resource, self._admitted(resource, merged, old))

    def delete_namespace(self) -> None:
        gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubernetes"]}
        self.api.change(NAMESPACES, SPACE, {"metadata": gone, "status": {"phase": "Terminating"}})

    def delete_node(self, name: str) -> None:
        self.api.remove(NODES, name)

    def pods(self) -> list[Json]:
        return self.api.all(PODS, SPACE)

    # What Kubernetes does.

    def _live(self) -> None:
        self.api.end_pods()
        self._lister.classes = [PriorityClass.of(it) for it in self.api.all(PRIORITY_CLASSES)]
        metas = [decode_partial(encoded(it)).metadata for it in self.api.all(GROUPS[0])]
        self._lister.deleting_groups = {
            it.key: owners_of(it, it.name, "", leaving=True)
            for it in metas
            if it.deletion_timestamp
        }
        self._evict_from_nodes()
        space = self.api.stored(NAMESPACES, SPACE)
        if space is None:
            return
        if space["metadata"].get("deletionTimestamp"):
            self._empty_namespace()
            return
        for jobset in self.api.all(JOBSETS, SPACE):
            self._sync_jobset(jobset)
        for job in self.api.all(JOBS, SPACE):
            self._sync_job(job)
        for deployment in self.api.all(DEPLOYMENTS, SPACE):
            self._sync_deployment(deployment)
        for stateful_set in self.api.all(STATEFUL_SETS, SPACE):
            self._sync_stateful_set(stateful_set)

    def _evict_from_nodes(self) -> None:
        nodes = {it["metadata"]["name"]: it for it in self.api.all(NODES)}
        for pod in self.pods():
            name = pod["spec"].get("nodeName")
            node = nodes.get(name)
            taints = dig(node, "spec", "taints") or ()
            if name and node is None:
                self.api.remove(PODS, pod["metadata"]["name"], SPACE, grace=0)
            elif name and any(it["effect"] == "NoExecute" for it in taints):
                self.api.remove(PODS, pod["metadata"]["name"], SPACE)

    def _empty_namespace(self) -> None:
        for resource in _OF_NOTHING_ELSE:
            for obj in self.api.all(resource, SPACE):
                self.api.remove(resource, obj["metadata"]["name"], SPACE)
        if not any(self.api.all(resource, SPACE) for resource in _OF_NOTHING_ELSE):
            self.api.drop(NAMESPACES, SPACE)

    def _sync_jobset(self, jobset: Json) -> None:
        for replicated in defaulted(jobset)["spec"]["replicatedJobs"]:
            for index in range(replicated["replicas"]):
                job = new_job(jobset, replicated, index)
                if self.api.stored(JOBS, job["metadata"]["name"], SPACE) is None:
                    self.create(JOBS, job)

    def _sync_job(self, job: Json) -> None:
        spec, pods = job["spec"], self._owned(job)
        active = [it for it in pods if _is_active(it)]
        done = sum(it["status"].get("phase") == "Succeeded" for it in pods)
        wanted = 0 if spec.get("suspend") else min(spec["parallelism"], spec["completions"] - done)
        for _ in range(wanted - len(active)):
            self._make(new_pod(job, None))
        for pod in active[max(0, wanted) :]:
            self.api.remove(PODS, pod["metadata"]["name"], SPACE)

    def _sync_deployment(self, deployment: Json) -> None:
        """Sync with maxSurge and maxUnavailable of one, as for two to four replicas."""
        spec, pods = deployment["spec"], self._owned(deployment)
        template, replicas = str(spec["template"]), spec["replicas"]
        active = [it for it in pods if _is_active(it)]
        new = [it for it in active if _template_of(it) == template]
        old = sorted((it for it in active if it not in new), key=_is_running)
        for _ in range(min(replicas - len(new), replicas + 1 - len(active))):
            self._make(_of_app(deployment, _replica_set(deployment, template), template))
        ready = sum(map(_is_running, active))
        for pod in old:
            if not _is_running(pod) or ready > replicas - 1:
                ready -= _is_running(pod)
                self.api.remove(PODS, pod["metadata"]["name"], SPACE)
        for pod in new[replicas:]:
            self.api.remove(PODS, pod["metadata"]["name"], SPACE)
        self._count(DEPLOYMENTS, deployment, active)

    def _sync_stateful_set(self, stateful_set: Json) -> None:
        """Create missing pods together; an update replaces one pod after another, once all run."""
        template = str(stateful_set["spec"]["template"])
        name, replicas = stateful_set["metadata"]["name"], stateful_set["spec"]["replicas"]
        pods = {it["metadata"]["name"]: it for it in self._owned(stateful_set)}
        wanted = [f"{name}-{ordinal}" for ordinal in range(replicas)]
        for each in wanted:
            if each not in pods:
                self._make(_of_app(stateful_set, stateful_set, template), each)
        for each in pods.keys() - {*wanted}:
            self.api.remove(PODS, each, SPACE)
        active = [it for it in pods.values() if _is_active(it)]
        old = [it for it in active if _template_of(it) != template]
        if old and len(active) == replicas and all(map(_is_running, active)):
            self.api.remove(PODS, max(it["metadata"]["name"] for it in old), SPACE)
        self._count(STATEFUL_SETS, stateful_set, active)

    def _count(self, resource: Resource, app: Json, active: Sequence[Json]) -> None:
        template = str(app["spec"]["template"])
        new = sum(_template_of(it) == template for it in active)
        status = {"replicas": len(active), "updatedReplicas": new}
        if app.get("status") != status:
            self.api.change(resource, app["metadata"]["name"], {"status": status}, SPACE)

    def _make(self, pod: Json, name: str = "") -> None:
        """Create a pod as a controller, which a quota or a policy may reject."""
        meta = pod["metadata"]
        meta.pop("finalizers", None)
        generated = meta.pop("generateName")
        meta["name"] = name or f"{generated}{next(self._serials)}"
        if self.pods_are_refused:
            return
        try:
            self.create(PODS, pod)
        except RejectedError as error:
            self.rejected.append(str(error))

    def _owned(self, owner: Json) -> list[Json]:
        return [it for it in self.pods() if _owns(owner["metadata"]["uid"], it)]

    def _collect(self, gone: Json) -> None:
        for resource in (JOBS, PODS, *GROUPS):
            for obj in self.api.all(resource):
                if _owns(gone["metadata"]["uid"], obj):
                    meta = obj["metadata"]
                    self.api.remove(resource, meta["name"], meta.get("namespace", ""))

    def _admit_group(self, request: Request) -> None:
        for resource in GROUPS:
            if request.collection == resource.full_name:
                admitted = self._admitted(resource, request.body, None)
                request.body.clear()
                request.body.update(admitted)

    def _admitted(self, resource: Resource, obj: Json, old: Json | None) -> Json:
        kind = KindName(resource.group, resource.version, resource.plural, resource.kind)
        made: Json = copy.deepcopy(obj)
        made.setdefault("metadata", {})["namespace"] = SPACE
        for route in (it for it, said in ROUTES.items() if said.kind == kind):
            review = review_of(kind, made, old)
            answer = read(self._reviewer.review(route, encoded(review)), review)
            if not answer.allowed:
                raise RejectedError(answer.message)
            made = answer.result or made
        if resource == PODS and old is None:
            rules = replace(self._pods, priority_classes=tuple(self._lister.classes))
            if causes := rules.store(made):
                raise RejectedError(str(causes))
            made["status"] = {"phase": "Pending"}
        return made

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))


def workload(kind: KindName, name: str, pods: int, *, gang: bool, **spec: Any) -> Json:
    """Return a Job, JobSet, Deployment or StatefulSet of that many pods of one CPU.

    Plain pods are scheduled one by one.
    """
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    pod_spec = {
        "schedulerName": SCHEDULER_NAME,
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        **spec,
    }
    template: Json = {"metadata": {"labels": {"app": name}}, "spec": pod_spec}
    made: Json
    if kind not in (DEPLOYMENT, STATEFUL_SET):
        pod_spec["restartPolicy"] = "Never"
        made = {"parallelism": pods, "completions": pods, "template": template}
        if kind == JOBSET:
            made = {"replicatedJobs": [{"name": "r", "replicas": 1, "template": {"spec": made}}]}
    else:
        selector = {"matchLabels": {"app": name}}
        made = {"replicas": pods, "selector": selector, "template": template}
        if kind == STATEFUL_SET:
            made |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    notes = {"scheduling.muster.dev/gang-mode": "Gang"} if gang else {}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "annotations": notes},
        "spec": made,
    }


def _replica_set(deployment: Json, template: str) -> Json:
    """Return the ReplicaSet of a template.

    It has the Deployment's UID, so that the Deployment owns the pods directly.
    """
    meta = deployment["metadata"]
    name = f"{meta['name']}-{abs(hash(template)) % 1000}"
    return {"kind": "ReplicaSet", "metadata": {"name": name, "uid": meta["uid"]}}


def _of_app(app: Json, controller: Json, template: str) -> Json:
    """Return a pod of a Deployment or StatefulSet."""
    made = copy.deepcopy(app["spec"]["template"])
    owner = {
        "apiVersion": "apps/v1",
        "kind": controller["kind"],
        "name": controller["metadata"]["name"],
        "uid": controller["metadata"]["uid"],
        "controller": True,
    }
    said, name = made["metadata"], app["metadata"]["name"]
    notes = (said.get("annotations") or {}) | {"template": template}
    said |= {"generateName": f"{name}-", "ownerReferences": [owner], "annotations": notes}
    return {"apiVersion": "v1", "kind": POD.kind, **made}


def _template_of(pod: Json) -> str:
    return str(pod["metadata"]["annotations"]["template"])


def _owns(uid: str, obj: Json) -> bool:
    return any(it["uid"] == uid for it in obj["metadata"].get("ownerReferences") or ())


def _is_active(pod: Json) -> bool:
    over = pod["status"].get("phase") in ("Succeeded", "Failed")
    return not over and not pod["metadata"].get("deletionTimestamp")


def _is_running(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _merged(obj: Json, patch: Json) -> Json:
    """Apply a merge patch."""
    for key, value in patch.items():
        if isinstance(value, dict):
            obj[key] = _merged(obj.get(key) or {}, value)
        elif value is None:
            obj.pop(key, None)
        else:
            obj[key] = value
    return obj


def active(cluster: Cluster) -> Iterator[Json]:
    """Return the pods that are neither terminal nor terminating."""
    return (it for it in cluster.pods() if _is_active(it))
