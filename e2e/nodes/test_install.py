"""The manifests, in a namespace with the restricted Pod Security Standard."""

from e2e.harness.support.kubectl import Kubectl
from e2e.nodes.cluster.cluster import RealNodes
from e2e.nodes.cluster.places import IMAGE
from e2e.nodes.installation import NAMESPACE, are_spread, is_ready, pods


async def test_every_replica_is_ready_and_each_process_is_on_two_nodes(
    nodes: RealNodes, kubectl: Kubectl, muster: None
) -> None:
    found = await pods(kubectl)

    assert len(found) == 6
    assert all(is_ready(pod) for pod in found)
    assert {it["image"] for pod in found for it in pod["spec"]["containers"]} == {IMAGE}
    assert await are_spread(kubectl, nodes.workers)
    restarts = [it["restartCount"] for pod in found for it in pod["status"]["containerStatuses"]]
    assert restarts == [0] * 6
    namespace = await kubectl("get", "namespace", NAMESPACE, "--show-labels")
    assert "pod-security.kubernetes.io/enforce=restricted" in namespace
