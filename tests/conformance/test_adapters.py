"""How each adapter states the same gang."""

from typing import Any

import pytest

from conformance import objects
from conformance.adapters import ADAPTERS
from conformance.values.history import RACK_LABEL
from conformance.values.scenario import Gang

GANG = Gang(name="train", members=6, minimum=4, priority=10, one_rack=True)
KUBERNETES = {
    "schedulingPolicy": {"gang": {"minCount": 4}},
    "disruptionMode": {"all": {}},
    "priorityClassName": "gang-conformance-10",
    "schedulingConstraints": {"topology": [{"key": RACK_LABEL}]},
}

# Adapter -> path of the group, its spec, and what a member has that another pod has not.
STATED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "muster": (
        "/apis/scheduling.muster.dev/v1alpha3/namespaces/ns/podgroups",
        KUBERNETES,
        {"labels": {"scheduling.muster.dev/pod-group": "train"}},
    ),
    "native": (
        "/apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups",
        KUBERNETES,
        {"schedulingGroup": {"podGroupName": "train"}},
    ),
    "coscheduling": (
        "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ns/podgroups",
        {"minMember": 4},
        {"labels": {"scheduling.x-k8s.io/pod-group": "train"}},
    ),
    "volcano": (
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups",
        {
            "minMember": 4,
            "queue": "default",
            "minResources": {"cpu": "4"},
            "priorityClassName": "gang-conformance-10",
        },
        {"annotations": {"scheduling.k8s.io/group-name": "train"}},
    ),
    "kai": (
        "/apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups",
        {
            "minMember": 4,
            "queue": "gang-conformance",
            "priorityClassName": "gang-conformance-10",
            "topologyConstraint": {
                "topology": "gang-conformance",
                "requiredTopologyLevel": RACK_LABEL,
            },
        },
        {"annotations": {"pod-group-name": "train"}},
    ),
}


@pytest.mark.parametrize("name", STATED)
def test_a_gang_is_stated_in_the_words_of_the_api(name: str) -> None:
    path, spec, member = STATED[name]
    adapter = ADAPTERS[name]
    (group,) = adapter.group(GANG)
    assert group.path("ns") == path
    assert group.body["spec"] == spec
    assert group.body["metadata"] == {"name": "train"}
    assert group.body["apiVersion"] == group.api
    pod = objects.pod("train-1", "ns", "train", adapter.scheduler, 10)
    before = {**pod["spec"], **pod["metadata"], "labels": {}, "annotations": {}}
    adapter.join(pod, GANG)
    own = {**pod["spec"], **pod["metadata"]}
    own["labels"] = {k: v for k, v in own["labels"].items() if not k.startswith("gang-conf")}
    assert {key: value for key, value in own.items() if before.get(key) != value} == member
    assert pod["spec"]["priorityClassName"] == "gang-conformance-10"


def test_kueue_states_a_group_of_plain_pods() -> None:
    kueue = ADAPTERS["kueue"]
    pod = objects.pod("train-1", "ns", "train", kueue.scheduler, 0)
    kueue.adjust(pod)
    kueue.join(pod, GANG)
    assert kueue.group(GANG) == []
    assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gang-conformance"
    assert pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] == "train"
    assert pod["metadata"]["annotations"] == {
        "kueue.x-k8s.io/pod-group-total-count": "6",
        "kueue.x-k8s.io/podset-required-topology": RACK_LABEL,
    }
    paths = [each.path("ns") for each in kueue.setup()]
    assert paths[-1] == "/apis/kueue.x-k8s.io/v1beta1/namespaces/ns/localqueues"
    assert paths[0] == "/apis/kueue.x-k8s.io/v1beta1/topologies"


@pytest.mark.parametrize(
    ("name", "status", "reports"),
    [
        ("muster", {}, False),
        ("native", {"conditions": [{"type": "Other", "status": "True"}]}, False),
        ("native", {"conditions": [
            {"type": "PodGroupInitiallyScheduled", "status": "True"}]}, True),
        ("muster", {"conditions": [
            {"type": "PodGroupInitiallyScheduled", "status": "False"}]}, False),
        ("volcano", {"phase": "Inqueue"}, False),
        ("volcano", {"phase": "Running"}, True),
        ("coscheduling", {"phase": "Scheduling"}, False),
        ("coscheduling", {"phase": "Running"}, True),
        ("kai", {"phase": "Running"}, None),
        ("kueue", {}, None),
    ],
)  # fmt: skip
def test_what_a_status_reports(name: str, status: dict[str, Any], reports: bool | None) -> None:
    assert ADAPTERS[name].is_scheduled({"status": status}) is reports
