"""Conversion loses no field, prefers visible fields to the annotation, and never fails."""

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel

from api.constants import ANNOTATION_CONVERSION_DATA, GROUP
from api.conversion import ConversionError, convert, with_hidden_fields
from api.models import v1alpha1, v1alpha2, v1alpha3
from tests.api.strategies import Json, objects
from tools.testing.effort import examples

HUB = f"{GROUP}/v1alpha3"
# Three pairs, both ways: with `--long` 10,000 objects make the round trip.
EXAMPLES = examples(12, 400)


class Pair(NamedTuple):
    """An older version of a kind, with the hub's model."""

    kind: str
    version: str
    old: type[BaseModel]
    hub: type[BaseModel]

    @property
    def api_version(self) -> str:
        return f"{GROUP}/{self.version}"

    def strategy_of_hub(self) -> st.SearchStrategy[Json]:
        return objects(self.kind, "v1alpha3", self.hub, own_data=True)

    def strategy_of_old(self) -> st.SearchStrategy[Json]:
        return objects(self.kind, self.version, self.old)


PAIRS = [
    Pair("Workload", "v1alpha1", v1alpha1.Workload, v1alpha3.Workload),
    Pair("Workload", "v1alpha2", v1alpha2.Workload, v1alpha3.Workload),
    Pair("PodGroup", "v1alpha2", v1alpha2.PodGroup, v1alpha3.PodGroup),
]
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.kind} {pair.version}")


def data_of(obj: Json) -> str:
    return str(obj["metadata"].get("annotations", {}).get(ANNOTATION_CONVERSION_DATA, ""))


def with_data(obj: Json, data: str) -> Json:
    """Return the object with that annotation, or without it for empty data."""
    annotations = obj["metadata"].get("annotations", {}) | {ANNOTATION_CONVERSION_DATA: data}
    if not data:
        del annotations[ANNOTATION_CONVERSION_DATA]
    metadata = {key: value for key, value in obj["metadata"].items() if key != "annotations"}
    return {**obj, "metadata": metadata | ({"annotations": annotations} if annotations else {})}


@each_pair
@EXAMPLES
@given(data=st.data())
def test_what_is_stored_comes_back_from_every_older_version(
    pair: Pair, data: st.DataObject
) -> None:
    stored = data.draw(pair.strategy_of_hub())

    assert convert(convert(stored, pair.api_version), HUB) == stored


@each_pair
@EXAMPLES
@given(data=st.data())
def test_what_an_older_client_writes_comes_back_to_it(pair: Pair, data: st.DataObject) -> None:
    written = data.draw(pair.strategy_of_old())

    assert convert(convert(written, HUB), pair.api_version) == written


@each_pair
@EXAMPLES
@given(data=st.data())
def test_what_an_older_client_sees_wins_over_what_is_carried(
    pair: Pair, data: st.DataObject
) -> None:
    """One object's annotation on another one's fields: the fields determine the result."""
    carried = data_of(convert(data.draw(pair.strategy_of_hub()), pair.api_version))
    written = with_data(data.draw(pair.strategy_of_old()), carried)

    back = convert(convert(written, HUB), pair.api_version)

    assert {**back, "metadata": 0} == {**written, "metadata": 0}


def test_a_name_of_the_template_wins_over_a_carried_way_to_say_it() -> None:
    """The data that the stored object carried is of another spec, though it means the same."""
    way = {"v1alpha2": {"spec": {"podGroupTemplateRef": {"name": "a"}}}}
    stored = {"apiVersion": HUB, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}}
    old = f"{GROUP}/v1alpha2"
    carried = data_of(convert(with_data(stored, json.dumps(way, separators=(",", ":"))), old))
    written = {**stored, "apiVersion": old, "spec": {"podGroupTemplateName": "a"}}

    back = convert(convert(with_data(written, carried), HUB), old)

    assert back["spec"] == {"podGroupTemplateName": "a"}


def replaced(pair: Pair, written: Json, stored: Json) -> Json:
    """Return the result of replacing `stored` by a manifest of the older version.

    The manifest lacks the annotation.
    """
    new = convert(with_data(written, ""), HUB)
    return dict(with_hidden_fields(pair.kind, pair.version, new, stored))


@each_pair
@given(data=st.data())
def test_a_manifest_without_the_annotation_changes_nothing_that_it_cannot_say(
    pair: Pair, data: st.DataObject
) -> None:
    stored = data.draw(pair.strategy_of_hub())

    assert replaced(pair, convert(stored, pair.api_version), stored) == stored


@each_pair
@given(data=st.data())
def test_a_manifest_without_the_annotation_still_says_what_it_can(
    pair: Pair, data: st.DataObject
) -> None:
    stored = data.draw(pair.strategy_of_hub())
    written = data.draw(pair.strategy_of_old())

    after = convert(replaced(pair, written, stored), pair.api_version)

    assert after.get("spec") == written.get("spec")
    assert after.get("status") == convert(stored, pair.api_version).get("status")


@each_pair
@given(data=st.data())
def test_the_annotation_speaks_where_there_is_one(pair: Pair, data: st.DataObject) -> None:
    stored, other = (data.draw(pair.strategy_of_hub()) for _ in range(2))
    without = {key: value for key, value in other.items() if key != "status"}
    assume(data_of(convert(without, pair.api_version)))

    assert with_hidden_fields(pair.kind, pair.version, other, stored).get("spec") == other.get(
        "spec"
    )


def test_the_newest_version_says_all_it_means() -> None:
    new, old = workload(), workload(podGroupTemplates=[LEAF])

    assert with_hidden_fields("Workload", "v1alpha3", new, old) == new
    assert with_hidden_fields("CompositePodGroup", "v1alpha2", new, old) == new


@each_pair
@given(data=st.data())
def test_converting_leaves_the_given_object_as_it_was(pair: Pair, data: st.DataObject) -> None:
    stored = data.draw(pair.strategy_of_hub())
    before = json.dumps(stored)

    convert(stored, pair.api_version)

    assert json.dumps(stored) == before


KEYS = [
    "name",
    "podGroups",
    "policy",
    "podGroupTemplates",
    "compositePodGroupTemplates",
    "workloadRef",
    "workloadName",
    "templateName",
    "podGroupTemplateName",
    "podGroupTemplateRef",
    "conditions",
    "type",
]
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)


@each_pair
@given(spec=JSON, status=JSON, metadata=JSON, carried=JSON | st.text(max_size=5))
def test_no_structure_makes_a_conversion_fail(
    pair: Pair, spec: Any, status: Any, metadata: Any, carried: Any
) -> None:
    odd = {"kind": pair.kind, "spec": spec, "status": status, "metadata": metadata}
    data = json.dumps({"v1alpha3": {"spec": carried, "status": carried, "annotation": carried}})
    sound = with_data({**odd, "metadata": {"name": "x"}}, data)
    for obj in (odd, sound):
        for source, target in ((pair.api_version, HUB), (HUB, pair.api_version)):
            convert({**obj, "apiVersion": source}, target)
    for new, old in ((odd, sound), (sound, odd)):
        with_hidden_fields(pair.kind, pair.version, new, old)


WORKLOAD_METADATA = {"name": "w", "namespace": "n", "labels": {"a": "b"}}
LEAF = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 3}}}


def workload(**spec: Any) -> Json:
    return {
        "apiVersion": HUB,
        "kind": "Workload",
        "metadata": dict(WORKLOAD_METADATA),
        "spec": spec,
    }


def test_v1alpha1_calls_templates_pod_groups_and_has_their_policy() -> None:
    stored = workload(controllerRef={"kind": "Job", "name": "j"}, podGroupTemplates=[LEAF])

    assert convert(stored, f"{GROUP}/v1alpha1") == {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "Workload",
        "metadata": WORKLOAD_METADATA,
        "spec": {
            "controllerRef": {"kind": "Job", "name": "j"},
            "podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 3}}}],
        },
    }


def test_what_v1alpha1_cannot_say_stays_with_the_template_of_that_name() -> None:
    rack = {"topology": [{"key": "rack"}]}
    stored = workload(
        podGroupTemplates=[
            LEAF | {"schedulingConstraints": rack},
            LEAF | {"name": "driver", "disruptionMode": {"all": {}}},
        ]
    )
    seen = convert(stored, f"{GROUP}/v1alpha1")
    more = {"name": "more", "policy": {"basic": {}}}
    changed = {"name": "workers", "policy": {"gang": {"minCount": 2}}}

    after = convert({**seen, "spec": {"podGroups": [more, changed]}}, HUB)

    assert after["spec"]["podGroupTemplates"] == [
        {"name": "more", "schedulingPolicy": {"basic": {}}},
        {
            "name": "workers",
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": rack,
        },
    ]
    assert data_of(after) == ""


def test_from_v1alpha1_to_v1alpha2_goes_through_v1alpha3() -> None:
    stored = workload(podGroupTemplates=[LEAF | {"priority": 7}])

    by_way = convert(convert(stored, f"{GROUP}/v1alpha1"), f"{GROUP}/v1alpha2")

    assert by_way == convert(stored, f"{GROUP}/v1alpha2")


def test_a_tree_larger_than_all_annotations_may_be_is_packed() -> None:
    leaf = LEAF | {"schedulingConstraints": {"topology": [{"key": "topology.example.com/rack"}]}}
    tree = [leaf | {"name": f"leaf-{number}"} for number in range(5_000)]
    stored = workload(compositePodGroupTemplates=[{"name": "root", "podGroupTemplates": tree}])

    seen = convert(stored, f"{GROUP}/v1alpha1")

    assert len(json.dumps(stored)) > 600 * 1024
    assert len(data_of(seen)) < 128 * 1024
    assert convert(seen, HUB) == stored


def pod_group(version: str = "v1alpha3", **parts: Any) -> Json:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "n"},
        **parts,
    }


def test_a_pod_group_of_v1alpha2_has_its_template_and_its_count() -> None:
    reference = {"workloadName": "w", "templateName": "t"}
    stored = pod_group(
        spec={"workloadRef": reference, "schedulingPolicy": {"basic": {}}},
        status={
            "conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}],
            "scheduledPods": 2,
            "members": 3,
        },
    )

    seen = convert(stored, f"{GROUP}/v1alpha2")

    assert seen["spec"] == {"workloadRef": {"name": "w"}, "podGroupTemplateName": "t"}
    assert seen["status"] == {
        "conditions": [{"type": "PodGroupScheduled", "status": "True"}],
        "scheduledPods": 2,
    }
    assert json.loads(data_of(seen)) == {
        "v1alpha3": {"spec": {"schedulingPolicy": {"basic": {}}}, "status": {"members": 3}}
    }


NAMED = {"workloadRef": {"name": "w"}, "podGroupTemplateName": "t"}
REFERRED = {"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}}


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        pytest.param(NAMED, "", id="by name, the plain way, of which nothing is kept"),
        pytest.param(
            REFERRED,
            '{"v1alpha2":{"spec":{"podGroupTemplateRef":{"name":"t"},"workloadRef":{"name":"w"}}}}',
            id="by reference, which is remembered",
        ),
    ],
)
def test_both_ways_to_name_a_template_are_understood(spec: Json, data: str) -> None:
    stored = convert(pod_group("v1alpha2", spec=spec), HUB)

    assert stored["spec"] == {"workloadRef": {"workloadName": "w", "templateName": "t"}}
    assert data_of(stored) == data
    assert convert(stored, f"{GROUP}/v1alpha2")["spec"] == spec


def test_words_that_no_longer_mean_what_v1alpha3_says_are_not_used() -> None:
    stored = convert(pod_group("v1alpha2", spec=REFERRED), HUB)
    moved = {"workloadRef": {"workloadName": "w", "templateName": "other"}}

    seen = convert({**stored, "spec": moved}, f"{GROUP}/v1alpha2")

    assert seen["spec"] == NAMED | {"podGroupTemplateName": "other"}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("no JSON", id="no JSON"),
        pytest.param("zlib:no base64!", id="not packed as we pack"),
        pytest.param("zlib:bm90IHppcHBlZA==", id="packed, but not by us"),
        pytest.param('{"v1alpha3":{"spec":[]}}', id="a list for a spec"),
        pytest.param('{"v1alpha3":{"spec":{"priority":"7"}}}', id="a text for a number"),
        pytest.param('{"v1alpha3":{"spec":{"priority":2147483648}}}', id="33 bits"),
        pytest.param('{"v1alpha3":{"spec":{"priority":' + "9" * 5000 + "}}}", id="5000 digits"),
        pytest.param('{"v1alpha3":{"spec":{"priority":NaN}}}', id="no number"),
        pytest.param('{"v1alpha3":{"spec":{"unheardOf":7}}}', id="an unknown field"),
        pytest.param('{"v1alpha3":{"spec":{"workloadRef":{"workloadName":"x"}}}}', id="visible"),
        pytest.param('{"v1alpha2":{"spec":{"priority":7}}}', id="for another version"),
        pytest.param("[" * 100_000, id="deeper than can be read"),
    ],
)
def test_data_that_no_conversion_wrote_counts_as_none(data: str) -> None:
    written = pod_group("v1alpha2", spec=dict(NAMED))

    assert convert(with_data(written, data), HUB) == convert(written, HUB)


def test_packed_data_is_not_unpacked_without_bound() -> None:
    bomb = workload(compositePodGroupTemplates=[{"name": "x" * 9_000_000}])

    seen = convert(bomb, f"{GROUP}/v1alpha1")

    assert len(data_of(seen)) < 20_000
    assert convert(seen, HUB)["spec"] == {}


@pytest.mark.parametrize(
    ("kind", "source", "target"),
    [
        pytest.param("CompositePodGroup", "v1alpha3", f"{GROUP}/v1alpha2", id="one version only"),
        pytest.param("PodGroup", "v1alpha3", f"{GROUP}/v1alpha1", id="a version before its time"),
        pytest.param("Workload", "v1alpha3", f"{GROUP}/v1", id="a version to come"),
        pytest.param("Workload", "v1", f"{GROUP}/v1alpha3", id="from a version to come"),
        pytest.param("Workload", "v1alpha3", "batch/v1alpha1", id="another group"),
        pytest.param("", "v1alpha3", f"{GROUP}/v1alpha1", id="no kind"),
    ],
)
def test_an_unknown_version_is_refused_with_those_there_are(
    kind: str, source: str, target: str
) -> None:
    with pytest.raises(ConversionError, match=r"Workload scheduling\.muster\.dev/v1alpha1"):
        convert({"apiVersion": f"{GROUP}/{source}", "kind": kind}, target)
