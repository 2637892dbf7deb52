"""caBundle patches change outdated fields and no others."""

from typing import Any

import jsonpatch
import pytest

from certs.bundle import conversion_bundle_patch, encoded, webhook_bundle_patch

BUNDLE = b"-----BEGIN CERTIFICATE-----\n"
RIGHT = encoded(BUNDLE)


def configuration(*bundles: str | None) -> dict[str, Any]:
    webhooks = []
    for index, bundle in enumerate(bundles):
        config = {"service": {"name": "muster-webhook", "namespace": "muster-system"}}
        entry = {"name": f"w{index}.example.dev", "clientConfig": config, "sideEffects": "None"}
        if bundle is not None:
            entry["clientConfig"] = {**config, "caBundle": bundle}
        webhooks.append(entry)
    return {"metadata": {"name": "muster"}, "webhooks": webhooks}


@pytest.mark.parametrize(
    ("found", "tested"),
    [
        pytest.param(configuration(None, None), [0, 1], id="no bundle yet"),
        pytest.param(configuration(RIGHT, "b2xk"), [1], id="one entry was changed by someone"),
        pytest.param(configuration(RIGHT, RIGHT), [], id="all is right"),
        pytest.param({"metadata": {"name": "muster"}}, [], id="no entries"),
    ],
)
def test_entries_that_are_wrong_get_the_bundle(found: dict[str, Any], tested: list[int]) -> None:
    patch = webhook_bundle_patch(found, BUNDLE)
    patched = jsonpatch.apply_patch(found, patch.ops)
    bundles = [entry["clientConfig"]["caBundle"] for entry in patched.get("webhooks", [])]
    for entry in (*found.get("webhooks", []), *patched.get("webhooks", [])):
        entry["clientConfig"].pop("caBundle", None)

    assert bundles == [RIGHT] * len(bundles)
    assert patched == found
    assert [op["path"] for op in patch if op["op"] == "test"] == [
        f"/webhooks/{index}/name" for index in tested
    ]


def test_a_list_that_was_reordered_in_between_is_refused() -> None:
    patch = webhook_bundle_patch(configuration(None, None), BUNDLE)
    other = configuration(None, None)
    other["webhooks"].reverse()

    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(other, patch.ops)


@pytest.mark.parametrize(
    ("found", "writes"),
    [
        pytest.param({}, True, id="no bundle yet"),
        pytest.param({"caBundle": "b2xk"}, True, id="a bundle that someone changed"),
        pytest.param({"caBundle": RIGHT}, False, id="all is right"),
    ],
)
def test_a_definition_gets_the_bundle(found: dict[str, str], writes: bool) -> None:
    config = {"service": {"name": "muster-webhook"}} | found
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": config}}
    definition = {"spec": {"conversion": conversion}}

    patch = conversion_bundle_patch(definition, BUNDLE)
    patched = jsonpatch.apply_patch(definition, patch.ops)

    assert bool(patch) is writes
    assert patched["spec"]["conversion"]["webhook"]["clientConfig"] == config | {"caBundle": RIGHT}
