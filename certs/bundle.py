"""Patches of caBundle, by which the API server knows which CA to trust.

Only the patch is computed here, from the object as it is; the caller sends it. A patch tests the
name of each entry that it changes, so that it fails on a list that was edited in between, instead
of damaging it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from kube.client.patch import PatchBuilder


def encoded(ca_bundle: bytes) -> str:
    """Return the bundle (PEM) as the API has it: base64."""
    return base64.b64encode(ca_bundle).decode()


def webhook_bundle_patch(configuration: Mapping[str, Any], ca_bundle: bytes) -> PatchBuilder:
    """Return a patch of a Mutating- or ValidatingWebhookConfiguration; empty if it is correct."""
    patch = PatchBuilder()
    wanted = encoded(ca_bundle)
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        if webhook["clientConfig"].get("caBundle") != wanted:
            patch.test(f"/webhooks/{index}/name", webhook["name"])
            patch.add(f"/webhooks/{index}/clientConfig/caBundle", wanted)
    return patch


def conversion_bundle_patch(definition: Mapping[str, Any], ca_bundle: bytes) -> PatchBuilder:
    """Return a patch of a CustomResourceDefinition with a conversion webhook; empty if correct."""
    patch = PatchBuilder()
    wanted = encoded(ca_bundle)
    if definition["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle") != wanted:
        patch.test("/spec/conversion/strategy", "Webhook")
        patch.add("/spec/conversion/webhook/clientConfig/caBundle", wanted)
    return patch
