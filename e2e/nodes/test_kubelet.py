"""What kubelets do to running pods: resize, reject and evict them, and mount local volumes."""

import json

from e2e.harness.support.waiting import eventually
from e2e.nodes.cluster.places import BUSYBOX
from e2e.nodes.cordon import cordoned
from e2e.nodes.tenant import HOSTNAME, Json, Tenant, job, running

_LOCAL = "local-of-muster-e2e"


async def test_a_pod_counts_with_the_size_that_it_was_resized_to(tenant: Tenant) -> None:
    node = tenant.nodes.workers[0]
    free = await tenant.free_cpu(node)
    here = {HOSTNAME: node}
    await tenant.apply(job("held", 1, cpu=f"{free - 100}m", gang=False, nodeSelector=here))
    (held,) = await tenant.running("held", 1)
    await tenant.apply(job("gang", 2, cpu="150m", nodeSelector=here))
    await _waits(tenant, "gang", 2)

    await _resize(tenant, held, f"{free - 400}m")
    await tenant.running("gang", 2)

    await tenant.kubectl("delete", "job", "gang", "--timeout=60s")
    await _resize(tenant, held, f"{free - 200}m")
    await tenant.apply(job("again", 2, cpu="150m", nodeSelector=here))
    await _waits(tenant, "again", 2)


async def test_pods_that_a_kubelet_rejects_are_replaced_and_placed_elsewhere(
    tenant: Tenant,
) -> None:
    """A pod that another scheduler binds late is older than the gang's, and so is admitted."""
    node, other = tenant.nodes.workers
    rival = _pod("rival", f"{await tenant.free_cpu(node)}m")
    await tenant.apply(rival)
    gang = job("gang", 2, cpu="200m")
    gang["spec"]["backoffLimit"] = 6
    # A kubelet admits pods in the order of their creation times, which are whole seconds.
    await _second_after(tenant, "rival")
    async with cordoned(tenant.kubectl, other):
        with tenant.nodes.without_kubelet(node):
            await tenant.apply(gang)
            await tenant.until("both to have a node", lambda pods: _nodes(pods) == {node}, "gang")
            await _bind(tenant, "rival", node)

    replaced = await tenant.until(
        "2 pods to run on the other node",
        lambda pods: [it["spec"].get("nodeName") for it in running(pods)] == [other] * 2,
        "gang",
    )
    assert "OutOfcpu" in {pod["status"].get("reason") for pod in replaced}


async def test_a_pod_that_its_kubelet_evicts_is_replaced(tenant: Tenant) -> None:
    fill = "sleep 15; [ $JOB_COMPLETION_INDEX != 0 ] || dd if=/dev/zero of=/scratch/f bs=1M count=9"
    scratch: Json = {"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}
    gang = job(
        "writes",
        2,
        command=("sh", "-c", f"{fill}; sleep 86400"),
        container={"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
        volumes=[scratch],
    )
    gang["spec"] |= {"completionMode": "Indexed", "backoffLimit": 6}
    await tenant.apply(gang)

    await tenant.until(
        "one to be evicted, and two to run again",
        lambda pods: (
            "Evicted" in {it["status"].get("reason") for it in pods} and len(running(pods)) == 2
        ),
        "writes",
    )


async def test_a_gang_runs_where_its_local_volume_is(tenant: Tenant) -> None:
    node = tenant.nodes.workers[1]
    await tenant.kubectl("create", "-f", "-", stdin=_storage_class())
    await tenant.kubectl("create", "-f", "-", stdin=_local_volume(node))
    try:
        await tenant.apply(_claim("data"))
        data: Json = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        await tenant.apply(job("reads", 2, container=mounts, volumes=[data]))

        assert _nodes(await tenant.running("reads", 2)) == {node}
        await tenant.kubectl("delete", "job", "reads", "--timeout=60s")
        await tenant.kubectl("delete", "pvc", "data", "--timeout=60s")
    finally:
        await tenant.kubectl("delete", "pv", _LOCAL, "--timeout=60s")
        await tenant.kubectl("delete", "storageclass", _LOCAL)


async def _waits(tenant: Tenant, name: str, count: int) -> None:
    """Wait until Muster has said why no pod of the Job has a node."""

    def refused(pods: list[Json]) -> bool:
        found = [it["type"] for pod in pods for it in pod["status"].get("conditions", [])]
        return found.count("PodScheduled") == count

    assert _nodes(await tenant.until(f"{name} to wait", refused, name)) == {None}


async def _resize(tenant: Tenant, pod: Json, cpu: str) -> None:
    """Change what the pod requests, and wait until its kubelet has allocated it."""
    name = pod["metadata"]["name"]
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    patch = f"--patch={json.dumps(change)}"
    await tenant.kubectl("patch", "pod", name, "--subresource=resize", patch)

    def allocated(pods: list[Json]) -> bool:
        (status,) = pods[0]["status"]["containerStatuses"]
        found: str = status.get("allocatedResources", {}).get("cpu", "")
        return found == cpu

    await tenant.until(f"{name} to have {cpu}", allocated, "held")


async def _bind(tenant: Tenant, name: str, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"metadata": {"name": name}, "target": target}
    path = f"/api/v1/namespaces/{tenant.name}/pods/{name}/binding"
    (await tenant.rest.post(path, body)).expect(201)


async def _second_after(tenant: Tenant, name: str) -> None:
    """Wait until new objects have a later creation time than this pod."""
    probe: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "now"}}
    path = f"/api/v1/namespaces/{tenant.name}"
    created = (await tenant.rest.get(f"{path}/pods/{name}")).ok()["metadata"]["creationTimestamp"]

    async def later() -> bool:
        answer = await tenant.rest.post(f"{path}/configmaps", probe, params={"dryRun": "All"})
        now = answer.expect(201)["metadata"]["creationTimestamp"]
        return bool(now > created)

    await eventually(later, "the next second", 10)


def _nodes(pods: list[Json]) -> set[str | None]:
    return {pod["spec"].get("nodeName") for pod in pods}


def _pod(name: str, cpu: str) -> Json:
    container = {
        "name": "main",
        "image": BUSYBOX,
        "command": ["sleep", "86400"],
        "resources": {"requests": {"cpu": cpu}},
    }
    spec = {
        "schedulerName": "another-scheduler",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _storage_class() -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": _LOCAL},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _local_volume(node: str) -> Json:
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": _LOCAL},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": _LOCAL,
            "local": {"path": "/srv"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }


def _claim(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": _LOCAL,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
