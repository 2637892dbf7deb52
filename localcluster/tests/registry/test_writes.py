import asyncio
from typing import Any

import pytest

from localcluster.base.errors import StatusError
from localcluster.base.hooks import AdmissionRequest, WriteOptions
from localcluster.base.resources import CONFIG_MAPS, JOBS, LEASES, PODS, SECRETS
from localcluster.registry.api import Api
from localcluster.tests.core import binding, config_map, job, make_api, now_of, pod


@pytest.fixture
async def api() -> Api:
    return await make_api()


def refused(error: pytest.ExceptionInfo[StatusError]) -> tuple[int, str]:
    return error.value.code, error.value.reason


async def test_a_new_object_gets_its_metadata_from_the_server(api: Api) -> None:
    stored = await api.create(CONFIG_MAPS, config_map("a", uid="mine"), "default")

    meta = stored.obj["metadata"]
    assert (meta["namespace"], meta["creationTimestamp"]) == ("default", now_of(api))
    assert meta["uid"] != "mine"
    assert meta["resourceVersion"] == str(api.store.revision)
    assert (stored.obj["kind"], stored.obj["apiVersion"]) == ("ConfigMap", "v1")


async def test_names_are_generated_from_a_base(api: Api) -> None:
    body = {"metadata": {"generateName": "x-" * 40}}

    names = {(await api.create(CONFIG_MAPS, body, "default")).key[1] for _ in range(20)}

    assert len(names) == 20
    assert {len(name) for name in names} == {63}


async def test_what_is_put_in_is_copied(api: Api) -> None:
    body = config_map("a")

    await api.create(CONFIG_MAPS, body, "default")

    assert body == config_map("a")


@pytest.mark.parametrize(
    ("body", "namespace", "want"),
    [
        pytest.param(config_map("a"), "default", (409, "AlreadyExists"), id="a name that is taken"),
        pytest.param(config_map("A"), "default", (422, "Invalid"), id="a bad name"),
        pytest.param({}, "default", (422, "Invalid"), id="no name"),
        pytest.param(config_map("b"), "nowhere", (404, "NotFound"), id="no such namespace"),
        pytest.param(
            config_map("b", namespace="other"),
            "default",
            (400, "BadRequest"),
            id="another namespace in the body",
        ),
        pytest.param({"kind": "Pod"}, "default", (400, "BadRequest"), id="another kind"),
        pytest.param(
            config_map("b", labels={"a": 1}), "default", (400, "BadRequest"), id="a number"
        ),
        pytest.param(
            config_map("b", labels={"a b": "c"}), "default", (422, "Invalid"), id="a label"
        ),
        pytest.param(config_map("b", resourceVersion="1"), "default", (500, ""), id="a version"),
    ],
)
async def test_bad_objects_are_refused(
    api: Api, body: dict[str, Any], namespace: str, want: tuple[int, str]
) -> None:
    await api.create(CONFIG_MAPS, config_map("a"), "default")

    with pytest.raises(StatusError) as caught:
        await api.create(CONFIG_MAPS, body, namespace)

    assert refused(caught) == want


async def test_all_causes_come_together(api: Api) -> None:
    body = pod("P", spec={"containers": [{"name": "c"}], "restartPolicy": "Sometimes"})

    with pytest.raises(StatusError) as caught:
        await api.create(PODS, body, "default")

    status = caught.value.to_json()
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert fields == ["metadata.name", "spec.containers[0].image", "spec.restartPolicy"]
    assert status["message"].startswith('Pod "P" is invalid: [metadata.name: Invalid value: "P": ')


async def test_an_update_against_an_old_version_is_a_conflict(api: Api) -> None:
    first = await api.create(CONFIG_MAPS, config_map("a"), "default")
    await api.patch(CONFIG_MAPS, "a", {"data": {"k": "w"}}, "default")

    with pytest.raises(StatusError) as caught:
        await api.update(CONFIG_MAPS, first.obj, "default")

    assert refused(caught) == (409, "Conflict")
    assert "the object has been modified" in caught.value.message
    assert caught.value.details == {"name": "a", "kind": "configmaps"}


async def test_an_update_that_changes_nothing_writes_nothing(api: Api) -> None:
    first = await api.create(CONFIG_MAPS, config_map("a"), "default")

    assert await api.update(CONFIG_MAPS, first.obj, "default") is first
    assert await api.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}}, "default") is first


async def test_what_the_server_wrote_cannot_be_changed(api: Api) -> None:
    first = await api.create(CONFIG_MAPS, config_map("a"), "default")
    patch = {"metadata": {"creationTimestamp": None, "generation": 7, "deletionTimestamp": "x"}}

    after = await api.patch(CONFIG_MAPS, "a", patch, "default")

    assert after is first
    with pytest.raises(StatusError, match="field is immutable"):
        await api.patch(CONFIG_MAPS, "a", {"metadata": {"uid": "other"}}, "default")


async def test_status_and_spec_are_written_apart(api: Api) -> None:
    await api.create(JOBS, {**job(), "status": {"active": 9}}, "default")
    both = {"spec": {"parallelism": 2}, "status": {"active": 1}}

    through_status = await api.patch(JOBS, "j", both, "default", subresource="status")
    through_main = await api.patch(JOBS, "j", {**both, "status": {"active": 5}}, "default")

    assert (through_status.obj["spec"]["parallelism"], through_status.obj["status"]) == (
        1,
        {"active": 1},
    )
    assert (through_main.obj["spec"]["parallelism"], through_main.obj["status"]) == (
        2,
        {"active": 1},
    )


async def test_a_dry_run_says_what_would_be_and_keeps_nothing(api: Api) -> None:
    dry = WriteOptions(dry_run=True)
    before = api.store.revision

    made = await api.create(CONFIG_MAPS, config_map("a"), "default", options=dry)

    assert made.obj["metadata"]["uid"]
    assert api.store.revision == before
    await api.create(CONFIG_MAPS, config_map("a"), "default")
    with pytest.raises(StatusError) as caught:
        await api.create(CONFIG_MAPS, config_map("a"), "default", options=dry)
    assert refused(caught) == (409, "AlreadyExists")
    changed = await api.patch(CONFIG_MAPS, "a", {"data": {"k": "w"}}, "default", options=dry)
    assert changed.obj["data"] == {"k": "w"}
    assert api.get(CONFIG_MAPS, "a", "default").obj["data"] == {"k": "v"}


async def test_some_kinds_are_made_by_put_and_then_demand_a_version(api: Api) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {}}

    await api.update(LEASES, lease, "default")

    assert api.get(LEASES, "l", "default").obj["spec"] == {}
    with pytest.raises(StatusError, match="must be specified for an update"):
        await api.update(LEASES, lease, "default")
    with pytest.raises(StatusError) as caught:
        await api.update(CONFIG_MAPS, config_map("a"), "default")
    assert refused(caught) == (404, "NotFound")


async def test_plain_strings_of_a_secret_become_data(api: Api) -> None:
    body = {"metadata": {"name": "s"}, "stringData": {"k": "v"}}

    stored = await api.create(SECRETS, body, "default")

    assert stored.obj["data"] == {"k": "dg=="}
    assert "stringData" not in stored.obj


class Interfering:
    """Admission step that lets another writer interfere."""

    def __init__(self, api: Api, times: int) -> None:
        self._api = api
        self.times = times

    async def mutate(self, request: AdmissionRequest) -> None:
        await asyncio.sleep(0)

    async def validate(self, request: AdmissionRequest) -> None:
        if self.times:
            self.times -= 1
            await self._api.patch(CONFIG_MAPS, "a", {"data": {"n": str(self.times)}}, "default")


async def test_a_patch_is_made_again_when_another_writer_was_faster(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map("a"), "default")
    api.admission.append(Interfering(api, 1))

    after = await api.patch(CONFIG_MAPS, "a", {"data": {"k": "w"}}, "default")

    assert after.obj["data"] == {"k": "w", "n": "0"}


async def test_a_conditional_update_is_not_made_again(api: Api) -> None:
    first = await api.create(CONFIG_MAPS, config_map("a"), "default")
    api.admission.append(Interfering(api, 1))

    with pytest.raises(StatusError) as caught:
        await api.update(CONFIG_MAPS, {**first.copy(), "data": {"k": "w"}}, "default")

    assert refused(caught) == (409, "Conflict")


async def test_unknown_patches_of_bindings_are_not_allowed(api: Api) -> None:
    await api.create(PODS, pod(), "default")

    with pytest.raises(StatusError) as caught:
        await api.update(PODS, binding(), "default", name="p", subresource="binding")

    assert refused(caught) == (405, "MethodNotAllowed")
