"""Deletion: preconditions, finalizers, grace periods, and dependents."""

from typing import Any

import pytest

from e2e.harness.support.rest import JSON_PATCH, Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.objects import (
    Namespace,
    binding,
    config_map,
    delete_options,
    owner,
    pod,
    pod_spec,
)

Object = dict[str, Any]


async def _gone(rest: Rest, path: str) -> bool:
    return (await rest.get(path)).status == 404


async def _release(rest: Rest, path: str) -> None:
    (await rest.patch(path, {"metadata": {"finalizers": None}})).expect(200)


async def test_a_deletion_is_answered_with_success(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a"))).ok()

    status = (await rest.delete(ns.config_maps("a"))).expect(200)

    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": created["metadata"]["uid"],
    }
    assert await _gone(rest, ns.config_maps("a"))


@pytest.mark.parametrize("kind", ["pods", "config_maps"])
async def test_a_deletion_may_be_answered_with_metadata_only(
    rest: Rest, ns: Namespace, node: str, kind: str
) -> None:
    """A response with the object omits the other fields; a Status remains a Status."""
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
    if kind == "pods":
        path, body = ns.pods(), pod("a", spec=pod_spec(nodeName=node))
    else:
        path, body = ns.config_maps(), config_map("a")
    await rest.post(path, body)

    answer = (await rest.delete(f"{path}/a", delete_options(), accept=accept)).expect(200)

    assert answer["kind"] == ("PartialObjectMetadata" if kind == "pods" else "Status")
    assert not answer.get("spec")
    await eventually(lambda: _gone(rest, f"{path}/a"), "it to go")


async def test_deleting_what_is_not_there_is_not_found(rest: Rest, ns: Namespace) -> None:
    (await rest.delete(ns.config_maps("absent"))).expect(404)


@pytest.mark.parametrize("which", ["uid", "resourceVersion"])
async def test_a_precondition_that_fails_is_a_conflict(
    rest: Rest, ns: Namespace, which: str
) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a"))).ok()
    wrong = {"uid": "00000000-0000-0000-0000-000000000000", "resourceVersion": "1"}[which]
    options = delete_options(preconditions={which: wrong})

    status = (await rest.delete(ns.config_maps("a"), options)).expect(409)
    assert status["reason"] == "Conflict"

    options = delete_options(preconditions={which: created["metadata"][which]})
    (await rest.delete(ns.config_maps("a"), options)).expect(200)


async def test_a_finalizer_keeps_the_object_until_it_is_removed(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("a", finalizers=["example.com/a"]))

    answer = (await rest.delete(ns.config_maps("a"))).expect(200)
    assert answer["kind"] == "ConfigMap"
    kept = (await rest.get(ns.config_maps("a"))).expect(200)
    assert kept["metadata"]["deletionTimestamp"]
    assert kept["metadata"]["deletionGracePeriodSeconds"] == 0

    await _release(rest, ns.config_maps("a"))
    assert await _gone(rest, ns.config_maps("a"))


async def test_a_finalizer_may_not_be_added_to_what_is_being_deleted(
    rest: Rest, ns: Namespace
) -> None:
    await rest.post(ns.config_maps(), config_map("a", finalizers=["example.com/a"]))
    await rest.delete(ns.config_maps("a"))
    more = {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}

    status = (await rest.patch(ns.config_maps("a"), more)).expect(422)

    cause = status["details"]["causes"][0]
    assert (cause["reason"], cause["field"]) == ("FieldValueForbidden", "metadata.finalizers")
    await _release(rest, ns.config_maps("a"))


async def test_deleting_twice_changes_nothing_more(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("a", finalizers=["example.com/a"]))
    first = (await rest.delete(ns.config_maps("a"))).ok()

    second = (await rest.delete(ns.config_maps("a"))).expect(200)

    stamp = "deletionTimestamp"
    assert second["metadata"][stamp] == first["metadata"][stamp]
    await _release(rest, ns.config_maps("a"))


async def test_a_deletion_timestamp_cannot_be_taken_back(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("a", finalizers=["example.com/a"]))
    await rest.delete(ns.config_maps("a"))
    remove = [{"op": "remove", "path": "/metadata/deletionTimestamp"}]

    await rest.patch(ns.config_maps("a"), remove, JSON_PATCH)

    assert (await rest.get(ns.config_maps("a"))).ok()["metadata"]["deletionTimestamp"]
    await _release(rest, ns.config_maps("a"))


async def test_removing_the_last_finalizer_is_seen_as_a_deletion(rest: Rest, ns: Namespace) -> None:
    created = (
        await rest.post(ns.config_maps(), config_map("a", finalizers=["example.com/a"]))
    ).ok()
    params = {"resourceVersion": created["metadata"]["resourceVersion"]}
    async with rest.watch(ns.config_maps(), params) as watch:
        await rest.delete(ns.config_maps("a"))
        modified = await watch.until("MODIFIED", "a")
        assert modified["metadata"]["deletionTimestamp"]
        await _release(rest, ns.config_maps("a"))
        await watch.until("DELETED", "a")


async def test_a_name_is_free_again_after_the_deletion(rest: Rest, ns: Namespace) -> None:
    first = (await rest.post(ns.config_maps(), config_map("a"))).ok()
    await rest.delete(ns.config_maps("a"))

    second = (await rest.post(ns.config_maps(), config_map("a"))).expect(201)

    assert second["metadata"]["uid"] != first["metadata"]["uid"]


# Pods


async def test_a_pod_without_a_node_goes_at_once(rest: Rest, ns: Namespace) -> None:
    (await rest.post(ns.pods(), pod("a"))).expect(201)

    (await rest.delete(ns.pods("a"))).expect(200)

    assert await _gone(rest, ns.pods("a"))


async def test_a_pod_with_a_node_is_given_its_grace_period(
    rest: Rest, ns: Namespace, node: str
) -> None:
    (await rest.post(ns.pods(), pod("a", finalizers=["example.com/hold"]))).expect(201)
    (await rest.post(f"{ns.pods('a')}/binding", binding("a", node))).expect(201)

    (await rest.delete(ns.pods("a"), delete_options(gracePeriodSeconds=7))).expect(200)

    kept = (await rest.get(ns.pods("a"))).expect(200)
    assert kept["metadata"]["deletionTimestamp"]
    assert kept["metadata"]["deletionGracePeriodSeconds"] in (0, 7)
    await _release(rest, ns.pods("a"))
    await eventually(lambda: _gone(rest, ns.pods("a")), "the pod to go")


async def test_a_pod_is_deleted_at_once_without_grace(rest: Rest, ns: Namespace, node: str) -> None:
    (await rest.post(ns.pods(), pod("a"))).expect(201)
    (await rest.post(f"{ns.pods('a')}/binding", binding("a", node))).expect(201)

    (await rest.delete(ns.pods("a"), delete_options(gracePeriodSeconds=0))).expect(200)

    assert await _gone(rest, ns.pods("a"))


async def test_a_second_deletion_shortens_the_grace_period_and_never_lengthens_it(
    rest: Rest, ns: Namespace, server_kind: str
) -> None:
    """The node has no kubelet, which would end the pod meanwhile."""
    if server_kind == "local":
        pytest.skip("pods of a node that is not there are collected at once")
    (await rest.post(ns.pods(), pod("a"))).expect(201)
    (await rest.post(f"{ns.pods('a')}/binding", binding("a", "nowhere"))).expect(201)
    given = []
    for grace in (100_000_000, 30, 60):
        options = delete_options(gracePeriodSeconds=grace)
        (await rest.delete(ns.pods("a"), options)).expect(200)
        meta = (await rest.get(ns.pods("a"))).expect(200)["metadata"]
        given.append((meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]))

    assert [grace for _, grace in given] == [100_000_000, 30, 30]
    assert given[0][0] > given[1][0] == given[2][0]
    (await rest.delete(ns.pods("a"), delete_options(gracePeriodSeconds=0))).expect(200)


# Dependents


async def _family(
    rest: Rest, ns: Namespace, *, block: bool = False, **child: Any
) -> tuple[Object, Object]:
    parent = (await rest.post(ns.config_maps(), config_map("parent"))).expect(201)
    body = config_map("child", ownerReferences=[owner(parent, block=block)], **child)
    return parent, (await rest.post(ns.config_maps(), body)).expect(201)


@pytest.mark.parametrize("options", [None, delete_options(propagationPolicy="Background")])
async def test_dependents_follow_their_owner(
    rest: Rest, ns: Namespace, options: Object | None
) -> None:
    await _family(rest, ns)

    (await rest.delete(ns.config_maps("parent"), options)).expect(200)

    assert await _gone(rest, ns.config_maps("parent"))
    await eventually(lambda: _gone(rest, ns.config_maps("child")), "the child to go")


async def test_foreground_deletion_takes_the_dependents_first(rest: Rest, ns: Namespace) -> None:
    await _family(rest, ns, block=True, finalizers=["example.com/hold"])

    options = delete_options(propagationPolicy="Foreground")
    (await rest.delete(ns.config_maps("parent"), options)).expect(200)

    async def child_is_being_deleted() -> bool:
        child = (await rest.get(ns.config_maps("child"))).ok()
        return "deletionTimestamp" in child["metadata"]

    await eventually(child_is_being_deleted, "the child to be deleted")
    parent = (await rest.get(ns.config_maps("parent"))).expect(200)
    assert parent["metadata"]["finalizers"] == ["foregroundDeletion"]
    await _release(rest, ns.config_maps("child"))
    await eventually(lambda: _gone(rest, ns.config_maps("parent")), "the parent to go")


async def test_a_dependent_that_does_not_block_is_not_waited_for(rest: Rest, ns: Namespace) -> None:
    await _family(rest, ns, block=False, finalizers=["example.com/hold"])

    options = delete_options(propagationPolicy="Foreground")
    (await rest.delete(ns.config_maps("parent"), options)).expect(200)

    await eventually(lambda: _gone(rest, ns.config_maps("parent")), "the parent to go")
    await eventually(lambda: _is_deleting(rest, ns.config_maps("child")), "the child to be deleted")
    await _release(rest, ns.config_maps("child"))


async def _is_deleting(rest: Rest, path: str) -> bool:
    return "deletionTimestamp" in (await rest.get(path)).ok()["metadata"]


async def test_orphaned_dependents_stay_without_the_reference(rest: Rest, ns: Namespace) -> None:
    await _family(rest, ns)

    options = delete_options(propagationPolicy="Orphan")
    (await rest.delete(ns.config_maps("parent"), options)).expect(200)

    await eventually(lambda: _gone(rest, ns.config_maps("parent")), "the parent to go")
    child = (await rest.get(ns.config_maps("child"))).expect(200)
    assert "ownerReferences" not in child["metadata"]


async def test_a_dependent_goes_with_its_last_owner(rest: Rest, ns: Namespace) -> None:
    first = (await rest.post(ns.config_maps(), config_map("first"))).ok()
    second = (await rest.post(ns.config_maps(), config_map("second"))).ok()
    child = config_map("child", ownerReferences=[owner(first), owner(second)])
    await rest.post(ns.config_maps(), child)

    await rest.delete(ns.config_maps("first"))

    async def has_one_owner() -> bool:
        owners = (await rest.get(ns.config_maps("child"))).ok()["metadata"]["ownerReferences"]
        return [reference["name"] for reference in owners] == ["second"]

    await eventually(has_one_owner, "the first reference to be removed")
    await rest.delete(ns.config_maps("second"))
    await eventually(lambda: _gone(rest, ns.config_maps("child")), "the child to go")


async def test_a_dependent_of_an_owner_that_never_was_is_collected(
    rest: Rest, ns: Namespace
) -> None:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "never",
        "uid": "00000000-0000-0000-0000-000000000000",
    }
    await rest.post(ns.config_maps(), config_map("child", ownerReferences=[reference]))

    await eventually(lambda: _gone(rest, ns.config_maps("child")), "the child to go")


async def test_two_controllers_are_refused(rest: Rest, ns: Namespace) -> None:
    parent = (await rest.post(ns.config_maps(), config_map("parent"))).ok()
    other = (await rest.post(ns.config_maps(), config_map("other"))).ok()
    owners = [owner(parent, controller=True), owner(other, controller=True)]

    status = (
        await rest.post(ns.config_maps(), config_map("child", ownerReferences=owners))
    ).expect(422)

    assert status["details"]["causes"][0]["field"] == "metadata.ownerReferences"


# Namespaces


@pytest.mark.long
async def test_a_namespace_takes_everything_in_it_along(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("a"))
    held = config_map("held", finalizers=["example.com/hold"])
    (await rest.post(ns.config_maps(), held)).expect(201)

    (await rest.delete(f"/api/v1/namespaces/{ns.name}")).expect(200)

    read = (await rest.get(f"/api/v1/namespaces/{ns.name}")).expect(200)
    assert read["status"]["phase"] == "Terminating"
    await eventually(lambda: _gone(rest, ns.config_maps("a")), "the config map to go")
    refused = (await rest.post(ns.config_maps(), config_map("late"))).expect(403)
    assert refused["reason"] == "Forbidden"
    assert refused["details"]["causes"][0]["reason"] == "NamespaceTerminating"

    await _release(rest, ns.config_maps("held"))
    await eventually(lambda: _gone(rest, f"/api/v1/namespaces/{ns.name}"), "the namespace", 25)


async def test_a_namespace_is_active_with_a_label_of_its_name(rest: Rest, ns: Namespace) -> None:
    read = (await rest.get(f"/api/v1/namespaces/{ns.name}")).expect(200)

    assert read["status"]["phase"] == "Active"
    assert read["metadata"]["labels"]["kubernetes.io/metadata.name"] == ns.name
    assert read["spec"]["finalizers"] == ["kubernetes"]


async def test_the_default_namespace_cannot_be_deleted(rest: Rest) -> None:
    assert (await rest.delete("/api/v1/namespaces/default")).status == 403
