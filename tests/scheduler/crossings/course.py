"""Complete courses: a scheduler process on an API server in memory, and the events around it.

Workloads are created and deleted, pods end, nodes are lost, writes fail, the leader is killed
between two writes and another takes over. Bound pods are checked whenever the cluster has settled.
"""

import asyncio
import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from structlog.testing import capture_logs

from api.constants import NATIVE_GROUP_KINDS
from kube.base.errors import ApiError, Conflict, Unreachable
from kube.base.settings import LeaderElection
from kube.client.meta import Json
from kube.client.resources import (
    NODES,
    PODS,
    PVCS,
    PVS,
    RESOURCE_CLAIMS,
    Resource,
)
from scheduler.app import Scheduler
from scheduler.support.config import Config, Status
from scheduler.support.kinds import GROUP_RESOURCES
from tests.scheduler.crossings.checks import lasting
from tests.scheduler.crossings.cluster import Cluster
from tests.scheduler.crossings.draw import Entry, Instance, draw
from tests.scheduler.crossings.objects import (
    CSI,
    DRIVER,
    at,
    claim_object,
    group_objects,
    kind_of_group,
    named,
    node_objects,
    objects,
    pod_object,
)
from tests.support.clock import FakeClock, settle
from tests.support.memory_api import Event, MemoryApi

_ELECTION: Final = LeaderElection()
_CONFIG: Final = Config(status=Status(delay_seconds=0.1, busy_seconds=0.5, pods_seconds=1))
_STEP: Final = 0.25
_REST: Final = 6.0
"""Virtual seconds until the cluster settles; a new leader waits for the lease."""

_BIND_TIMEOUT: Final = 160.0
_INJECTED: Final = ("injected", "somebody was first", "gone")
"""The texts of injected errors, which the log may contain too."""
_BAD: Final = ("error", "critical")


class Course:
    """One course; `complaints` are its failures."""

    def __init__(self, seed: str, acts: int = 12) -> None:
        self.seed, self.acts = seed, acts
        self.dice = random.Random(seed)
        self.clock = FakeClock()
        self.server = MemoryApi(self.clock)
        self.instance: Instance = {}
        self.disturbed: set[str] = set()
        self.complaints: list[str] = []
        self.log: list[str] = []
        self.bound: set[str] = set()
        self.serial = 0
        self._task: asyncio.Task[None] | None = None
        self._client: MemoryApi | None = None
        self._died = asyncio.Event()
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Play it to the end, or to the first failure."""
        self._begin()
        with capture_logs() as logs:
            self._lead()
            try:
                await self._rest()
                for _ in range(self.acts):
                    self._act()
                    await self._pass(self.dice.choice((0, 0, 0.25, 0.5, 1, _REST)))
                    if self.complaints:
                        return
                await self._calm()
            finally:
                await self._end()
        for entry in logs:
            expected = any(it in str(entry) for it in _INJECTED)
            if "exc_info" in entry or (entry["log_level"] in _BAD and not expected):
                self.complaints.append(f"the log says {entry}"[:600])

    # The process.

    def _lead(self) -> None:
        self._client = client = MemoryApi(self.clock, served=NATIVE_GROUP_KINDS)
        client.join(self.server)
        self._died = asyncio.Event()
        scheduler = Scheduler(client, _CONFIG, _ELECTION, clock=self.clock)
        self._scheduler = scheduler
        self._task = asyncio.ensure_future(scheduler.run(self._stop))

    async def _end(self) -> None:
        if self._task is not None and self._client is not None:
            self._task.cancel()
            result = (await asyncio.gather(self._task, return_exceptions=True))[0]
            if not isinstance(result, asyncio.CancelledError | None):
                self.complaints.append(f"the process ended: {result!r}")
            self._client.disconnect()
            self._task = self._client = None

    async def _restart(self) -> None:
        await self._end()
        self._lead()

    async def _pass(self, seconds: float) -> None:
        for _ in range(max(1, round(seconds / _STEP))):
            if self._died.is_set():
                await self._restart()
            await settle()
            await self.clock.advance(_STEP)
            self.server.end_pods()
            if self._task is not None and self._task.done():
                await self._end()
                return
        self._judge()

    async def _rest(self) -> None:
        await self._pass(_REST)

    def _judge(self) -> None:
        details = [*self._scheduler.details()]
        if details:
            self.complaints.append(f"details: {details}")
        self.complaints += lasting(self._cluster(), self.bound)

    async def _calm(self) -> None:
        """Check without disturbances: no gang remains half-bound, and no eviction is needless."""
        assert self._client is not None
        self._client.recover()
        await self._rest()
        await self._rest()
        half = self._half()
        if half:
            await self._pass(_BIND_TIMEOUT)
            half = self._half()
        self.complaints += (f"{it} stays half bound" for it in half)
        evicted, bound = self.log.count("evict"), self.log.count("bind")
        await self._pass(30)
        evicted, bound = self.log.count("evict") - evicted, self.log.count("bind") - bound
        if evicted > 3 * len(self.instance.get("pods", ())) and not bound:
            self.complaints.append(f"{evicted} pods were evicted, and none bound")

    def _half(self) -> list[str]:
        """Return undisturbed gangs that run below their minimum."""
        cluster, found = self._cluster(), []
        for group in cluster.groups.values():
            root = cluster.above(group["name"])[-1]["name"]
            if group.get("composite") or root in self.disturbed or not self._there(group["name"]):
                continue
            members = [it for it in cluster.pods.values() if it.get("group") == group["name"]]
            running = sum(bool(it.get("node")) for it in members)
            least = 1 if group.get("basic") else group.get("min", 1)
            if 0 < running < min(least, len(members)) and not group.get("expects"):
                found.append(group["name"])
        return found

    def _there(self, group: str) -> bool:
        kinds = GROUP_RESOURCES.values()
        return any(self.server.stored(it, *at(group)) is not None for it in kinds)

    def _cluster(self) -> Cluster:
        """Return the server's objects as an instance."""
        shown = dict(self.instance)
        pods, claims = [], []
        for pod in shown.get("pods", ()):
            stored = self.server.stored(PODS, *at(pod["name"]))
            if stored is not None:
                now = {
                    key: it for key, it in pod.items() if key not in ("node", "phase", "deleted")
                }
                now |= {"phase": stored["status"].get("phase", "Pending")}
                if stored["spec"].get("nodeName"):
                    now["node"] = stored["spec"]["nodeName"]
                if stored["metadata"].get("deletionTimestamp"):
                    now["deleted"] = True
                pods.append(now)
        for claim in shown.get("claims", ()):
            stored = self.server.stored(RESOURCE_CLAIMS, *at(claim["name"]))
            if stored is not None:
                claims.append({k: v for k, v in claim.items() if k != "given"} | _given(stored))
        nodes = [
            it for it in shown.get("nodes", ()) if self.server.stored(NODES, it["name"]) is not None
        ]
        pvcs = []
        for claim in shown.get("pvcs", ()):
            stored = self.server.stored(PVCS, *at(claim["name"])) or {"spec": {}}
            pvcs.append(claim | {"volume": stored["spec"].get("volumeName", "")})
        return Cluster(shown | {"pods": pods, "claims": claims, "nodes": nodes, "pvcs": pvcs})

    # What happens.

    def _begin(self) -> None:
        self.instance = draw(self.seed)
        for pod in self.instance.get("pods", ()):
            if pod.get("node") and pod.get("group"):
                self._disturb(pod)
        leaving = [it["name"] for it in self.instance.get("pods", ()) if it.pop("deleted", False)]
        for kind, obj in objects(self.instance):
            self.server.put(kind, obj)
        for name in leaving:
            self.server.remove(PODS, *at(name), grace=30)
        self.server.follow(PODS, self._pod_changed)
        self.server.follow(PVS, self._volume_changed)
        self.server.follow(PVCS, self._pvc_changed)

    def _act(self) -> None:
        act = self.dice.choice(
            (self._comes, self._comes, self._comes, self._goes, self._goes, self._ends,
             self._node, self._minimum, self._ungate, self._fails, self._fails, self._dies,
             self._dies, self._cordon)
        )  # fmt: skip
        self.log.append(act.__name__)
        act()

    def _comes(self) -> None:
        """Create other workloads."""
        self.serial += 1
        more = draw(f"{self.seed}/{self.serial}")
        known = {it["name"] for it in self.instance.get("pvcs", ())}
        for age, group in enumerate(_renamed(more, self.serial)["groups"]):
            self.instance.setdefault("groups", []).append(group)
            more_claims = {"claims": _renamed(more, self.serial)["claims"]}
            for kind, obj in group_objects(group, more_claims, 100 * self.serial + age):
                self.server.put(kind, obj)
        for claim in _renamed(more, self.serial)["claims"]:
            self.instance.setdefault("claims", []).append(claim)
            self.server.put(RESOURCE_CLAIMS, claim_object(claim, {}))
        for age, pod in enumerate(_renamed(more, self.serial)["pods"]):
            pod["volumes"] = [it for it in pod.get("volumes", ()) if it in known]
            self.instance.setdefault("pods", []).append(pod)
            self.server.put(PODS, pod_object(pod, 100 * self.serial + age))

    def _pods(self, *, bound: bool | None = None) -> list[Entry]:
        return [
            it
            for it in self.instance.get("pods", ())
            if (stored := self.server.stored(PODS, *at(it["name"]))) is not None
            and bound in (None, bool(stored["spec"].get("nodeName")))
        ]

    def _goes(self) -> None:
        pods = self._pods()
        if pods:
            pod = self.dice.choice(pods)
            self._disturb(pod)
            self.server.remove(PODS, *at(pod["name"]), grace=self.dice.choice((0, 0, 30)))

    def _ends(self) -> None:
        pods = self._pods(bound=True)
        if pods:
            pod = self.dice.choice(pods)
            self._disturb(pod)
            phase = self.dice.choice(("Succeeded", "Succeeded", "Failed"))
            self._change(PODS, pod["name"], {"status": {"phase": phase}})

    def _node(self) -> None:
        """Lose a node with its pods, or add another."""
        nodes = [it for it in self.instance["nodes"] if self.server.stored(NODES, it["name"])]
        if len(nodes) > 1 and self.dice.random() < 0.6:
            node = self.dice.choice(nodes)
            self.server.remove(NODES, node["name"])
            for pod in self._pods(bound=True):
                stored = self.server.stored(PODS, *at(pod["name"]))
                if stored is not None and stored["spec"]["nodeName"] == node["name"]:
                    self._disturb(pod)
                    self.server.remove(PODS, *at(pod["name"]), grace=0)
            # Pods that are being bound there are disturbed as well.
            self.disturbed |= {Cluster(self.instance).root(it) for it in self._pods(bound=False)}
            return
        self.serial += 1
        node = draw(f"{self.seed}/n{self.serial}")["nodes"][0] | {"name": f"n{self.serial}x"}
        self.instance["nodes"].append(node)
        for kind, obj in node_objects(node):
            self.server.put(kind, obj)

    def _cordon(self) -> None:
        nodes = [it for it in self.instance["nodes"] if self.server.stored(NODES, it["name"])]
        if nodes:
            node = self.dice.choice(nodes)
            patch = {"spec": {"unschedulable": self.dice.random() < 0.5}}
            self.server.change(NODES, node["name"], patch)
            node["cordoned"] = patch["spec"]["unschedulable"]

    def _minimum(self) -> None:
        groups = [it for it in self.instance.get("groups", ()) if not it.get("basic")]
        if groups:
            group = self.dice.choice(groups)
            group["min"] = self.dice.randint(1, 4)
            self.disturbed.add(Cluster(self.instance).above(group["name"])[-1]["name"])
            field = "minGroupCount" if group.get("composite") else "minCount"
            patch = {"spec": {"schedulingPolicy": {"gang": {field: group["min"]}}}}
            self._change(kind_of_group(group), group["name"], patch)

    def _ungate(self) -> None:
        for pod in self._pods(bound=False):
            if pod.pop("gated", False):
                patch = {"spec": {"schedulingGates": None}}
                self._change(PODS, pod["name"], patch)

    def _fails(self) -> None:
        """Let the next writes of some kind fail, though some of them are carried out."""
        assert self._client is not None
        error = self.dice.choice(
            (Unreachable("memory", "", "gone"), Conflict(409, "Conflict", "somebody was first"),
             ApiError(500, "InternalError", "injected"))
        )  # fmt: skip
        kind = self.dice.choice((PODS, PODS, RESOURCE_CLAIMS, PVCS, None))
        answered = self.dice.random() < 0.5 and not isinstance(error, Conflict)
        times = self.dice.randint(1, 4)
        match: dict[str, Any] = {"of": kind} if kind is not None else {}
        verbs = ("create", "patch", "delete")
        self._client.fail(*[error] * times, verbs=verbs, answered=answered, **match)

    def _dies(self) -> None:
        """Kill the leader: now, before one of its next writes, or before the response."""
        if self.dice.random() < 0.2:
            self._died.set()
            return
        assert self._client is not None
        died = self._died

        async def dies(_request: object) -> None:
            died.set()
            await asyncio.Event().wait()

        kind: Resource | None = self.dice.choice((PODS, PODS, RESOURCE_CLAIMS, None))
        self._client.on(
            dies, "create", "patch", "delete", of=kind, nth=self.dice.randint(1, 5),
            answered=self.dice.random() < 0.5, fails=True,
        )  # fmt: skip

    def _disturb(self, pod: Entry) -> None:
        self.disturbed.add(Cluster(self.instance).root(pod))

    def _change(self, kind: Resource, name: str, patch: Json) -> None:
        short, namespace = at(name)
        self.server.change(kind, short, patch, namespace)

    # What kube-controller-manager does.

    def _pod_changed(self, event: Event, kind: str) -> None:
        name, before = _name(event.obj), event.before
        node = event.obj["spec"].get("nodeName")
        if node and before is not None and not before["spec"].get("nodeName"):
            self.bound.add(name)
            self.log.append("bind")
            self.log.append(f"{name} is bound to {node}")
        pod = next((it for it in self.instance.get("pods", ()) if it["name"] == name), None)
        deleted = event.obj["metadata"].get("deletionTimestamp")
        if deleted and before is not None and not before["metadata"].get("deletionTimestamp"):
            self.log.append("evict")
            self.log.append(f"{name} is deleted")
            if pod is not None:
                self._disturb(pod)
        if kind == "DELETED":
            self._release(name)

    def _release(self, pod: str) -> None:
        """Delete the pod's own claims; remove it from others, and free those without users."""
        name, namespace = at(pod)
        for claim in self.server.all(RESOURCE_CLAIMS, namespace):
            meta, status = claim["metadata"], claim.get("status") or {}
            if any(it["name"] == name for it in meta.get("ownerReferences", ())):
                self.server.drop(RESOURCE_CLAIMS, meta["name"], namespace)
                continue
            users = [it for it in status.get("reservedFor") or () if it["name"] != name]
            if len(users) != len(status.get("reservedFor") or ()):
                status = status | {"reservedFor": users} if users else {}
                self.server.put(RESOURCE_CLAIMS, copy.deepcopy(claim) | {"status": status})

    def _volume_changed(self, event: Event, _kind: str) -> None:
        ref = event.obj["spec"].get("claimRef")
        claim = self.server.stored(PVCS, ref["name"], ref["namespace"]) if ref else None
        if claim is not None and not claim["spec"].get("volumeName"):
            self._bind(claim, event.obj["metadata"]["name"])

    def _pvc_changed(self, event: Event, _kind: str) -> None:
        """Provision a volume for the selected node."""
        claim, meta = event.obj, event.obj["metadata"]
        node = meta.get("annotations", {}).get("volume.kubernetes.io/selected-node")
        stored = self.server.stored(NODES, node) if node else None
        if claim["spec"].get("volumeName") or stored is None:
            return
        name = f"pv-{meta['namespace']}-{meta['name']}"
        self.instance.setdefault("volumes", []).append({"name": name, "claim": _name(claim)})
        ref = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
        spec: Json = {"capacity": {"storage": "1Gi"}, "accessModes": claim["spec"]["accessModes"]}
        spec |= {"claimRef": ref, "csi": {"driver": CSI, "volumeHandle": name}}
        spec["storageClassName"] = claim["spec"]["storageClassName"]
        self.server.put(PVS, {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": spec})

    def _bind(self, claim: Json, volume: str) -> None:
        meta = claim["metadata"]
        done = {"pv.kubernetes.io/bind-completed": "yes"}
        annotations = {"annotations": meta.get("annotations", {}) | done}
        spec = claim["spec"] | {"volumeName": volume}
        bound = claim | {"metadata": meta | annotations, "spec": spec, "status": {"phase": "Bound"}}
        self.server.put(PVCS, bound)


def _name(obj: Json) -> str:
    return named(obj["metadata"]["name"], obj["metadata"]["namespace"])


def _given(claim: Json) -> Entry:
    """Return the allocation of a ResourceClaim in the format of an instance."""
    allocation = (claim.get("status") or {}).get("allocation")
    if not allocation:
        return {}
    given = []
    for result in allocation["devices"]["results"]:
        assert result["driver"] == DRIVER
        option = int(result["request"].rpartition("/o")[2]) if "/" in result["request"] else 0
        amounts = [int(it) for it in (result.get("consumedCapacity") or {}).values()]
        given.append([result["pool"], result["device"], option, sum(amounts)])
    return {"given": given}


def _renamed(instance: Mapping[str, Any], serial: int) -> dict[str, list[Entry]]:
    """Return the pending workloads under other names."""

    def new(name: str) -> str:
        short, namespace = at(name)
        return named(f"{short}x{serial}", namespace)

    def renamed(entries: Iterator[Entry]) -> list[Entry]:
        found = []
        for entry in entries:
            changed: Entry = {
                k: new(entry[k]) for k in ("name", "group", "parent", "owner") if entry.get(k)
            }
            if entry.get("claims"):
                changed["claims"] = [new(it) for it in entry["claims"]]
            found.append(copy.deepcopy(entry) | changed)
        return found

    pods = [it for it in instance.get("pods", ()) if not it.get("node") and not it.get("nominated")]
    claims = [it for it in instance.get("claims", ()) if not it.get("given")]
    groups = [it for it in instance.get("groups", ()) if it["name"][0] == "g"]
    there = {it["name"] for it in pods} | {None}
    claims = [it for it in claims if it.get("owner") in there]
    return {
        "pods": renamed(iter(pods)),
        "claims": renamed(iter(claims)),
        "groups": renamed(iter(groups)),
    }
