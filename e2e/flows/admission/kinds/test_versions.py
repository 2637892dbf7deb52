"""One object in several versions: clients of each read it, change it, and lose no fields."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.constants import ANNOTATION_CONVERSION_DATA, GROUP
from e2e.flows.admission.kinds.conftest import CaseNamespace
from e2e.harness.clusters.protocol import Cluster
from e2e.harness.devices import CLAIM_TEMPLATES, SINCE
from e2e.harness.muster import SCHEDULER, Muster
from e2e.harness.support.kubectl import Kubectl
from e2e.harness.support.rest import APPLY_PATCH
from e2e.harness.support.waiting import eventually

Json = dict[str, Any]

RACK = {"topology": [{"key": "example.com/rack"}]}


def written(version: str, kind: str, name: str, **spec: Any) -> Json:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def workload(name: str, **template: Any) -> Json:
    """Return a Workload of v1alpha3 with the template `t`, a gang of two."""
    leaf = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}} | template
    return written("v1alpha3", "Workload", name, podGroupTemplates=[leaf])


def path_of(case_namespace: CaseNamespace, version: str, obj: Json) -> str:
    in_version = obj | {"apiVersion": f"{GROUP}/{version}"}
    return f"{case_namespace.path(in_version)}/{obj['metadata']['name']}"


@pytest.fixture
def kubectl(cluster: Cluster, case_namespace: CaseNamespace, tmp_path: Path) -> Kubectl:
    return Kubectl(cluster.kubeconfig, tmp_path, case_namespace.namespace)


async def test_a_workload_created_patched_and_watched_in_three_versions(
    case_namespace: CaseNamespace,
) -> None:
    groups = [{"name": "a", "policy": {"gang": {"minCount": 2}}}]
    obj = written("v1alpha1", "Workload", "mixed", podGroups=groups)
    newest, middle = (
        path_of(case_namespace, "v1alpha3", obj),
        path_of(case_namespace, "v1alpha2", obj),
    )
    collection = middle.rpartition("/")[0]
    start = (await case_namespace.rest.get(collection)).ok()["metadata"]["resourceVersion"]

    async with case_namespace.rest.watch(collection, {"resourceVersion": start}) as watch:
        (await case_namespace.rest.post(case_namespace.path(obj), obj)).expect(201)
        added = await watch.until("ADDED", "mixed")
        minimum = "/spec/podGroupTemplates/0/schedulingPolicy/gang/minCount"
        change = [{"op": "replace", "path": minimum, "value": 5}]
        (await case_namespace.rest.patch(newest, change, "application/json-patch+json")).ok()
        modified = await watch.until("MODIFIED", "mixed")
    oldest = (await case_namespace.rest.get(path_of(case_namespace, "v1alpha1", obj))).ok()
    (await case_namespace.rest.delete(newest)).ok()

    assert added["apiVersion"] == modified["apiVersion"] == f"{GROUP}/v1alpha2"
    assert added["spec"]["podGroupTemplates"] == [
        {"name": "a", "schedulingPolicy": {"gang": {"minCount": 2}}}
    ]
    assert modified["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 5}}
    assert oldest["spec"]["podGroups"] == [{"name": "a", "policy": {"gang": {"minCount": 5}}}]


async def test_a_patch_in_an_older_version_keeps_what_that_cannot_say(
    case_namespace: CaseNamespace,
) -> None:
    obj = workload("kept", schedulingConstraints=RACK, preemptionPolicy="Never")
    (await case_namespace.rest.post(case_namespace.path(obj), obj)).expect(201)
    change = {"spec": {"podGroups": [{"name": "t", "policy": {"gang": {"minCount": 1}}}]}}

    (await case_namespace.rest.patch(path_of(case_namespace, "v1alpha1", obj), change)).ok()
    stored = (await case_namespace.rest.get(path_of(case_namespace, "v1alpha3", obj))).ok()
    (await case_namespace.rest.delete(path_of(case_namespace, "v1alpha3", obj))).ok()

    assert stored["spec"]["podGroupTemplates"] == [
        {
            "name": "t",
            "schedulingPolicy": {"gang": {"minCount": 1}},
            "schedulingConstraints": RACK,
            "preemptionPolicy": "Never",
        }
    ]
    assert ANNOTATION_CONVERSION_DATA not in stored["metadata"].get("annotations", {})


async def test_an_older_version_does_not_bypass_immutability(case_namespace: CaseNamespace) -> None:
    obj = workload("fixed", schedulingConstraints=RACK)
    (await case_namespace.rest.post(case_namespace.path(obj), obj)).expect(201)
    path = path_of(case_namespace, "v1alpha1", obj)
    renamed = {"spec": {"podGroups": [{"name": "u", "policy": {"gang": {"minCount": 2}}}]}}
    zone = {"name": "t", "schedulingConstraints": {"topology": [{"key": "example.com/zone"}]}}
    carried = json.dumps({"v1alpha3": {"spec": {"podGroupTemplates": [zone]}}})
    moved, emptied = (
        {"metadata": {"annotations": {ANNOTATION_CONVERSION_DATA: data}}}
        for data in (carried, None)
    )

    answers = [await case_namespace.rest.patch(path, change) for change in (renamed, moved)]
    (await case_namespace.rest.patch(path, emptied)).ok()
    stored = (await case_namespace.rest.get(path_of(case_namespace, "v1alpha3", obj))).ok()
    (await case_namespace.rest.delete(path)).ok()

    for answer in answers:
        [cause] = answer.expect(422)["details"]["causes"]
        assert (cause["field"], cause["reason"]) == ("spec.podGroupTemplates", "FieldValueInvalid")
    assert stored["spec"] == obj["spec"]


async def test_a_replace_in_an_older_version_keeps_what_that_cannot_say(
    case_namespace: CaseNamespace, kubectl: Kubectl
) -> None:
    obj = workload("replaced", schedulingConstraints=RACK, preemptionPolicy="Never")
    made = (await case_namespace.rest.post(case_namespace.path(obj), obj)).expect(201)
    newest = path_of(case_namespace, "v1alpha3", obj)

    def manifest(minimum: int) -> Json:
        groups = [{"name": "t", "policy": {"gang": {"minCount": minimum}}}]
        return written("v1alpha1", "Workload", "replaced", podGroups=groups)

    await kubectl.replace(manifest(2))
    same = (await case_namespace.rest.get(newest)).ok()
    await kubectl.replace(manifest(5))
    raised = (await case_namespace.rest.get(newest)).ok()
    (await case_namespace.rest.delete(newest)).ok()

    assert same["spec"] == made["spec"] == obj["spec"]
    assert same["metadata"]["generation"] == made["metadata"]["generation"]
    leaf = obj["spec"]["podGroupTemplates"][0]
    minimum = {"schedulingPolicy": {"gang": {"minCount": 5}}}
    assert raised["spec"] == {"podGroupTemplates": [leaf | minimum]}


@pytest.mark.since(*SINCE)
async def test_a_replaced_group_of_an_older_version_keeps_its_policy_and_its_status(
    case_namespace: CaseNamespace, kubectl: Kubectl
) -> None:
    """Muster records in its status that its claim was created; the older version cannot do so."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    template = {
        "metadata": {"name": "gpus"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    templates = CLAIM_TEMPLATES.path(namespace=case_namespace.namespace)
    (await case_namespace.rest.post(templates, template)).expect(201)
    spec = {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}],
    }
    obj = written("v1alpha3", "PodGroup", "replaced", **spec)
    made = (await case_namespace.rest.post(case_namespace.path(obj), obj)).expect(201)
    newest = path_of(case_namespace, "v1alpha3", obj)
    claims = [{"name": "gpu", "resourceClaimName": "replaced.gpu"}]

    async def said() -> bool:
        status = (await case_namespace.rest.get(newest)).ok().get("status", {})
        return bool(status.get("resourceClaimStatuses") == claims)

    await eventually(said, "the claim of the group to be made")
    named = {"workloadRef": {"name": "w"}, "podGroupTemplateName": "t"}

    await kubectl.replace(written("v1alpha2", "PodGroup", "replaced", **named))
    after = (await case_namespace.rest.get(newest)).ok()
    (await case_namespace.rest.delete(newest)).ok()
    (await case_namespace.rest.delete(f"{templates}/gpus")).ok()

    assert after["spec"] == made["spec"]
    assert after["status"]["resourceClaimStatuses"] == claims


async def test_a_pod_group_of_v1alpha2_takes_its_policy_from_its_template(
    case_namespace: CaseNamespace,
) -> None:
    source = workload("source", schedulingConstraints=RACK)
    reference = {"workloadRef": {"name": "source"}, "podGroupTemplateRef": {"name": "t"}}
    obj = written("v1alpha2", "PodGroup", "inherits", **reference)
    (await case_namespace.rest.post(case_namespace.path(source), source)).expect(201)
    made = (await case_namespace.rest.post(case_namespace.path(obj), obj)).expect(201)

    found: Json = {}

    async def filled() -> bool:
        nonlocal found
        found = (await case_namespace.rest.get(path_of(case_namespace, "v1alpha3", obj))).ok()
        return "schedulingPolicy" in found["spec"]

    # Either admission knows the Workload already, or the controller completes the group later.
    await eventually(filled, "the group to have its template's policy", 30)
    seen = (await case_namespace.rest.get(path_of(case_namespace, "v1alpha2", obj))).ok()
    for one in (obj, source):
        (await case_namespace.rest.delete(path_of(case_namespace, "v1alpha3", one))).ok()

    assert made["spec"] == seen["spec"] == reference
    assert found["spec"]["workloadRef"] == {"workloadName": "source", "templateName": "t"}
    assert found["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert found["spec"]["schedulingConstraints"] == RACK
    assert found["spec"]["priority"] == 0


@pytest.fixture
def without_scheduler(muster: Muster) -> Iterator[None]:
    """Keep the scheduler from writing the status of groups."""
    with muster.paused(SCHEDULER):
        yield


@pytest.mark.usefixtures("without_scheduler")
async def test_a_status_written_in_an_older_version_keeps_what_that_cannot_say(
    case_namespace: CaseNamespace,
) -> None:
    obj = written("v1alpha3", "PodGroup", "status", schedulingPolicy={"gang": {"minCount": 2}})
    obj["metadata"]["finalizers"] = []
    (await case_namespace.rest.post(case_namespace.path(obj), obj)).expect(201)
    newest, older = (
        path_of(case_namespace, "v1alpha3", obj),
        path_of(case_namespace, "v1alpha2", obj),
    )
    condition = {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    claims = [{"name": "none"}]
    first = {"status": {"conditions": [condition], "members": 7, "scheduledPods": 1}}
    (await case_namespace.rest.patch(f"{newest}/status", first)).ok()

    seen = (await case_namespace.rest.get(older)).ok()
    (await case_namespace.rest.patch(f"{older}/status", {"status": {"scheduledPods": 2}})).ok()
    refused = await case_namespace.rest.patch(
        f"{newest}/status", {"status": {"resourceClaimStatuses": claims}}
    )
    after = (await case_namespace.rest.get(newest)).ok()["status"]
    (await case_namespace.rest.delete(newest)).ok()

    assert [one["type"] for one in seen["status"]["conditions"]] == ["PodGroupScheduled"]
    assert "members" not in seen["status"]
    assert after["conditions"][0]["type"] == "PodGroupInitiallyScheduled"
    assert (after["members"], after["scheduledPods"]) == (7, 2)
    assert refused.status == 422


@pytest.mark.parametrize(
    ("version", "kind"),
    [("v1alpha1", "Workload"), ("v1alpha2", "Workload"), ("v1alpha2", "PodGroup")],
)
async def test_kubectl_speaks_every_version(
    case_namespace: CaseNamespace, kubectl: Kubectl, version: str, kind: str
) -> None:
    obj = workload("spoken")
    if kind == "PodGroup":
        obj = written("v1alpha3", kind, "spoken", schedulingPolicy={"gang": {"minCount": 2}})
    (await case_namespace.rest.post(case_namespace.path(obj), obj)).expect(201)
    name = f"{kind.lower()}s.{version}.{GROUP}"

    one = json.loads(await kubectl("get", name, "spoken", "-o", "json"))
    listed = await kubectl("get", name, "-o", "yaml")
    table = await kubectl("get", name)
    explained = await kubectl(
        "explain", f"{kind.lower()}s.spec", f"--api-version={GROUP}/{version}"
    )
    (await case_namespace.rest.delete(path_of(case_namespace, "v1alpha3", obj))).ok()

    assert one["apiVersion"] == f"{GROUP}/{version}"
    assert f"apiVersion: {GROUP}/{version}" in listed
    assert table.split()[0] == "NAME"
    assert "DESCRIPTION" in explained


APPLIES = {
    "client-side": ["apply", "-f", "-"],
    "server-side": ["apply", "--server-side", "-f", "-"],
}


@pytest.mark.parametrize("how", APPLIES)
async def test_a_manifest_of_an_older_version_applied_again_changes_nothing(
    case_namespace: CaseNamespace, kubectl: Kubectl, how: str
) -> None:
    policy = {"gang": {"minCount": 2}}
    manifest = written("v1alpha1", "Workload", how, podGroups=[{"name": "a", "policy": policy}])
    await kubectl(*APPLIES[how], stdin=manifest)
    newest = path_of(case_namespace, "v1alpha3", manifest)
    before = (await case_namespace.rest.get(newest)).ok()

    await kubectl(*APPLIES[how], stdin=manifest)
    after = (await case_namespace.rest.get(newest)).ok()
    raised = manifest | {
        "spec": {"podGroups": [{"name": "a", "policy": {"gang": {"minCount": 3}}}]}
    }
    await kubectl(*APPLIES[how], stdin=raised)
    changed = (await case_namespace.rest.get(newest)).ok()
    (await case_namespace.rest.delete(newest)).ok()

    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert changed["spec"]["podGroupTemplates"][0]["schedulingPolicy"] == {"gang": {"minCount": 3}}


async def test_an_apply_in_an_older_version_owns_its_fields_there(
    case_namespace: CaseNamespace,
) -> None:
    obj = workload("owned", schedulingConstraints=RACK)
    older = path_of(case_namespace, "v1alpha1", obj)
    (await case_namespace.rest.post(case_namespace.path(obj), obj)).expect(201)
    groups = [{"name": "t", "policy": {"gang": {"minCount": 4}}}]
    applied = written("v1alpha1", "Workload", "owned", podGroups=groups)

    answer = await case_namespace.rest.patch(
        older, applied, APPLY_PATCH, params={"fieldManager": "old", "force": "true"}
    )
    stored = (await case_namespace.rest.get(path_of(case_namespace, "v1alpha3", obj))).ok()
    (await case_namespace.rest.delete(older)).ok()

    assert answer.ok()["spec"]["podGroups"] == groups
    [template] = stored["spec"]["podGroupTemplates"]
    assert template["schedulingPolicy"] == {"gang": {"minCount": 4}}
    assert template["schedulingConstraints"] == RACK


async def test_the_category_lists_all_of_a_namespace(
    case_namespace: CaseNamespace, kubectl: Kubectl
) -> None:
    groups = [
        workload("listed"),
        written("v1alpha3", "PodGroup", "listed", schedulingPolicy={"gang": {"minCount": 2}}),
        written("v1alpha1", "PodGroup", "listed", subsets=[{"minMember": 1}])
        | {"apiVersion": "coscheduling.muster.dev/v1alpha1"},
    ]
    for obj in groups:
        (await case_namespace.rest.post(case_namespace.path(obj), obj)).expect(201)

    names = (await kubectl("get", "muster", "-o", "name")).split()
    wide = await kubectl("get", "mpg", "listed", "-o", "wide")
    for obj in groups:
        (await case_namespace.rest.delete(f"{case_namespace.path(obj)}/listed")).ok()

    assert {
        "workload.scheduling.muster.dev/listed",
        "podgroup.scheduling.muster.dev/listed",
        "podgroup.coscheduling.muster.dev/listed",
    } <= set(names)
    heads = ["POLICY", "MINCOUNT", "MEMBERS", "SCHEDULED", "STATUS", "REASON", "AGE", "BLOCKER"]
    assert set(heads) <= set(wide.split())
