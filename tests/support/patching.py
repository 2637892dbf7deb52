"""JSON patches as an API server applies them to a stored object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonpatch

from kube.errors import Conflict, Invalid
from kube.patch import PatchBuilder

PATCH_FAILED = "the server rejected our request due to an error in our request"
"""The whole message of an API server about a patch that does not apply."""


def patched(obj: Mapping[str, Any], ops: PatchBuilder) -> dict[str, Any]:
    """The object with the patch applied; `obj` stays as it was. Raises Invalid, Conflict."""
    try:
        result: dict[str, Any] = jsonpatch.apply_patch(obj, list(ops))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise Invalid(422, "Invalid", PATCH_FAILED) from error
    # A patch that replaces the version asks for exactly that version.
    if result["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
        raise Conflict(409, "Conflict", obj["metadata"]["name"])
    return result
