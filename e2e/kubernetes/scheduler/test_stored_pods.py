"""Pods in a simulation have the same requests as when a kube-apiserver stores them.

Both process random pods, LimitRanges and RuntimeClasses, and both reject the same.
"""

import copy
import random
from typing import Any, Final

import pytest

from analysis.simulate.stored_pods import PodAdmission
from api.priority import PriorityClass
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from scheduler.decoding import decode
from scheduler.decoding.objects import pod_of

Json = dict[str, Any]

SEED: Final = 20261128
GPU: Final = "nvidia.com/gpu"
AMOUNTS: Final = {"cpu": ("250m", "1", "1500m", "4"), "memory": ("64Mi", "1Gi", "4Gi")}
RUNTIMES: Final[list[Json]] = [
    {"metadata": {"name": "plain"}, "handler": "h"},
    {
        "metadata": {"name": "vm"},
        "handler": "h",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
        "scheduling": {
            "nodeSelector": {"vm": "yes"},
            "tolerations": [{"key": "vm", "operator": "Exists", "effect": "NoSchedule"}],
        },
    },
]
OF_NODES: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Tolerations that every pod gets, with a limited time."""


class Draw:
    """Random pods and LimitRanges, the same for the same seed."""

    def __init__(self, number: int) -> None:
        self._dice = random.Random(f"{SEED}/{number}")

    def _chance(self, share: float) -> bool:
        return self._dice.random() < share

    def _some(self, share: float) -> Json:
        return {
            name: self._dice.choice(said) for name, said in AMOUNTS.items() if self._chance(share)
        }

    def limit_range(self) -> Json:
        limits: list[Json] = []
        if self._chance(0.7):
            said = {key: self._some(0.4) for key in ("default", "defaultRequest", "min", "max")}
            limits.append({"type": "Container"} | {key: it for key, it in said.items() if it})
        if self._chance(0.4):
            limits.append({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}})
        if self._chance(0.4):
            limits.append({"type": "Pod", "max": self._some(0.5), "min": self._some(0.2)})
        return {"metadata": {"name": "r"}, "spec": {"limits": limits}}

    def pod(self, name: str, *, adds: bool) -> Json:
        """Return a pod; with `adds` a LimitRange adds requests that exceed a pod-level request."""
        spec: Json = {"containers": [self._container(at) for at in range(self._dice.randint(1, 3))]}
        if self._chance(0.3):
            spec["initContainers"] = [self._container(7), self._container(8) | self._sidecar()]
        if self._chance(0.4):
            spec["hostNetwork"] = True
        if self._chance(0.2) and not adds:
            spec["resources"] = {"limits": {"cpu": "64", "memory": "64Gi"}}
        if self._chance(0.3):
            spec["runtimeClassName"] = self._dice.choice(("plain", "vm", "none"))
        if self._chance(0.2):
            spec["nodeSelector"] = {"vm": self._dice.choice(("yes", "no"))}
        if self._chance(0.3):
            spec["priorityClassName"] = self._dice.choice(("high", "absent"))
        return {"metadata": {"name": name}, "spec": spec}

    def _sidecar(self) -> Json:
        return {"restartPolicy": "Always"} if self._chance(0.5) else {}

    def _container(self, at: int) -> Json:
        resources = {key: self._some(0.4) for key in ("requests", "limits")}
        if self._chance(0.3):
            resources["limits"][GPU] = "8"
        made: Json = {"name": f"c{at}", "image": "none", "resources": resources}
        if self._chance(0.4):
            made["ports"] = [{"containerPort": 2000 + at}]
        return made


def admitted(spec: Json) -> Json:
    """Return a stored spec without the parts that every pod gets."""
    tolerations = [it for it in spec.get("tolerations") or () if it.get("key") not in OF_NODES]
    return spec | {"tolerations": tolerations, "schedulerName": "muster-scheduler"}


def asked(spec: Json) -> tuple[object, ...]:
    """Return the scheduler's view of it."""
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": admitted(spec)}
    info = decode.pod_info(pod_of(pod))
    return info.requirements, info.priority


async def theirs(rest: Rest, namespace: str, pod: Json) -> tuple[object, ...] | str:
    """Return the stored requirements, or the error message."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    answer = await rest.post(path, pod, params={"dryRun": "All"})
    body = answer.body
    return asked(body["spec"]) if answer.status < 300 else str(body["message"])


def ours(pods: PodAdmission, namespace: str, pod: Json) -> tuple[object, ...] | str:
    made = copy.deepcopy(pod)
    made["metadata"]["namespace"] = namespace
    causes = pods.store(made)
    return "; ".join(cause.message for cause in causes) if causes else asked(made["spec"])


@pytest.mark.timeout(600)
async def test_pods_are_stored_as_by_a_kube_apiserver(server_kind: str, long: bool) -> None:
    if server_kind != "real":
        pytest.skip("a kube-apiserver needs a real control plane")
    options = Options(controllers=False, kwok=False, jobset=False, scheduler=False)
    stored = rejected = 0
    differences: list[str] = []
    async with ControlPlane(options) as plane, plane.client() as rest:
        await _create_classes(rest)
        known = PodAdmission(
            (PriorityClass("high", 1000),),
            runtime_classes={it["metadata"]["name"]: it for it in RUNTIMES},
            complete=True,
        )
        for number in range(50 if long else 20):
            draw, namespace = Draw(number), f"n{number}"
            limit_range = draw.limit_range()
            (await rest.post("/api/v1/namespaces", {"metadata": {"name": namespace}})).ok()
            path = f"/api/v1/namespaces/{namespace}/limitranges"
            answer = await rest.post(path, limit_range)
            if answer.status >= 300:
                continue  # Its bounds contradict each other.
            of_namespace = known.with_manifests(
                [{"kind": "LimitRange", **limit_range} | _named(namespace)]
            )
            for at in range(10):
                pod = draw.pod(f"p{at}", adds="Container" in str(limit_range))
                said, mine = await theirs(rest, namespace, pod), ours(of_namespace, namespace, pod)
                stored += not isinstance(said, str)
                rejected += isinstance(said, str)
                if isinstance(said, str) != isinstance(mine, str) or (
                    not isinstance(said, str) and said != mine
                ):
                    differences.append(f"{number}/{at}: {pod} {limit_range}\n  {said}\n  {mine}")

    assert not differences, "\n".join(differences[:5])
    assert stored > 20
    assert rejected > 20


def _named(namespace: str) -> Json:
    return {"metadata": {"name": "r", "namespace": namespace}}


async def _create_classes(rest: Rest) -> None:
    for made in RUNTIMES:
        (await rest.post("/apis/node.k8s.io/v1/runtimeclasses", made)).ok()
    high = {"metadata": {"name": "high"}, "value": 1000}
    (await rest.post("/apis/scheduling.k8s.io/v1/priorityclasses", high)).ok()
    spec = {"containers": [{"name": "c", "image": "none"}], "priorityClassName": "high"}

    async def is_seen() -> bool:
        return not isinstance(
            await theirs(rest, "default", {"metadata": {"name": "p"}, "spec": spec}), str
        )

    await eventually(is_seen, "the PriorityClass")
