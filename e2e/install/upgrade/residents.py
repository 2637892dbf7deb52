"""Existing gangs and objects that a change of version must not affect."""

from typing import Any

from api.constants import GROUP
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members, tree
from e2e.harness.objects import (
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    Json,
    job,
    jobset,
    of_job,
    of_jobset,
    pod,
    replicated_job,
)
from e2e.harness.support.rest import Rest
from kube.client.resources import CRDS, JOBS, JOBSETS, PODS

_RUNNING = 13
_RACK = {"topology": [{"key": "example.com/rack"}]}
_GANG = {"gang": {"minCount": 2}}
_WRITTEN: tuple[tuple[str, str, Json], ...] = (
    ("v1alpha1", "Workload", {"podGroups": [{"name": "a", "policy": _GANG}]}),
    (
        "v1alpha2",
        "Workload",
        {"podGroupTemplates": [{"name": "a", "schedulingPolicy": _GANG}]},
    ),
    (
        "v1alpha3",
        "Workload",
        {
            "podGroupTemplates": [
                {
                    "name": "a",
                    "schedulingPolicy": _GANG,
                    "schedulingConstraints": _RACK,
                    "preemptionPolicy": "Never",
                }
            ]
        },
    ),
    ("v1alpha2", "PodGroup", {"workloadRef": {"name": "w"}, "podGroupTemplateName": "t"}),
)

Objects = dict[str, dict[str, tuple[str, Any]]]
"""By version and plural, then by name: the UID and the spec."""


class Residents:
    """Existing workloads in the namespace and on the nodes of `env`."""

    def __init__(self, env: Environment, rest: Rest) -> None:
        self._env = env
        self._rest = rest
        self._pods: dict[str, tuple[str, str | None]] = {}
        self._objects: Objects = {}

    async def settle_in(self) -> None:
        """Create everything, and wait until it runs or is pending."""
        env = self._env
        await env.open()
        await env.add_node(cpu=_RUNNING)
        await self._run()
        await self._wait()
        for number, (version, kind, spec) in enumerate(_WRITTEN):
            path = f"/apis/{GROUP}/{version}/namespaces/{env.name}/{kind.lower()}s"
            body = {
                "apiVersion": f"{GROUP}/{version}",
                "kind": kind,
                "metadata": {"name": f"written-{number}"},
                "spec": spec,
            }
            (await self._rest.post(path, body)).expect(201)
        self._pods = await self._places()
        self._objects = await self._stored()

    async def check(self) -> None:
        """Check that no pod was disturbed, none started, and every object is unchanged."""
        places = await self._places()
        moved = {
            name: (was, places.get(name))
            for name, was in self._pods.items()
            if places.get(name) != was
        }
        assert not moved, f"pods were disturbed or started: {moved}"
        assert places.keys() == self._pods.keys(), "there are other pods"
        for name in ("training", "set", "root"):
            await self._holds(name)
        for name in ("too-big", "broad"):
            await self._still_waits(name)
        found = await self._stored()
        assert found.keys() >= self._objects.keys(), "a version is not served any more"
        for key, objects in self._objects.items():
            changed = {
                name: (was, found[key].get(name))
                for name, was in objects.items()
                if found[key].get(name) != was
            }
            assert not changed, f"{key} read differently: {changed}"

    async def leave(self) -> None:
        await self._env.close()

    async def _run(self) -> None:
        env = self._env
        await env.create(JOBS, job("training", env.name))
        await env.create(JOBSETS, jobset("set", replicated_job("w", env.name, pods=2)))
        await tree(env, "root", 2)
        for name in ("a", "b"):
            await leaf(env, name, 2, parent="root")
        await env.create(PODS, pod("single", env.name))
        await env.runs(of_job("training"), 4)
        await env.runs(of_jobset("set"), 4)
        for name in ("a", "b"):
            await env.runs(members(name), 2)
        await env.runs("", _RUNNING)

    async def _wait(self) -> None:
        env = self._env
        await env.create(JOBS, job("too-big", env.name, pods=16))
        await tree(env, "broad", 2)
        await leaf(env, "c", 1, parent="broad")
        await leaf(env, "d", 14, parent="broad")
        await env.has_pods(of_job("too-big"), 16)
        for name in ("too-big", "broad"):
            await self._still_waits(name)

    async def _holds(self, name: str) -> None:
        kind, object_name = _group_of(name)

        async def probe() -> bool:
            status = (await self._env.client.get(kind, object_name, self._env.name))["status"]
            marks = {c["type"]: c["status"] for c in status.get("conditions") or []}
            return marks.get(f"{kind.kind}InitiallyScheduled") == "True" and not status.get(
                "blocker"
            )

        await self._env.until(f"{name} to be scheduled, as it was", probe)

    async def _still_waits(self, name: str) -> None:
        kind, object_name = _group_of(name)

        async def probe() -> bool:
            found = await self._env.client.get(kind, object_name, self._env.name)
            blocker = found.get("status", {}).get("blocker") or {}
            return blocker.get("kind") == "capacity"

        await self._env.until(f"{name} to wait for room", probe)

    async def _places(self) -> dict[str, tuple[str, str | None]]:
        """Return UID and node by the pod's name; a terminating one has no UID."""
        return {
            pod["metadata"]["name"]: (
                "deleting" if "deletionTimestamp" in pod["metadata"] else pod["metadata"]["uid"],
                pod["spec"].get("nodeName"),
            )
            for pod in await self._env.pods()
        }

    async def _stored(self) -> Objects:
        """Return every object of Muster's kinds, in every served version."""
        found: Objects = {}
        for crd in (await self._env.client.list(CRDS))["items"]:
            spec = crd["spec"]
            if not spec["group"].endswith("muster.dev") or spec["scope"] != "Namespaced":
                continue
            plural = spec["names"]["plural"]
            for version in (one["name"] for one in spec["versions"] if one["served"]):
                path = f"/apis/{spec['group']}/{version}/namespaces/{self._env.name}/{plural}"
                items = (await self._rest.get(path)).ok()["items"]
                found[f"{version}/{plural}.{spec['group']}"] = {
                    one["metadata"]["name"]: (one["metadata"]["uid"], one["spec"]) for one in items
                }
        return found


def _group_of(name: str) -> tuple[Any, str]:
    if name in ("root", "broad"):
        return COMPOSITE_POD_GROUPS, name
    return POD_GROUPS, f"pg-{name}" if name == "set" else f"pg-job-{name}"
