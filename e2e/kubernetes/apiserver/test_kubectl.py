"""An unmodified kubectl against the server."""

import asyncio
import json
from pathlib import Path

import pytest

from e2e.harness.clusters.protocol import Cluster
from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.rest import Rest
from e2e.kubernetes.apiserver.crds import definition, installed
from e2e.kubernetes.apiserver.objects import Namespace, binding, config_map, job, pod


@pytest.fixture
def kubectl(cluster: Cluster, ns: Namespace, tmp_path: Path) -> Kubectl:
    return Kubectl(cluster.kubeconfig, tmp_path, ns.name)


async def test_get_lists_objects(rest: Rest, ns: Namespace, kubectl: Kubectl) -> None:
    (await rest.post(ns.pods(), pod("a"))).expect(201)

    lines = (await kubectl("get", "pods")).splitlines()

    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert lines[1].split()[:4] == ["a", "0/1", "Pending", "0"]


async def test_get_knows_short_names_and_outputs(
    rest: Rest, ns: Namespace, kubectl: Kubectl
) -> None:
    (await rest.post(ns.pods(), pod("a", labels={"x": "y"}))).expect(201)

    wide = await kubectl("get", "po", "-o", "wide", "-l", "x=y")
    path = await kubectl("get", "pod/a", "-o", "jsonpath={.metadata.name}")
    whole = json.loads(await kubectl("get", "pods", "-o", "json"))

    assert "NODE" in wide
    assert path == "a"
    assert [item["metadata"]["name"] for item in whole["items"]] == ["a"]


async def test_apply_creates_changes_and_prunes_fields(
    rest: Rest, ns: Namespace, kubectl: Kubectl
) -> None:
    assert "created" in await kubectl(
        "apply", "-f", "-", stdin=config_map("a", {"x": "1", "y": "1"})
    )
    assert "unchanged" in await kubectl(
        "apply", "-f", "-", stdin=config_map("a", {"x": "1", "y": "1"})
    )
    assert "configured" in await kubectl("apply", "-f", "-", stdin=config_map("a", {"x": "2"}))

    assert (await rest.get(ns.config_maps("a"))).ok()["data"] == {"x": "2"}


async def test_server_side_apply_reports_conflicts(
    rest: Rest, ns: Namespace, kubectl: Kubectl
) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    await kubectl(*apply, "--field-manager=one", stdin=config_map("a", {"x": "1"}))

    error = await kubectl(
        *apply, "--field-manager=two", stdin=config_map("a", {"x": "2"}), fails=True
    )
    assert 'conflict with "one"' in error

    await kubectl(
        *apply, "--field-manager=two", "--force-conflicts", stdin=config_map("a", {"x": "2"})
    )
    assert (await rest.get(ns.config_maps("a"))).ok()["data"] == {"x": "2"}


async def test_apply_validates_by_the_published_schema(
    rest: Rest, ns: Namespace, kubectl: Kubectl
) -> None:
    bad = {**job("a"), "spec": {**job("a")["spec"], "paralelism": 3}}

    error = await kubectl("apply", "-f", "-", stdin=bad, fails=True)

    assert 'unknown field "spec.paralelism"' in error


async def test_create_patch_label_annotate_and_edit_by_replace(
    rest: Rest, ns: Namespace, kubectl: Kubectl
) -> None:
    await kubectl("create", "-f", "-", stdin=config_map("a"))
    await kubectl("label", "configmap", "a", "x=y")
    await kubectl("annotate", "configmap", "a", "note=said")
    await kubectl("patch", "configmap", "a", "--type=merge", "-p", '{"data":{"k":"2"}}')
    await kubectl("patch", "configmap", "a", "-p", '{"data":{"m":"3"}}')

    read = (await rest.get(ns.config_maps("a"))).ok()
    assert read["data"] == {"k": "2", "m": "3"}
    assert read["metadata"]["labels"] == {"x": "y"}
    read["data"] = {"k": "9"}
    await kubectl("replace", "-f", "-", stdin=read)
    assert (await rest.get(ns.config_maps("a"))).ok()["data"] == {"k": "9"}


async def test_describe_shows_an_object_and_its_events(
    rest: Rest, ns: Namespace, kubectl: Kubectl
) -> None:
    created = (await rest.post(ns.pods(), pod("a"))).expect(201)
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": ns.name},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "a",
            "namespace": ns.name,
            "uid": created["metadata"]["uid"],
        },
        "reason": "Waits",
        "message": "no room",
        "type": "Warning",
        "source": {"component": "tester"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    (await rest.post(ns.core("events"), event)).expect(201)

    text = await kubectl("describe", "pod", "a")

    assert "Name:" in text
    assert "Pending" in text
    assert "Waits" in text
    assert "no room" in text


async def test_wait_for_a_condition_and_for_deletion(
    rest: Rest, ns: Namespace, node: str, kubectl: Kubectl
) -> None:
    (await rest.post(ns.pods(), pod("a"))).expect(201)
    waiting = asyncio.create_task(
        kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout=20s")
    )
    (await rest.post(f"{ns.pods('a')}/binding", binding("a", node))).expect(201)
    assert "condition met" in await waiting

    phase = "--for=jsonpath={.status.phase}=Running"
    assert "condition met" in await kubectl("wait", phase, "pod/a", "--timeout=20s")
    assert "deleted" in await kubectl("delete", "pod", "a", "--wait=true", "--timeout=20s")
    (await rest.get(ns.pods("a"))).expect(404)


async def test_delete_by_selector_and_of_nothing(
    rest: Rest, ns: Namespace, kubectl: Kubectl
) -> None:
    for name in ("a", "b"):
        await rest.post(ns.config_maps(), config_map(name, labels={"x": "y"}))

    await kubectl("delete", "configmaps", "-l", "x=y")

    assert await kubectl("get", "configmaps", "-l", "x=y", "-o", "name") == ""
    error = await kubectl("delete", "configmap", "absent", fails=True)
    assert 'configmaps "absent" not found' in error
    await kubectl("delete", "configmap", "absent", "--ignore-not-found")


async def test_explain_tells_the_fields(rest: Rest, ns: Namespace, kubectl: Kubectl) -> None:
    text = await kubectl("explain", "job.spec")

    assert "parallelism" in text
    assert "GROUP:      batch" in text


@pytest.mark.long
async def test_a_custom_kind_is_usable(rest: Rest, ns: Namespace, kubectl: Kubectl) -> None:
    group = f"{ns.name}.example.com"
    async with installed(rest, definition(group)):
        body = {
            "apiVersion": f"{group}/v1",
            "kind": "Widget",
            "metadata": {"name": "a"},
            "spec": {"size": 3},
        }
        assert "created" in await kubectl("apply", "-f", "-", stdin=body)
        lines = (await kubectl("get", "wd")).splitlines()
        assert [line.split() for line in lines] == [["NAME", "SIZE"], ["a", "3"]]
        assert "size" in await kubectl("explain", "widgets.spec")
        assert "Size:" in await kubectl("describe", "widget", "a")
        body["spec"] = {"size": 4}
        assert "configured" in await kubectl("apply", "-f", "-", stdin=body)


async def test_all_kinds_and_versions_are_told(kubectl: Kubectl) -> None:
    resources = await kubectl("api-resources", "--no-headers")
    versions = await kubectl("api-versions")

    assert "pods" in resources
    assert "batch/v1" in versions.splitlines()
    assert "Server Version: v1." in await kubectl("version")


async def test_nodes_are_cordoned_and_tainted(
    rest: Rest, ns: Namespace, node: str, kubectl: Kubectl
) -> None:
    await kubectl("cordon", node)
    assert (await rest.get(f"/api/v1/nodes/{node}")).ok()["spec"]["unschedulable"] is True
    await kubectl("uncordon", node)
    assert "unschedulable" not in (await rest.get(f"/api/v1/nodes/{node}")).ok()["spec"]
    await kubectl("taint", "node", node, "x=y:NoSchedule")
    await kubectl("taint", "node", node, "x=y:NoSchedule-")
