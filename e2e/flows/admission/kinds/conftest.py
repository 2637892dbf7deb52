"""A namespace, and the priority classes of the table of cases."""

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.muster import Muster
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from tests.support.admission import CLASSES

Json = dict[str, Any]
CLASS_PATH = "/apis/scheduling.k8s.io/v1/priorityclasses"


@dataclass(frozen=True)
class CaseNamespace:
    """The namespace of the cases, and the paths in it."""

    namespace: str
    rest: Rest
    release: tuple[int, int] = (0, 0)

    def path(self, obj: Json, subresource: str = "") -> str:
        """Return the collection for `obj`; with a name its own path."""
        base = f"/apis/{obj['apiVersion']}/namespaces/{self.namespace}/{obj['kind'].lower()}s"
        return base + subresource


@pytest.fixture(scope="package")
def namespace(cluster: Cluster, running_muster: Muster) -> Iterator[str]:
    """One namespace for all cases: hardly any of them stores objects."""
    name = f"admission-{secrets.token_hex(3)}"
    with asyncio.Runner() as runner:
        runner.run(_open(cluster, name))
        yield name
        runner.run(_close(cluster, name))


@pytest.fixture
async def case_namespace(namespace: str, rest: Rest, muster: Muster) -> CaseNamespace:
    return CaseNamespace(namespace, rest, await rest.release())


async def _open(cluster: Cluster, name: str) -> None:
    async with Rest.open(cluster.kubeconfig) as rest:
        (await rest.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)
        for known in CLASSES:
            body = {
                "metadata": {"name": known.name},
                "value": known.value,
                "preemptionPolicy": known.preemption_policy,
            }
            (await rest.post(CLASS_PATH, body)).expect(201)
        # The webhook observes them by its watch.
        group = {
            "apiVersion": "scheduling.muster.dev/v1alpha3",
            "kind": "PodGroup",
            "metadata": {"name": "probe"},
            "spec": {
                "schedulingPolicy": {"basic": {}},
                "priorityClassName": CLASSES[-1].name,
            },
        }
        path = CaseNamespace(name, rest).path(group)

        async def accepted() -> bool:
            return (await rest.post(path, group, params={"dryRun": "All"})).status == 201

        await eventually(accepted, "the webhook to know the priority classes", 30)


async def _close(cluster: Cluster, name: str) -> None:
    async with Rest.open(cluster.kubeconfig) as rest:
        for known in CLASSES:
            (await rest.delete(f"{CLASS_PATH}/{known.name}")).ok()
        (await rest.delete(f"/api/v1/namespaces/{name}")).ok()
