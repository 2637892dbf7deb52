"""Server-side apply: field ownership and conflicts."""

from typing import Any

from e2e.harness.support.rest import APPLY_PATCH, Answer, Rest
from e2e.kubernetes.apiserver.objects import Namespace, config_map, job, owner, pod_spec


async def _apply(
    rest: Rest,
    ns: Namespace,
    data: dict[str, str],
    manager: str,
    *,
    force: bool = False,
    name: str = "a",
    **metadata: Any,
) -> Answer:
    params = {"fieldManager": manager, **({"force": "true"} if force else {})}
    body = config_map(name, data, **metadata)
    return await rest.patch(ns.config_maps(name), body, APPLY_PATCH, params=params)


async def test_apply_creates_what_is_missing(rest: Rest, ns: Namespace) -> None:
    created = (await _apply(rest, ns, {"k": "1"}, "one")).expect(201)

    assert created["data"] == {"k": "1"}
    entry = created["metadata"]["managedFields"][0]
    assert (entry["manager"], entry["operation"]) == ("one", "Apply")
    assert entry["fieldsType"] == "FieldsV1"
    assert entry["fieldsV1"]["f:data"] == {"f:k": {}}


async def test_applying_the_same_again_writes_nothing(rest: Rest, ns: Namespace) -> None:
    created = (await _apply(rest, ns, {"k": "1"}, "one")).ok()

    again = (await _apply(rest, ns, {"k": "1"}, "one")).expect(200)

    assert again["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_a_field_no_longer_applied_is_removed(rest: Rest, ns: Namespace) -> None:
    await _apply(rest, ns, {"stays": "1", "goes": "1"}, "one", labels={"l": "1"})

    applied = (await _apply(rest, ns, {"stays": "1"}, "one")).expect(200)

    assert applied["data"] == {"stays": "1"}
    assert "labels" not in applied["metadata"]


async def test_fields_of_others_are_left_alone(rest: Rest, ns: Namespace) -> None:
    await _apply(rest, ns, {"mine": "1"}, "one")
    await _apply(rest, ns, {"theirs": "1"}, "two")

    applied = (await _apply(rest, ns, {"mine": "2"}, "one")).expect(200)

    assert applied["data"] == {"mine": "2", "theirs": "1"}


async def test_a_field_owned_by_another_is_a_conflict(rest: Rest, ns: Namespace) -> None:
    await _apply(rest, ns, {"k": "1"}, "one")

    status = (await _apply(rest, ns, {"k": "2"}, "two")).expect(409)

    assert status["reason"] == "Conflict"
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.k"}
    ]
    assert (await rest.get(ns.config_maps("a"))).ok()["data"] == {"k": "1"}


async def test_force_takes_the_field_over(rest: Rest, ns: Namespace) -> None:
    await _apply(rest, ns, {"k": "1"}, "one")

    forced = (await _apply(rest, ns, {"k": "2"}, "two", force=True)).expect(200)

    assert forced["data"] == {"k": "2"}
    owners = {
        m["manager"] for m in forced["metadata"]["managedFields"] if "f:data" in m["fieldsV1"]
    }
    assert owners == {"two"}


async def test_equal_values_are_owned_together(rest: Rest, ns: Namespace) -> None:
    await _apply(rest, ns, {"k": "1"}, "one")
    await _apply(rest, ns, {"k": "1"}, "two")

    # The first gives up the field; the second still owns it.
    applied = (await _apply(rest, ns, {"other": "1"}, "one")).expect(200)

    assert applied["data"] == {"k": "1", "other": "1"}


async def test_an_update_owns_what_it_changed(rest: Rest, ns: Namespace) -> None:
    await _apply(rest, ns, {"k": "1"}, "one")
    patch = {"data": {"k": "2"}}
    await rest.patch(ns.config_maps("a"), patch, params={"fieldManager": "editor"})

    status = (await _apply(rest, ns, {"k": "3"}, "one")).expect(409)

    message = status["details"]["causes"][0]["message"]
    assert message.startswith('conflict with "editor" using v1')


async def test_list_items_are_merged_by_their_key(rest: Rest, ns: Namespace) -> None:
    def applied_job(container: dict[str, Any]) -> dict[str, Any]:
        spec = pod_spec(restartPolicy="Never")
        spec["containers"] = [container]
        return job("a", spec={"template": {"spec": spec}})

    one = applied_job({"name": "one", "image": "a:1", "env": [{"name": "A", "value": "1"}]})
    params = {"fieldManager": "one"}
    (await rest.patch(ns.jobs("a"), one, APPLY_PATCH, params=params)).expect(201)
    parent = (await rest.post(ns.config_maps(), config_map("parent"))).expect(201)
    owners: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a", "ownerReferences": [owner(parent)]},
    }
    two = {"fieldManager": "two"}
    both = (await rest.patch(ns.jobs("a"), owners, APPLY_PATCH, params=two)).expect(200)
    assert [o["name"] for o in both["metadata"]["ownerReferences"]] == ["parent"]

    owners["metadata"]["ownerReferences"] = []
    gone = (await rest.patch(ns.jobs("a"), owners, APPLY_PATCH, params=two)).expect(200)
    assert "ownerReferences" not in gone["metadata"]
    assert gone["spec"]["template"]["spec"]["containers"][0]["image"] == "a:1"


async def test_a_field_manager_is_required(rest: Rest, ns: Namespace) -> None:
    status = (await rest.patch(ns.config_maps("a"), config_map("a"), APPLY_PATCH)).expect(422)

    assert ("FieldValueRequired", "fieldManager") in {
        (cause["reason"], cause["field"]) for cause in status["details"]["causes"]
    }


async def test_managed_fields_may_not_be_applied(rest: Rest, ns: Namespace) -> None:
    answer = await _apply(rest, ns, {"k": "1"}, "one", managedFields=[{"manager": "x"}])

    answer.expect(400)


async def test_the_body_may_be_yaml(rest: Rest, ns: Namespace) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: from yaml\n"
    params = {"fieldManager": "one"}

    created = (await rest.patch(ns.config_maps("a"), body, APPLY_PATCH, params=params)).expect(201)

    assert created["data"] == {"k": "from yaml"}


async def test_the_status_is_applied_on_its_own(rest: Rest, ns: Namespace) -> None:
    (await rest.post(ns.jobs(), job("a"))).expect(201)
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "status": {"conditions": [_condition("Made"), _condition("Checked")]},
    }
    path = f"{ns.jobs('a')}/status"

    applied = (
        await rest.patch(path, body, APPLY_PATCH, params={"fieldManager": "c", "force": "true"})
    ).expect(200)

    kinds = {condition["type"] for condition in applied["status"]["conditions"]}
    assert {"Made", "Checked"} <= kinds
    entry = next(m for m in applied["metadata"]["managedFields"] if m["manager"] == "c")
    assert entry["subresource"] == "status"


def _condition(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
