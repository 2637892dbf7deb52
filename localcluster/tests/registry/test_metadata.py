from typing import Any

import pytest

from localcluster.base.meta import causes_of, name_problem
from localcluster.base.resources import CONFIG_MAPS, NAMESPACES, ROLES, SERVICES, ResourceInfo

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}


@pytest.mark.parametrize(
    ("info", "name", "good"),
    [
        pytest.param(CONFIG_MAPS, "a.b-c", True, id="a sub-domain"),
        pytest.param(CONFIG_MAPS, "a..b", False, id="an empty label"),
        pytest.param(CONFIG_MAPS, "a" * 254, False, id="a sub-domain that is too long"),
        pytest.param(NAMESPACES, "a.b", False, id="a dot in a namespace"),
        pytest.param(NAMESPACES, "a" * 64, False, id="a namespace that is too long"),
        pytest.param(NAMESPACES, "9a", True, id="a namespace that begins with a digit"),
        pytest.param(SERVICES, "9a", False, id="a service that begins with a digit"),
        pytest.param(SERVICES, "a" * 64, False, id="a service that is too long"),
        pytest.param(ROLES, "system:a", True, id="a role with a colon"),
        pytest.param(ROLES, "a/b", False, id="a role with a slash"),
        pytest.param(ROLES, "..", False, id="a role that is a path"),
        pytest.param(CONFIG_MAPS, "a\n", False, id="a line break at the end"),
    ],
)
def test_names(info: ResourceInfo, name: str, good: bool) -> None:
    assert (name_problem(info.collection, name) is None) is good


@pytest.mark.parametrize(
    ("meta", "field"),
    [
        pytest.param({"labels": {"a/b/c": "d"}}, "metadata.labels", id="two slashes"),
        pytest.param({"labels": {"/b": "d"}}, "metadata.labels", id="an empty prefix"),
        pytest.param({"labels": {"a/": "d"}}, "metadata.labels", id="an empty name"),
        pytest.param({"labels": {"a" * 64: "d"}}, "metadata.labels", id="a long key"),
        pytest.param({"labels": {"a": "d" * 64}}, "metadata.labels", id="a long value"),
        pytest.param({"labels": {"a": "-"}}, "metadata.labels", id="a bad value"),
        pytest.param(
            {"annotations": {"a b": ""}}, "metadata.annotations", id="an annotation's key"
        ),
        pytest.param(
            {"annotations": {"a": "x" * (256 << 10)}}, "metadata.annotations", id="huge annotations"
        ),
        pytest.param({"finalizers": ["a b"]}, "metadata.finalizers", id="a bad finalizer"),
        pytest.param({"finalizers": ["plain"]}, "metadata.finalizers", id="no domain"),
        pytest.param({"generateName": "A-"}, "metadata.generateName", id="a bad base"),
        pytest.param(
            {"ownerReferences": [{**OWNER, "uid": ""}]},
            "metadata.ownerReferences[0].uid",
            id="an owner without uid",
        ),
        pytest.param(
            {"ownerReferences": [{**OWNER, "controller": True}] * 2},
            "metadata.ownerReferences",
            id="two controllers",
        ),
    ],
)
def test_bad_metadata_is_named(meta: dict[str, Any], field: str) -> None:
    causes = causes_of({"name": "a", **meta}, CONFIG_MAPS.collection)

    assert [cause.field for cause in causes] == [field]


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param({"finalizers": ["orphan", "x.io/a"]}, id="finalizers"),
        pytest.param({"labels": {"x.io/a_b.C": ""}}, id="an empty label"),
        pytest.param({"annotations": {"X.io/a": "any\ntext"}}, id="a capital in a prefix"),
        pytest.param({"ownerReferences": [OWNER]}, id="an owner"),
    ],
)
def test_good_metadata_passes(meta: dict[str, Any]) -> None:
    assert causes_of({"name": "a", **meta}, CONFIG_MAPS.collection) == []


def test_custom_kinds_may_have_finalizers_without_domain() -> None:
    meta = {"name": "a", "finalizers": ["plain"]}

    assert causes_of(meta, ("x.io", "things"), custom=True) == []
