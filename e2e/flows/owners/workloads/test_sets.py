"""StatefulSets and Deployments that request a group, or whose pods do, with their controllers.

They do not run on the shared cluster: their controllers would also create pods of Muster's
Deployments.
"""

from typing import Any

import pytest

from api.constants import (
    ANNOTATION_GANG_MODE,
    ANNOTATION_MANAGED_GROUP,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_WAITING_FOR,
    LABEL_POD_GROUP,
    SCHEDULER_NAME,
)
from e2e.flows.owners.workloads.examples import runs
from e2e.harness import muster as processes
from e2e.harness import policies
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.environment import Environment
from e2e.harness.muster import Muster
from e2e.harness.objects import POD_GROUPS, Json, pod_spec
from e2e.harness.support.rest import Rest
from kube.base.errors import Forbidden, Invalid
from kube.client.client import Client
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS, Resource

SELECTOR = "app=db"
GANG = {ANNOTATION_GANG_MODE: "Gang"}
_TEMPLATE = ("spec", "template", "metadata", "annotations")


@pytest.fixture(scope="module")
def cluster(with_kube_scheduler: tuple[ControlPlane, Muster]) -> ControlPlane:
    return with_kube_scheduler[0]


@pytest.fixture(scope="module")
def running_muster(with_kube_scheduler: tuple[ControlPlane, Muster]) -> Muster:
    return with_kube_scheduler[1]


async def test_a_stateful_set_is_a_gang_through_an_update(env: Environment) -> None:
    await env.add_node(cpu=8)
    await env.create(STATEFUL_SETS, stateful_set(env))
    await env.scheduled("db")
    group = await env.group("db")
    assert group["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
    try:
        ops = PatchBuilder().add(pointer(*_TEMPLATE, ANNOTATION_MIN_COUNT), "2")
        await env.client.patch(STATEFUL_SETS, "db", ops, env.name)

        async def follows() -> bool:
            spec = (await env.group("db"))["spec"]
            return bool(spec["schedulingPolicy"]["gang"]["minCount"] == 2)

        await env.until("minCount to follow the template", follows)
        await env.runs("app=db", 4)
        assert (await env.group("db"))["metadata"]["uid"] == group["metadata"]["uid"]
    finally:
        await env.delete(STATEFUL_SETS, "db")
    await env.gone(POD_GROUPS, "db")


@pytest.mark.long
async def test_the_group_of_a_deployment_is_owned_by_it_and_not_by_a_replica_set(
    env: Environment,
) -> None:
    await env.add_node(cpu=4)
    made = stateful_set(env) | {"kind": "Deployment"}
    for field in ("serviceName", "podManagementPolicy"):
        del made["spec"][field]
    uid = (await env.create(DEPLOYMENTS, made))["metadata"]["uid"]
    try:
        await env.scheduled("db")
        (owner,) = (await env.group("db"))["metadata"]["ownerReferences"]
        assert owner["uid"] == uid
    finally:
        await env.delete(DEPLOYMENTS, "db")
    await env.gone(POD_GROUPS, "db")


async def test_the_example_of_a_stateful_set_runs(env: Environment) -> None:
    await runs(env, "statefulset-gang", ["ring"])


async def test_a_deployment_starts_whole_scales_is_updated_and_leaves_nothing(
    env: Environment, running_muster: Muster
) -> None:
    await env.add_node(cpu=3)
    made = await env.create(DEPLOYMENTS, deployment(env, 4))
    group = mark(made)
    try:
        await env.waits(group, needed=4, free=3)
        assert await env.bound(SELECTOR) == 0
        await said(env)
        await env.add_node(cpu=8)
        await env.runs(SELECTOR, 4)

        running_muster.kill(processes.CONTROLLER)
        await scale(env, 6)
        ops = PatchBuilder().add("/spec/template/spec/terminationGracePeriodSeconds", 1)
        await env.client.patch(DEPLOYMENTS, "db", ops, env.name)
        await running_muster.start(processes.CONTROLLER)

        await updated(env, 6)
        await minimum(env, group, 6)
        await scale(env, 2)
        await minimum(env, group, 2)
    finally:
        await env.delete(DEPLOYMENTS, "db")
    await env.gone(POD_GROUPS, group)


async def test_a_template_that_fits_no_node_is_corrected_by_an_update(env: Environment) -> None:
    """The update works as without Muster; the old ReplicaSet reports no outdated reason forever."""
    await env.add_node(cpu=5)
    made = deployment(env, 4)
    containers = made["spec"]["template"]["spec"]["containers"]
    containers[0]["resources"] = {"requests": {"cpu": "64"}}
    group = mark(await env.create(DEPLOYMENTS, made))
    try:
        await env.waits(group, needed=4)
        await said(env, group)
        path = "/spec/template/spec/containers/0/resources/requests/cpu"
        ops = PatchBuilder().replace(path, "1")
        await env.client.patch(DEPLOYMENTS, "db", ops, env.name)
        await updated(env, 4)
        await minimum(env, group, 4)
        await replica_sets_are_silent(env)
    finally:
        await env.delete(DEPLOYMENTS, "db")
    await env.gone(POD_GROUPS, group)


@pytest.mark.long
async def test_a_last_pod_says_that_its_group_asks_for_more(env: Environment) -> None:
    """The ReplicaSet creates no more pods, and Muster does not know how many it will create."""
    await env.add_node(cpu=4)
    made = deployment(env, 2)
    del made["metadata"]["annotations"]
    made["spec"]["template"]["metadata"] |= {
        "labels": {"app": "db", LABEL_POD_GROUP: "g"},
        "annotations": {ANNOTATION_MIN_COUNT: "2"},
    }
    await env.create(DEPLOYMENTS, made)
    try:
        await env.runs(SELECTOR, 2)
        await scale(env, 1)
        await env.runs(SELECTOR, 1)
        (left,) = await env.pods(SELECTOR)
        await env.delete(PODS, left["metadata"]["name"])

        async def says_it() -> bool:
            return "lower minCount" in str((await env.blocker("g")).get("summary"))

        await env.until("the group to say how it can start", says_it)
        lower = PatchBuilder().replace("/spec/schedulingPolicy/gang/minCount", 1)
        await env.client.patch(POD_GROUPS, "g", lower, env.name)
        await env.runs(SELECTOR, 1)
    finally:
        await env.delete(DEPLOYMENTS, "db")
    await env.gone(POD_GROUPS, "g")


@pytest.mark.long
async def test_a_deployment_asks_later_and_its_update_is_not_blocked(env: Environment) -> None:
    await env.add_node(cpu=6)
    plain = deployment(env, 4)
    del plain["metadata"]["annotations"]
    plain["spec"]["template"]["spec"]["schedulerName"] = SCHEDULER_NAME
    await env.create(DEPLOYMENTS, plain)
    try:
        await env.runs(SELECTOR, 4)
        path = pointer("metadata", "annotations", ANNOTATION_GANG_MODE)
        ops = PatchBuilder().add(path, "Gang")
        group = mark(await env.client.patch(DEPLOYMENTS, "db", ops, env.name))
        await updated(env, 4)
        await minimum(env, group, 4)
    finally:
        await env.delete(DEPLOYMENTS, "db")
    await env.gone(POD_GROUPS, group)


@pytest.mark.long
async def test_a_stateful_set_is_one_gang_if_its_pods_come_together(env: Environment) -> None:
    await env.add_node(cpu=8)
    ordered = deployment(env, 4) | {"kind": "StatefulSet"}
    ordered["spec"]["serviceName"] = "db"
    with pytest.raises(Invalid) as refused:
        await env.create(STATEFUL_SETS, ordered)
    assert "podManagementPolicy Parallel" in str(refused.value)

    ordered["spec"]["podManagementPolicy"] = "Parallel"
    group = mark(await env.create(STATEFUL_SETS, ordered))
    try:
        await env.runs(SELECTOR, 4)
        await minimum(env, group, 4)
    finally:
        await env.delete(STATEFUL_SETS, "db")
    await env.gone(POD_GROUPS, group)


@pytest.mark.long
@pytest.mark.parametrize("resource", [DEPLOYMENTS, STATEFUL_SETS], ids=lambda it: it.kind)
async def test_the_controllers_account_can_say_what_waits_and_no_more(
    env: Environment, running_muster: Muster, resource: Resource
) -> None:
    made = deployment(env, 0) | {"kind": resource.kind}
    if resource == STATEFUL_SETS:
        made["spec"] |= {"serviceName": "db", "podManagementPolicy": "Parallel"}
    await env.create(resource, made)
    assert not await may_patch(env, resource), "only the status"
    async with await Client.connect(running_muster.kubeconfig(processes.CONTROLLER)) as client:

        async def patch(ops: PatchBuilder) -> Json:
            return await client.patch(resource, "db", ops, env.name, subresource="status")

        note = pointer("metadata", "annotations", ANNOTATION_WAITING_FOR)
        allowed = PatchBuilder().add(note, "for room")
        said = (await patch(allowed))["metadata"]["annotations"]
        assert said[ANNOTATION_WAITING_FOR] == "for room", "the status carries annotations"

        async def confined() -> bool:
            try:
                await patch(PatchBuilder().add("/metadata/finalizers", ["example.com/kept"]))
            except (Invalid, Forbidden):
                return True
            return False

        await env.until("the policy to be in force", confined)
        for ops in (
            PatchBuilder().add(pointer("metadata", "annotations", ANNOTATION_MIN_COUNT), "2"),
            PatchBuilder().remove(pointer("metadata", "annotations", ANNOTATION_GANG_MODE)),
            PatchBuilder().add("/metadata/finalizers", ["example.com/kept"]),
            PatchBuilder().add("/status/observedGeneration", 99),
            PatchBuilder().add("/status/replicas", 99),
        ):
            with pytest.raises((Invalid, Forbidden), match="nothing but the annotation"):
                await patch(ops)
        kept = await patch(PatchBuilder().replace("/spec/replicas", 9).add(note, "x"))
        assert kept["spec"]["replicas"] == 0, "a request for the status changes no spec"
        await patch(PatchBuilder().remove(note))
    await env.delete(resource, "db")


async def may_patch(env: Environment, resource: Resource) -> bool:
    """Return True if the controllers' account may patch objects of a kind, by RBAC."""
    reviews = Resource(
        *("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview"),
        namespaced=False,
    )
    attributes = {"verb": "patch", "group": resource.group, "resource": resource.plural}
    user = "system:serviceaccount:muster-system:muster-controller"
    spec = {"user": user, "resourceAttributes": attributes | {"namespace": env.name}}
    answer = await env.client.create(reviews, {"spec": spec})
    return bool(answer["status"].get("allowed"))


async def test_what_others_change_in_each_update_keeps_nobody_from_saying_what_waits(
    env: Environment, rest: Rest
) -> None:
    """Another webhook, here a policy, sets a label that differs each time."""
    await env.add_node(cpu=3)
    expression = (
        "Object{metadata: Object.metadata{labels: {'touched':"
        " oldObject == null ? 'new' : 'v' + oldObject.metadata.resourceVersion}}}"
    )

    async def touched() -> bool:
        ops = PatchBuilder().add("/metadata/annotations/mine", "x")
        found = await env.client.patch(DEPLOYMENTS, "db", ops, env.name)
        return bool(found["metadata"].get("labels", {}).get("touched"))

    if not await policies.are_served(rest):
        pytest.skip("this API server serves no MutatingAdmissionPolicies")
    resources = (DEPLOYMENTS.group, DEPLOYMENTS.plural)
    async with policies.mutating(rest, f"{env.name}-touches", resources, expression):
        await env.create(DEPLOYMENTS, deployment(env, 4))
        await env.until("the policy to touch each update", touched)
        await said(env)
        await env.delete(DEPLOYMENTS, "db")


def mark(app: Json) -> str:
    """Return the group that admission named in its annotation."""
    return str(app["metadata"]["annotations"][ANNOTATION_MANAGED_GROUP])


async def said(env: Environment, text: str = "3") -> None:
    """Wait until the Deployment reports what it waits for."""

    async def probe() -> bool:
        found = await env.client.get(DEPLOYMENTS, "db", env.name)
        return text in found["metadata"]["annotations"].get(ANNOTATION_WAITING_FOR, "")

    await env.until("the Deployment to say what it waits for", probe)


async def replica_sets_are_silent(env: Environment) -> None:
    """Wait until no ReplicaSet has the annotation that the Deployment controller copied.

    This includes old ReplicaSets.
    """

    async def probe() -> bool:
        found = (await env.client.list(REPLICA_SETS, env.name))["items"]
        notes = [it["metadata"]["annotations"].get(ANNOTATION_WAITING_FOR, "") for it in found]
        return len(notes) > 1 and not any(notes)

    await env.until("no ReplicaSet to say what was waited for", probe)


async def scale(env: Environment, replicas: int) -> None:
    """Scale as an autoscaler does, bypassing the webhook."""
    ops = PatchBuilder().replace("/spec/replicas", replicas)
    await env.client.patch(DEPLOYMENTS, "db", ops, env.name, subresource="scale")


async def updated(env: Environment, replicas: int) -> None:
    """Wait until all pods have the current template and run."""

    async def probe() -> bool:
        found = await env.client.get(DEPLOYMENTS, "db", env.name)
        status, want = found.get("status", {}), found["metadata"]["generation"]
        counts = {status.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")}
        return counts == {replicas} and status.get("observedGeneration") == want

    await env.until("the update to end", probe)


async def minimum(env: Environment, group: str, count: int) -> None:
    async def probe() -> bool:
        spec = (await env.group(group))["spec"]
        return bool(spec["schedulingPolicy"]["gang"]["minCount"] == count)

    await env.until(f"minCount {count}", probe)


def deployment(env: Environment, replicas: int) -> Json:
    made = stateful_set(env) | {"kind": "Deployment"}
    for field in ("serviceName", "podManagementPolicy"):
        del made["spec"][field]
    made["metadata"]["annotations"] = dict(GANG)
    made["spec"]["replicas"] = replicas
    made["spec"]["template"]["metadata"] = {"labels": {"app": "db"}}
    return made


def stateful_set(env: Environment) -> Json:
    labels = {"app": "db"}
    spec: dict[str, Any] = pod_spec(env.name) | {"restartPolicy": "Always"}
    # Without grace period: only deletion ends these pods, and they are replaced one by one.
    spec["terminationGracePeriodSeconds"] = 0
    meta = {"labels": labels | {LABEL_POD_GROUP: "db"}, "annotations": {ANNOTATION_MIN_COUNT: "4"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "replicas": 4,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": meta, "spec": spec},
        },
    }
