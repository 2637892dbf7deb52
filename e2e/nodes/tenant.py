"""One user of the cluster: a namespace with Jobs, pods and groups."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from api.constants import ANNOTATION_GANG_MODE
from e2e.harness.objects import of_job
from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from e2e.nodes.cluster.cluster import RealNodes
from e2e.nodes.cluster.places import BUSYBOX

Json = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
_SLEEP = ("sleep", "86400")


def job(
    name: str,
    pods: int,
    *,
    cpu: str = "100m",
    memory: str = "32Mi",
    command: tuple[str, ...] = _SLEEP,
    gang: bool = True,
    **spec: Any,
) -> Json:
    """Return a Job whose pods start together; more keyword arguments are fields of its pods."""
    limits = {"memory": memory}
    container = {
        "name": "main",
        "image": BUSYBOX,
        "command": list(command),
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": limits},
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container | spec.pop("container", {})],
        **spec,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {ANNOTATION_GANG_MODE: "Gang"} if gang else {}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 0,
            "template": {"spec": pod},
        },
    }


class Tenant:
    """A namespace of the cluster, and what a test does in it."""

    def __init__(self, rest: Rest, nodes: RealNodes, home: Path, name: str) -> None:
        self.rest = rest
        self.nodes = nodes
        self.name = name
        self.kubectl = Kubectl(nodes.kubeconfig, home, name)

    async def open(self) -> None:
        (await self.rest.post("/api/v1/namespaces", {"metadata": {"name": self.name}})).expect(201)

        async def has_account() -> bool:  # which its pods need
            path = f"/api/v1/namespaces/{self.name}/serviceaccounts/default"
            return (await self.rest.get(path)).status == 200

        await eventually(has_account, "the namespace's account", 60)

    async def close(self) -> None:
        for name in self.nodes.workers:
            if not self.nodes.nodes[name].running:
                await self.nodes.restart(name)
        await self.kubectl("delete", "namespace", self.name, "--timeout=180s")

    async def apply(self, *objects: Json) -> None:
        await self.kubectl("create", "-f", "-", stdin={"kind": "List", "items": objects} | _V1)

    async def pods(self, job: str | None = None, labels: str | None = None) -> list[Json]:
        """Return the pods of one Job, those with these labels, or all."""
        selector = of_job(job) if job else labels
        params = {"labelSelector": selector} if selector else {}
        answer = await self.rest.get(f"/api/v1/namespaces/{self.name}/pods", params=params)
        found: list[Json] = answer.ok()["items"]
        return found

    async def running(self, job: str, count: int, timeout: float = 180) -> list[Json]:
        """Wait until that many pods of a Job run, and no others exist; return them."""
        return await self.until(
            f"{count} pods of {job} to run",
            lambda pods: [it["status"].get("phase") for it in pods] == ["Running"] * count,
            job,
            timeout,
        )

    async def until(
        self,
        what: str,
        holds: Callable[[list[Json]], bool],
        job: str | None = None,
        timeout: float = 180,
        *,
        labels: str | None = None,
    ) -> list[Json]:
        """Wait until something is so of the pods; return them."""
        found: list[Json] = []

        async def probe() -> bool:
            nonlocal found
            found = await self.pods(job, labels)
            return holds(found)

        try:
            await eventually(probe, what, timeout)
        except TimeoutError as error:
            seen = [(it["metadata"]["name"], it["status"]) for it in found]
            raise TimeoutError(f"{error}: {seen}") from error
        return found

    async def ended(self, job: str, condition: str, timeout: float = 180) -> None:
        """Wait until a Job has this condition: Complete or Failed."""
        await self.kubectl("wait", f"job/{job}", f"--for=condition={condition}", _seconds(timeout))

    async def free_cpu(self, node: str) -> int:
        """Return the millicores of a node that no pod requests."""
        found = (await self.rest.get(f"/api/v1/nodes/{node}")).ok()
        selector = {"fieldSelector": f"spec.nodeName={node}"}
        pods = (await self.rest.get("/api/v1/pods", params=selector)).ok()["items"]
        live = (it for it in pods if it["status"].get("phase") not in ("Succeeded", "Failed"))
        used = sum(_request(container) for it in live for container in it["spec"]["containers"])
        return millicores(found["status"]["allocatable"]["cpu"]) - used


def running(pods: list[Json]) -> list[Json]:
    """Return the pods that run."""
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]


def millicores(quantity: str) -> int:
    if quantity.endswith("m"):
        return int(quantity.removesuffix("m"))
    return int(quantity) * 1000


def _request(container: Json) -> int:
    return millicores(container.get("resources", {}).get("requests", {}).get("cpu", "0"))


def _seconds(timeout: float) -> str:
    return f"--timeout={timeout:.0f}s"


_V1: Json = {"apiVersion": "v1"}
