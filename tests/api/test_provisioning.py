"""A pod's requirements as a PodTemplate, and the ProvisioningRequest of such templates."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import names
from api.constants import POD_GROUP
from api.provisioning import (
    CLASSES,
    Root,
    class_name,
    consumed,
    pod_sets,
    pod_template,
    request_object,
    shape_of,
    template_name,
    template_object,
)

Json = dict[str, Any]

ROOT = Root(POD_GROUP, "ns", "g", "u1", "g")
ZONE = "topology.kubernetes.io/zone"


def pod(index: int = 0, **spec: Any) -> Json:
    """Return a pod of an Indexed Job, as the API server stores it."""
    labels = {"job": "train", "batch.kubernetes.io/job-completion-index": str(index)}
    container = {
        "name": "main",
        "image": "trainer",
        "command": ["run"],
        "env": [{"name": "TOKEN", "value": "secret"}],
        "resources": {"requests": {"cpu": "2"}},
        "volumeMounts": [{"name": f"kube-api-access-{index}", "mountPath": "/t"}],
    }
    token = {"name": f"kube-api-access-{index}", "projected": {"sources": []}}
    own = {"hostname": f"train-{index}", "containers": [container], "volumes": [token]}
    metadata = {"name": f"train-{index}", "uid": f"uid-{index}", "labels": labels}
    return {"metadata": metadata, "spec": own | spec}


def affine(**term: Any) -> Json:
    """Return the affinity of a pod with one required term."""
    made = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"job": "train"}}} | term
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [made]}}


def test_a_template_has_what_decides_where_a_pod_fits_and_no_secrets() -> None:
    made = pod_template(pod(3, nodeSelector={"a": "b"}, priority=7, tolerations=[]))

    assert made == {
        "metadata": {"labels": {}},
        "spec": {
            "containers": [
                {"name": "main", "image": "trainer", "resources": {"requests": {"cpu": "2"}}}
            ],
            "nodeSelector": {"a": "b"},
            "priority": 7,
        },
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"a": "b"}},
        {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
        {"affinity": affine()},
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": ZONE}]},
        {"hostNetwork": True},
        {"overhead": {"cpu": "1"}},
        {"priority": 3},
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]},
        {"initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always"}]},
        {"containers": [{"name": "main", "image": "trainer", "ports": [{"hostPort": 80}]}]},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_pods_that_need_something_else_are_of_another_kind(spec: Json) -> None:
    assert shape_of(pod()) == shape_of(pod(1))
    assert shape_of(pod(**spec)) != shape_of(pod())


def test_ports_without_a_place_on_the_host_do_not_count() -> None:
    first, second = pod(), pod()
    second["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]

    assert shape_of(first) == shape_of(second)
    for each in (first, second):
        each["spec"]["hostNetwork"] = True
    assert shape_of(first) != shape_of(second)


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        pytest.param({}, {}, id="none without a term"),
        pytest.param({"affinity": affine()}, {"job": "train"}, id="what affinity selects"),
        pytest.param(
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "podAffinityTerm": {
                                    "labelSelector": {"matchExpressions": [{"key": "job"}]}
                                }
                            }
                        ]
                    }
                }
            },
            {"job": "train"},
            id="what a preferred term selects",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"matchLabelKeys": ["job"]}]},
            {"job": "train"},
            id="what a spread constraint groups by",
        ),
        pytest.param({"affinity": affine(labelSelector={})}, {}, id="what selects all"),
    ],
)
def test_a_template_keeps_the_labels_that_its_own_terms_speak_of(spec: Json, labels: Json) -> None:
    assert pod_template(pod(**spec))["metadata"]["labels"] == labels


def test_keys_that_the_api_server_merged_into_a_selector_are_not_said_twice() -> None:
    made = pod_template(pod(affinity=affine(matchLabelKeys=["job", "other"])))

    (term,) = made["spec"]["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["matchLabelKeys"] == ["other"]
    assert term["labelSelector"] == {"matchLabels": {"job": "train"}}


def test_claims_that_are_named_after_their_pod_are_left_out() -> None:
    volumes = [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
    ]

    assert pod_template(pod(volumes=volumes))["spec"]["volumes"] == volumes[1:]


def test_a_request_names_its_templates_and_belongs_to_its_root() -> None:
    sets = pod_sets(ROOT, {b"a": 3, b"b": 1, b"c": 0})

    made = request_object(ROOT, "check-capacity", sets, 2)

    assert made["spec"] == {
        "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
        "podSets": [
            {"podTemplateRef": {"name": name}, "count": count}
            for name, count in sorted(sets.items())
        ],
    }
    assert sorted(sets.values()) == [1, 3]
    template = template_object(ROOT, template_name(ROOT, b"a"), pod_template(pod()))
    for each in (made, template):
        (owner,) = each["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("PodGroup", "g", "u1")
        assert "blockOwnerDeletion" not in owner
    assert (made["metadata"]["name"], template["metadata"]["name"]) == ("g", next(iter(sets)))


def test_a_root_of_the_same_name_has_templates_of_its_own() -> None:
    later = Root(POD_GROUP, "ns", "g", "u2", "g")

    assert template_name(ROOT, b"a") != template_name(later, b"a")
    assert template_name(ROOT, b"a") != template_name(ROOT, b"b")


@given(st.text("abc-.", min_size=1, max_size=253).filter(names.is_dns_subdomain), st.binary())
def test_every_root_has_templates_with_a_possible_name(name: str, shape: bytes) -> None:
    assert names.is_dns_subdomain(template_name(Root(POD_GROUP, "ns", name, "u", name), shape))


def test_pods_say_which_request_stands_for_them() -> None:
    assert consumed("g", "check-capacity") == {
        "autoscaling.x-k8s.io/consume-provisioning-request": "g",
        "autoscaling.x-k8s.io/provisioning-class-name": "check-capacity.autoscaling.x-k8s.io",
    }
    assert [class_name(each) for each in ("", "queued", *CLASSES)][:2] == ["", ""]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "affinity",
        "containers",
        "initContainers",
        "podAffinity",
        "podAntiAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "topologySpreadConstraints",
        "labelSelector",
        "matchLabels",
        "matchExpressions",
        "matchLabelKeys",
        "volumes",
        "ports",
        "labels",
    ]
)
ODD = st.recursive(
    JSON,
    lambda inner: st.dictionaries(FIELDS, inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=12,
)


@given(st.fixed_dictionaries({"metadata": ODD, "spec": ODD}))
def test_a_pod_of_any_structure_has_a_shape(odd: Json) -> None:
    before = copy.deepcopy(odd)

    assert len(shape_of(odd)) == 16
    assert odd == before


@given(st.permutations(["a", "b", "c"]), st.integers(0, 5))
def test_the_order_of_labels_and_the_index_of_a_pod_do_not_matter(
    keys: list[str], index: int
) -> None:
    one = pod(index, nodeSelector=dict.fromkeys(keys, "x"))
    other = pod(nodeSelector=dict.fromkeys(sorted(keys), "x"))

    assert shape_of(one) == shape_of(other)
