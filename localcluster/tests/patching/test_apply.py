from typing import Any

import pytest

from localcluster.base.errors import StatusError
from localcluster.base.hooks import WriteOptions
from localcluster.base.resources import CONFIG_MAPS, PODS
from localcluster.base.store import Stored
from localcluster.registry.api import Api
from localcluster.tests.core import config_map, make_api, pod


@pytest.fixture
async def api() -> Api:
    return await make_api()


async def apply(
    api: Api, data: dict[str, str], manager: str, *, force: bool = False
) -> dict[str, Any]:
    options = WriteOptions(field_manager=manager, force=force)
    body = config_map("a", data)
    stored = await api.patch(CONFIG_MAPS, "a", body, "default", kind="apply", options=options)
    return stored.obj


def managers(stored: Stored | dict[str, Any]) -> dict[str, Any]:
    obj = stored.obj if isinstance(stored, Stored) else stored
    entries = obj["metadata"].get("managedFields", [])
    return {f"{entry['manager']}/{entry['operation']}": entry["fieldsV1"] for entry in entries}


async def test_the_first_apply_creates_and_owns(api: Api) -> None:
    made = await apply(api, {"k": "1"}, "one")

    assert managers(made) == {"one/Apply": {"f:data": {"f:k": {}}}}


async def test_fields_that_are_no_longer_applied_go(api: Api) -> None:
    await apply(api, {"k": "1", "l": "1"}, "one")

    assert (await apply(api, {"l": "1"}, "one"))["data"] == {"l": "1"}


async def test_another_managers_value_is_a_conflict_that_names_it(api: Api) -> None:
    await apply(api, {"k": "1"}, "one")

    with pytest.raises(StatusError) as caught:
        await apply(api, {"k": "2"}, "two")

    status = caught.value.to_json()
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    assert status["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.k"}
    ]


async def test_equal_values_are_shared_and_stay_until_the_last_owner_drops_them(api: Api) -> None:
    await apply(api, {"k": "1"}, "one")
    await apply(api, {"k": "1"}, "two")

    assert (await apply(api, {}, "one"))["data"] == {"k": "1"}
    assert "data" not in await apply(api, {}, "two")


async def test_a_plain_write_takes_what_it_changes(api: Api) -> None:
    await apply(api, {"k": "1", "l": "1"}, "one")

    changed = await api.patch(
        CONFIG_MAPS,
        "a",
        {"data": {"k": "2"}},
        "default",
        options=WriteOptions(field_manager="editor"),
    )

    assert managers(changed) == {
        "one/Apply": {"f:data": {"f:l": {}}},
        "editor/Update": {"f:data": {"f:k": {}}},
    }
    with pytest.raises(StatusError, match='conflict with "editor" using v1'):
        await apply(api, {"k": "3", "l": "1"}, "one")


async def test_an_apply_that_changes_nothing_writes_nothing(api: Api) -> None:
    first = await apply(api, {"k": "1"}, "one")

    assert (await apply(api, {"k": "1"}, "one")) is first


async def test_list_items_are_owned_by_their_keys(api: Api) -> None:
    options = WriteOptions(field_manager="one")
    await api.patch(PODS, "p", pod(), "default", kind="apply", options=options)

    entry = managers(api.get(PODS, "p", "default"))["one/Apply"]

    item = entry["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert item == {".": {}, "f:name": {}, "f:image": {}}


async def test_status_has_managers_of_its_own(api: Api) -> None:
    await api.create(PODS, pod(), "default", options=WriteOptions(field_manager="maker"))
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    await api.patch(
        PODS,
        "p",
        status,
        "default",
        kind="strategic",
        subresource="status",
        options=WriteOptions(field_manager="kubelet"),
    )

    entries = api.get(PODS, "p", "default").obj["metadata"]["managedFields"]
    assert [(e["manager"], e.get("subresource")) for e in entries] == [
        ("maker", None),
        ("kubelet", "status"),
    ]


async def test_managed_fields_can_be_reset(api: Api) -> None:
    await apply(api, {"k": "1"}, "one")

    patch: dict[str, Any] = {"metadata": {"managedFields": [{}]}}
    reset = await api.patch(CONFIG_MAPS, "a", patch, "default")

    assert "managedFields" not in reset.obj["metadata"]


async def test_what_was_there_before_the_first_apply_belongs_to_nobody_in_particular(
    api: Api,
) -> None:
    await api.create(CONFIG_MAPS, config_map("a", {"k": "0"}), "default")
    await api.patch(CONFIG_MAPS, "a", {"metadata": {"managedFields": [{}]}}, "default")

    with pytest.raises(StatusError, match='conflict with "before-first-apply" using v1'):
        await apply(api, {"k": "1"}, "one")
