"""docs/upgrade.md: the objects that a downgrade leaves behind are deleted.

`e2e/install/upgrade/test_chart.py` runs the commands for Helm.
"""

from pathlib import Path

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.support import manifests
from e2e.harness.support.rest import Rest
from e2e.install.docs.reader import Reader
from e2e.install.upgrade.test_chart import BY_CHART

pytestmark = pytest.mark.timeout(300)

_PATH = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = ("validatingadmissionpolicybindings", "validatingadmissionpolicies")


@pytest.fixture
def reader(server_kind: str, cluster: Cluster, tmp_path: Path) -> Reader:
    if server_kind == "local":
        pytest.skip("the embedded server has no ValidatingAdmissionPolicies")
    return Reader("upgrade.md", cluster.kubeconfig, tmp_path)


async def test_every_command_of_the_page_works(reader: Reader, rest: Rest) -> None:
    kinds = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    await manifests.create(rest, [obj for obj in manifests.load() if obj["kind"] in kinds])
    assert await names(rest) == {
        "muster-controller-owners",
        "muster-webhook-configurations",
        "muster-webhook-definitions",
    }

    await reader.follow("Going back")

    reader.finish(elsewhere=BY_CHART)
    assert await names(rest) == set()


async def names(rest: Rest) -> set[str]:
    """Return the policies, and the bindings, of this cluster."""
    found = [(await rest.get(f"{_PATH}/{kind}")).ok()["items"] for kind in _POLICIES]
    return {obj["metadata"]["name"] for objects in found for obj in objects}
