"""Patches, checked by an independent implementation of RFC 6902."""

import json

import jsonpatch
import pytest

from kube.client.patch import PatchBuilder, escape, pointer


def test_the_patch_does_what_its_calls_say() -> None:
    document = {"metadata": {"labels": {"old": "1"}, "finalizers": ["a", "b"]}}
    ops = (
        PatchBuilder()
        .test("/metadata/finalizers/1", "b")
        .remove("/metadata/finalizers/1")
        .replace("/metadata/labels/old", "2")
        .add(pointer("metadata", "labels", "example.com/new~"), "x")
    )

    patched = jsonpatch.apply_patch(document, json.loads(ops.encode()))

    assert patched == {
        "metadata": {"labels": {"old": "2", "example.com/new~": "x"}, "finalizers": ["a"]}
    }


def test_a_test_that_fails_fails_the_patch() -> None:
    ops = PatchBuilder().of_uid("u-1").remove("/spec")

    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch({"metadata": {"uid": "u-2"}, "spec": {}}, ops.ops)


def test_slashes_and_tildes_are_escaped_in_this_order() -> None:
    assert escape("a/b~1") == "a~1b~01"


def test_an_empty_patch_is_nothing_to_send() -> None:
    assert not PatchBuilder()
    assert PatchBuilder().remove("/a")
    assert list(PatchBuilder().remove("/a")) == [{"op": "remove", "path": "/a"}]
