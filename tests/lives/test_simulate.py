"""`muster simulate` decides on manifests as the scheduler does on the resulting objects.

The cluster stores them through Muster's webhooks, creates pods as Kubernetes' and JobSet's
controllers do, and lets the scheduler decide. `e2e/kubernetes/scheduler/test_stored_pods.py`
compares pods with a kube-apiserver's; its generator draws the pods here, too.
"""

import asyncio
import copy
import random
from collections import Counter

import pytest

from analysis.simulate.simulate import simulate
from analysis.simulate.stored_pods import PodAdmission
from api.constants import DEPLOYMENT, JOB, JOBSET, KindName
from api.priority import PriorityClass
from e2e.kubernetes.scheduler.test_stored_pods import GPU, RUNTIMES, Draw
from kube.base.errors import ConfigError
from kube.client.meta import Json
from kube.client.resources import DEPLOYMENTS, JOBS, JOBSETS, NODES, PODS, Resource
from scheduler.core.search.place import SearchBudget
from tests.lives.cluster import SPACE, Cluster
from tests.scheduler.crossings.build import Built
from tools.testing.effort import seeds

ZONE = "topology.kubernetes.io/zone"
KINDS: dict[KindName, Resource] = {JOB: JOBS, JOBSET: JOBSETS, DEPLOYMENT: DEPLOYMENTS}
HIGH = PriorityClass("high", 1000)

Outcome = Counter[tuple[str, str]] | None
"""Number of pods by owner and node; None if pods are rejected."""


class Manifests:
    """Nodes, and owners of pods with all relevant objects; the same for the same number."""

    def __init__(self, number: int) -> None:
        self._dice = random.Random(f"manifests {number}")
        self._draw = Draw(number)
        limit_range = self._draw.limit_range()
        limit_range["metadata"] |= {"namespace": SPACE}
        ranges = (limit_range | {"kind": "LimitRange"},) if self._chance(0.3) else ()
        self.pods = PodAdmission(
            (HIGH,),
            limit_ranges=ranges,
            runtime_classes={it["metadata"]["name"]: it for it in RUNTIMES},
            complete=True,
        )
        self._adds = "Container" in str(ranges)
        self.nodes = [self._node(f"n{at}") for at in range(self._dice.randint(2, 5))]
        self.owners = [self._owner(f"w{at}") for at in range(self._dice.randint(1, 3))]

    def _chance(self, share: float) -> bool:
        return self._dice.random() < share

    def _node(self, name: str) -> Json:
        labels = {"kubernetes.io/hostname": name, ZONE: self._dice.choice("xy")}
        labels |= {"vm": "yes"} if self._chance(0.6) else {}
        keys = [key for key in ("vm", "old") if self._chance(0.2)]
        amounts = {"cpu": str(self._dice.randint(4, 16)), "memory": "32Gi", "pods": "20", GPU: "16"}
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in keys]},
            "status": {"allocatable": amounts, "capacity": amounts},
        }

    def _owner(self, name: str) -> Json:
        kind = self._dice.choice(list(KINDS))
        notes = {}
        if self._chance(0.7):
            notes["scheduling.muster.dev/gang-mode"] = "Gang"
            if self._chance(0.4):
                notes["scheduling.muster.dev/topology"] = self._dice.choice((ZONE, "vm"))
        count = self._dice.randint(1, 4)
        spec: Json = {"template": self._template(name, kind)}
        if kind == DEPLOYMENT:
            spec |= {"replicas": count, "selector": {"matchLabels": {"of": name}}}
        else:
            spec |= {"parallelism": count, "completions": count}
        if kind == JOBSET:
            jobs = [{"name": "a", "replicas": self._dice.randint(1, 2), "template": {"spec": spec}}]
            spec = {"replicatedJobs": jobs}
        metadata = {"name": name, "namespace": SPACE, "annotations": notes}
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": metadata,
            "spec": spec,
        }

    def _template(self, name: str, kind: KindName) -> Json:
        spec = self._draw.pod(name, adds=self._adds)["spec"]
        if self._chance(0.9):
            _let_in(spec)
        if kind != DEPLOYMENT:
            spec["restartPolicy"] = "Never"
        if self._chance(0.4):
            spec["tolerations"] = [{"key": self._dice.choice(("vm", "old")), "operator": "Exists"}]
        if self._chance(0.3):
            values = [self._dice.choice("xy")]
            term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": values}]}
            required = {"nodeSelectorTerms": [term]}
            spec["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
            }
        spec["schedulerName"] = "muster-scheduler"
        return {"metadata": {"labels": {"of": name}}, "spec": spec}


def _let_in(spec: Json) -> None:
    """Remove values that are mostly rejected: a few of these are enough."""
    for field, value in (("priorityClassName", "absent"), ("runtimeClassName", "none")):
        if spec.get(field) == value:
            del spec[field]
    if spec.get("runtimeClassName") == "vm":
        spec.pop("nodeSelector", None)
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        resources = container["resources"]
        for name in resources["limits"]:
            resources["requests"].pop(name, None)


def simulated(drawn: Manifests) -> Outcome:
    built = Built({})
    for node in drawn.nodes:
        built.deliver(NODES, node)
    documents = copy.deepcopy(drawn.owners)
    try:
        simulate(built.state, documents, SPACE, SearchBudget(), drawn.pods)
    except ConfigError:
        return None
    pods = built.state.pods.values()
    return Counter((dict(it.info.labels)["of"], it.node) for it in pods if it.node)


async def decided(drawn: Manifests) -> Outcome:
    cluster = Cluster(drawn.pods)
    for node in drawn.nodes:
        cluster.api.add(NODES, copy.deepcopy(node))
    cluster.priority_class(HIGH.name, HIGH.value)
    await cluster.start()
    try:
        # All pods are created at once, after their groups, as in simulate.
        cluster.pods_are_refused = True
        for owner in drawn.owners:
            kind = next(it for it in KINDS if it.kind == owner["kind"])
            cluster.create(KINDS[kind], owner)
        await cluster.pass_time(2)
        cluster.pods_are_refused = False
        await cluster.pass_time(10)
        if cluster.rejected:
            return None
        found = cluster.api.all(PODS, SPACE)
        return Counter(
            (it["metadata"]["labels"]["of"], it["spec"]["nodeName"])
            for it in found
            if it["spec"].get("nodeName")
        )
    finally:
        await cluster.stop()


@pytest.mark.parametrize("number", seeds(12, 150))
def test_simulate_decides_as_the_scheduler(number: int) -> None:
    drawn = Manifests(number)

    assert simulated(drawn) == asyncio.run(decided(drawn))
