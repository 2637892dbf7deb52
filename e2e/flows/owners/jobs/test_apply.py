"""`kubectl apply` of an existing object changes nothing and is not rejected, in three ways."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.constants import ANNOTATION_DISRUPTION_MODE, ANNOTATION_TOPOLOGY, GROUP
from e2e.harness.controlplane import build
from e2e.harness.controlplane.places import ROOT
from e2e.harness.environment import Environment
from e2e.harness.objects import POD_GROUPS, WORKLOADS, Json, job, jobset, of_jobset, replicated_job
from e2e.harness.support.kubectl import Kubectl
from kube.client.resources import JOBS, JOBSETS, PODS, Resource
from tools.testing.effort import selected

APPLY = {
    "client-side": ["apply", "-f", "-"],
    "server-side": ["apply", "--server-side", "-f", "-"],
}
# The keys of the hints for autoscalers on pods.
ZONE = "topology.kubernetes.io/zone"
TOLD = {ANNOTATION_TOPOLOGY: ZONE, ANNOTATION_DISRUPTION_MODE: "All"}
REPLACE = "replace"
WAYS = (*APPLY, REPLACE)
ONE_OF_WAYS = selected({way: way for way in WAYS}, ("server-side",))
_COMPONENT = ROOT / "manifests" / "jobset-gangconfig"


async def submit(kubectl: Kubectl, way: str, manifest: Json) -> None:
    await (kubectl.replace(manifest) if way == REPLACE else kubectl(*APPLY[way], stdin=manifest))


async def submit_first(kubectl: Kubectl, way: str, manifest: Json) -> None:
    """Create the object: a replacement requires that it exists."""
    await kubectl(*(["create", "-f", "-"] if way == REPLACE else APPLY[way]), stdin=manifest)


def manifest(kind: str, env: Environment) -> tuple[Resource, Json, str]:
    """Return the kind, the user's manifest, and the resulting group."""
    if kind == "Job":
        made = job("t", env.name, pods=2)
        made["metadata"]["annotations"] |= TOLD
        made["metadata"]["namespace"] = env.name
        return JOBS, made, "pg-job-t"
    worker = replicated_job("w", env.name, replicas=2, pods=2)
    # JobSet v0.11.0 sets this when a JobSet is created, and rejects a client-side apply that omits
    # it, because that replaces the whole list of replicatedJobs. This applies to every JobSet.
    worker["template"]["spec"]["completionMode"] = "Indexed"
    made = jobset("a", worker, mode="Composite" if kind == "Composite" else "Gang")
    made["metadata"]["annotations"] |= TOLD
    if kind == "gangConfig":
        made["spec"]["gangConfig"] = {"gangMode": "Gang"}
        del made["metadata"]["annotations"]
    made["metadata"]["namespace"] = env.name
    return JOBSETS, made, "pg-a-w-0" if kind == "Composite" else "pg-a"


async def state(env: Environment, resource: Resource, name: str) -> dict[str, Any]:
    """Return the unchangeable state: the owner's labels, every group, every Job and pod."""
    owner = await env.client.get(resource, name, env.name)
    templates = [it["template"] for it in owner["spec"].get("replicatedJobs", [owner["spec"]])]
    found: dict[str, Any] = {"metadata": [it.get("metadata") for it in templates]}
    found["annotations"] = {
        key: value
        for key, value in owner["metadata"].get("annotations", {}).items()
        if key.startswith(GROUP)
    }
    for kind in (WORKLOADS, POD_GROUPS, PODS, JOBS):
        for obj in (await env.client.list(kind, env.name))["items"]:
            found[obj["metadata"]["uid"]] = (obj["metadata"]["name"], obj["spec"])
    return found


async def generation(env: Environment, resource: Resource, name: str) -> int:
    found = await env.client.get(resource, name, env.name)
    return int(found["metadata"]["generation"])


@pytest.mark.parametrize(
    "kind", selected({it: it for it in ("Job", "Gang", "gangConfig", "Composite")}, ("Gang",))
)
@pytest.mark.parametrize("way", WAYS)
async def test_applying_it_twice_changes_nothing(
    env: Environment, tmp_path: Path, kind: str, way: str
) -> None:
    await env.add_node(cpu=4, labels={ZONE: "a"})
    kubectl = Kubectl(env.cluster.kubeconfig, tmp_path)
    resource, made, group = manifest(kind, env)
    await submit_first(kubectl, way, made)
    await env.runs("", 2 if kind == "Job" else 4)
    await env.scheduled(group)
    name = made["metadata"]["name"]
    before = await state(env, resource, name)

    generations = []
    for _ in range(2):
        await submit(kubectl, way, await _fitted(env, resource, made, way))
        generations.append(await generation(env, resource, name))

    assert await state(env, resource, name) == before
    # JobSet's defaults disappear if a manifest without them replaces the object, as for any JobSet.
    assert generations[0] == generations[1]


@pytest.mark.parametrize("way", ONE_OF_WAYS)
async def test_a_jobset_of_ours_changes_no_more_than_a_plain_one(
    env: Environment, tmp_path: Path, way: str
) -> None:
    kubectl = Kubectl(env.cluster.kubeconfig, tmp_path)
    grew = {}
    for mode in ("Gang", None):
        _, made, _ = manifest("Gang", env)
        made["metadata"] |= {"name": f"a-{mode}".lower()}
        if mode is None:
            made["metadata"].pop("annotations")
        name = made["metadata"]["name"]
        await submit_first(kubectl, way, made)
        await env.has_pods(of_jobset(name), 4)
        before = await generation(env, JOBSETS, name)
        await submit(kubectl, way, made)
        grew[mode] = await generation(env, JOBSETS, name) - before

    assert grew["Gang"] == grew[None]


async def _fitted(env: Environment, resource: Resource, made: Json, way: str) -> Json:
    """Return the manifest with the Job's generated selector and labels, for `replace`."""
    if way != REPLACE or resource != JOBS:
        return made
    live = await env.client.get(JOBS, made["metadata"]["name"], env.name)
    spec = {**live["spec"], **{k: v for k, v in made["spec"].items() if k != "template"}}
    return made | {"spec": spec}


async def test_the_component_keeps_the_field_in_jobset_s_own_crd(
    server_kind: str, tmp_path: Path
) -> None:
    if server_kind != "real":
        pytest.skip("JobSet's CRD comes with the modules of the real control plane")
    crds = build.sources()["sigs.k8s.io/jobset"] / "config/components/crd/bases"
    shutil.copy(crds / "jobset.x-k8s.io_jobsets.yaml", tmp_path / "crd.yaml")
    shutil.copytree(_COMPONENT, tmp_path / "component")
    wanted = {"resources": ["crd.yaml"], "components": ["component"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(wanted))

    crd = yaml.safe_load(await Kubectl(None, tmp_path)("kustomize", str(tmp_path)))

    (version,) = crd["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for holder in (spec, spec["replicatedJobs"]["items"]["properties"]):
        assert holder["gangConfig"]["properties"]["gangMode"]["type"] == "string"
