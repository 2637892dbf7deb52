"""Dry runs: all steps except the write."""

import pytest

from e2e.harness.support.rest import APPLY_PATCH, Rest
from e2e.kubernetes.apiserver.objects import Namespace, config_map, job

DRY = {"dryRun": "All"}


async def test_nothing_is_created(rest: Rest, ns: Namespace) -> None:
    answered = (await rest.post(ns.jobs(), job("a"), params=DRY)).expect(201)

    assert answered["metadata"]["uid"]
    assert answered["spec"]["backoffLimit"] == 6
    assert "resourceVersion" not in answered["metadata"]
    (await rest.get(ns.jobs("a"))).expect(404)


async def test_errors_are_told(rest: Rest, ns: Namespace) -> None:
    bad = job("a", spec={"parallelism": -1})

    (await rest.post(ns.jobs(), bad, params=DRY)).expect(422)


async def test_nothing_is_changed_or_deleted(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a"))).ok()

    patched = (await rest.patch(ns.config_maps("a"), {"data": {"k": "2"}}, params=DRY)).expect(200)
    replaced = (await rest.put(ns.config_maps("a"), config_map("a", {}), params=DRY)).expect(200)
    params = {**DRY, "fieldManager": "x", "force": "true"}
    applied = (
        await rest.patch(ns.config_maps("a"), config_map("a"), APPLY_PATCH, params=params)
    ).expect(200)
    (await rest.delete(ns.config_maps("a"), params=DRY)).expect(200)

    assert patched["data"] == {"k": "2"}
    assert replaced["data"] == {"k": "v"}
    assert applied["metadata"]["name"] == "a"
    assert (await rest.get(ns.config_maps("a"))).ok() == created


@pytest.mark.parametrize("value", ["true", "Some"])
async def test_other_words_are_refused(rest: Rest, ns: Namespace, value: str) -> None:
    answer = await rest.post(ns.config_maps(), config_map("a"), params={"dryRun": value})

    assert answer.status in (400, 422)
