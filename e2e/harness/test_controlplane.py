"""The real control plane: it starts completely, and continues after a part of it was killed."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.support.rest import Object, Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.objects import Namespace, binding, config_map, job, owner, pod

DEFAULT = Namespace("default")
JOBSETS = DEFAULT.path("jobset.x-k8s.io/v1alpha2", "jobsets")


@pytest.fixture
async def plane(server_kind: str) -> AsyncIterator[ControlPlane]:
    if server_kind != "real":
        pytest.skip("about the real control plane: run with --cluster=real")
    async with ControlPlane(Options(scheduler=True)) as running:
        yield running


def _jobset(name: str) -> Object:
    role = {
        "name": "a",
        "replicas": 1,
        "gangConfig": {"gangMode": "Gang", "dropped": 1},
        "template": {"spec": job("x", spec={"suspend": False})["spec"]},
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"gangConfig": {"gangMode": "Off"}, "replicatedJobs": [role]},
    }


@pytest.mark.long
async def test_a_jobset_runs_to_its_end_and_outlives_every_part(plane: ControlPlane) -> None:
    await plane.add_node("n1", labels={"rack": "r1"}, capacity={"example.com/gpu": "8"})
    async with plane.client() as rest:
        node = (await rest.get("/api/v1/nodes/n1")).ok()
        assert node["metadata"]["labels"]["rack"] == "r1"
        assert node["status"]["allocatable"]["example.com/gpu"] == "8"

        created = (await rest.post(JOBSETS, _jobset("train"))).expect(201)
        assert created["spec"]["gangConfig"] == {"gangMode": "Off"}
        assert created["spec"]["replicatedJobs"][0]["gangConfig"] == {"gangMode": "Gang"}
        await eventually(lambda: _running(rest, 1), "the JobSet's pod to run", 20)

    await plane.stop_apiserver()
    plane.kill("jobset")
    with pytest.raises(aiohttp.ClientError):
        async with plane.client() as rest:
            await rest.get("/readyz")
    await plane.start_apiserver()
    await plane.restart("jobset")

    assert await plane.finish_pods("default", "jobset.sigs.k8s.io/jobset-name=train") == 1
    async with plane.client() as rest:
        await eventually(lambda: _completed(rest, "train"), "the JobSet to complete", 30)
    await plane.remove_node("n1")


async def _running(rest: Rest, count: int) -> bool:
    pods = (await rest.get(DEFAULT.pods())).ok()["items"]
    return [pod["status"]["phase"] for pod in pods].count("Running") == count


async def _completed(rest: Rest, name: str) -> bool:
    read = (await rest.get(f"{JOBSETS}/{name}")).ok()
    return bool(read.get("status", {}).get("terminalState") == "Completed")


@pytest.mark.long
async def test_pods_end_in_the_phase_that_is_asked_for(plane: ControlPlane) -> None:
    await plane.add_node("n1")
    async with plane.client() as rest:
        for name in ("good", "bad"):
            (await rest.post(DEFAULT.pods(), pod(name, labels={"name": name}))).expect(201)
            await rest.post(f"{DEFAULT.pods(name)}/binding", binding(name, "n1"))
        await eventually(lambda: _running(rest, 2), "the pods to run", 20)
        await plane.finish_pods("default", "name=good", "Succeeded")
        await plane.finish_pods("default", "name=bad", "Failed")

        async def ended() -> bool:
            pods = (await rest.get(DEFAULT.pods())).ok()["items"]
            phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods}
            return phases == {"good": "Succeeded", "bad": "Failed"}

        await eventually(ended, "the pods to end", 20)


@pytest.mark.long
async def test_owner_permissions_are_enforced(plane: ControlPlane) -> None:
    """A user who may not finalize the owner may not block its deletion."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "maker"},
        "rules": rules,
    }
    bound = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "maker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maker"},
        "subjects": [{"kind": "User", "name": "maker", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    rbac = "rbac.authorization.k8s.io/v1"
    async with plane.client() as rest:
        (await rest.post(DEFAULT.path(rbac, "roles"), role)).expect(201)
        (await rest.post(DEFAULT.path(rbac, "rolebindings"), bound)).expect(201)
        parent = (await rest.post(DEFAULT.jobs(), job("parent"))).expect(201)
        headers = {"Impersonate-User": "maker"}

        async def create(name: str, *, block: bool) -> int:
            body = config_map(name, ownerReferences=[owner(parent, block=block)])
            return (await rest.post(DEFAULT.config_maps(), body, headers=headers)).status

        async def allowed() -> bool:
            return await create("free", block=False) == 201

        await eventually(allowed, "the role to be in force")
        assert await create("blocking", block=True) == 403
