"""`muster explain` for owners without a group: it shows their own messages."""

from pathlib import Path

import pytest

from analysis.explain.owners import owner_lines
from api.constants import ANNOTATION_WAITING_FOR
from kube.client.client import Client
from tests.support.api_server import Reply, ScriptedServer, Seen, failure

WAITS = "NotSupported: podManagementPolicy OrderedReady"


@pytest.mark.parametrize(
    ("what", "path"),
    [
        ("statefulset/ring", "/apis/apps/v1/namespaces/ns/statefulsets/ring"),
        ("sts/ring", "/apis/apps/v1/namespaces/ns/statefulsets/ring"),
        ("Deployments.apps/ring", "/apis/apps/v1/namespaces/ns/deployments/ring"),
        ("trainjob/ring", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/ring"),
        ("lws/ring", "/apis/leaderworkerset.x-k8s.io/v1/namespaces/ns/leaderworkersets/ring"),
        ("jobset/ring", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/ring"),
        ("job/ring", "/apis/batch/v1/namespaces/ns/jobs/ring"),
        ("pod/ring", ""),
        ("mpijob/ring", "/apis/kubeflow.org/v2beta1/namespaces/ns/mpijobs/ring"),
        ("rayjobs.ray.io/ring", "/apis/ray.io/v1/namespaces/ns/rayjobs/ring"),
        ("sparkapplication/ring", ""),
        ("job/", ""),
        ("job", ""),
    ],
)
@pytest.mark.parametrize("said", [WAITS, "", None, 7, "x\x1b[2Jy"])
async def test_what_an_owner_waits_for(what: str, path: str, said: object, tmp_path: Path) -> None:
    async def answer(seen: Seen) -> Reply:
        assert seen.path == path
        return Reply({"metadata": {"annotations": {ANNOTATION_WAITING_FOR: said}}})

    async with ScriptedServer() as server:
        server.handler = answer
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            found = await owner_lines(client, what, "ns")

    if not path or not isinstance(said, str) or not said:
        assert found == []
        return
    about, waits = found
    assert about.endswith(" ns/ring: has no group")
    assert waits == f"  waiting for: {said}".replace("\x1b", "\\x1b")


@pytest.mark.parametrize(
    "reply", [failure(404, "NotFound", "no"), failure(403, "Forbidden", "no"), Reply({})]
)
async def test_one_that_is_not_there_or_says_nothing(reply: Reply, tmp_path: Path) -> None:
    async def answer(_seen: Seen) -> Reply:
        return reply

    async with ScriptedServer() as server:
        server.handler = answer
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            assert await owner_lines(client, "job/x", "ns") == []
