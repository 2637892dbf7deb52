"""Claims, volumes and StorageClasses of the files in a simulation."""

from typing import Any

import pytest

from analysis.simulate.simulate import simulate
from analysis.simulate.stored_pods import PodAdmission
from analysis.simulate.volumes import default_class
from kube.base.errors import ConfigError
from scheduler.core.search.place import SearchBudget
from tests.scheduler.state_builder import StateBuilder

Json = dict[str, Any]

DEFAULT = "storageclass.kubernetes.io/is-default-class"
CONTAINERS = [{"name": "c"}]


def storage_class(name: str, mode: str = "WaitForFirstConsumer", **notes: str) -> Json:
    made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "x.example"}
    return made | {"metadata": {"name": name, "annotations": notes}, "volumeBindingMode": mode}


def claim(name: str = "data", **spec: Any) -> Json:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
    return made | {"spec": asked | spec}


def pod(named: str = "data") -> Json:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": named}}]
    return {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": CONTAINERS, "volumes": volumes},
    }


def simulated(*documents: Json, pods: PodAdmission | None = None) -> list[str]:
    builder = StateBuilder()
    builder.nodes(2, cpu=8, rack_of=1)
    return simulate(builder.state, documents, "ns", SearchBudget(), pods or PodAdmission()).lines


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([claim(storageClassName="s"), storage_class("s")], id="by its class"),
        pytest.param([claim(), storage_class("s", **{DEFAULT: "true"})], id="by the default"),
    ],
)
def test_a_claim_is_made_a_volume_for_where_its_pod_goes(documents: list[Json]) -> None:
    assert simulated(pod(), *documents) == ["Pod p", "  fits: n0 x1"]


def test_the_default_of_the_cluster_counts_where_the_files_have_none() -> None:
    pods = PodAdmission(default_storage_class="s")

    assert simulated(pod(), claim(), storage_class("s"), pods=pods)[1] == "  fits: n0 x1"
    assert simulated(pod(), claim(storageClassName=""), storage_class("s"), pods=pods)[
        1
    ].startswith("  Unschedulable")


def test_a_claim_that_is_bound_at_once_says_what_is_not_known() -> None:
    lines = simulated(pod(), claim(storageClassName="s"), storage_class("s", "Immediate"))

    assert lines[:2] == ["Pod p", "  fits: n0 x1"]
    assert lines[2].startswith(
        "PersistentVolumeClaim data: StorageClass s provisions its volume immediately"
    )


def test_a_volume_of_the_files_says_where_the_pod_may_go() -> None:
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r001"]}]}]
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}}
    volume["spec"] = {
        "storageClassName": "s",
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    none = storage_class("s") | {"provisioner": "kubernetes.io/no-provisioner"}

    lines = simulated(pod(), claim(storageClassName="s"), volume, none)

    assert lines == ["Pod p", "  fits: n1 x1"]


def test_a_claim_that_is_in_neither_waits() -> None:
    assert simulated(pod("none"))[1].startswith("  Unschedulable")


def test_an_amount_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="PersistentVolumeClaim data: not a quantity"):
        simulated(pod(), claim(resources={"requests": {"storage": "much"}}))


def test_each_pod_of_a_stateful_set_has_claims_of_its_own() -> None:
    template = claim("data", storageClassName="s")
    spec = {
        "replicas": 2,
        "template": {"spec": {"containers": CONTAINERS}},
        "volumeClaimTemplates": [{"metadata": template["metadata"], "spec": template["spec"]}],
    }
    made = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": spec,
    }

    assert simulated(made, storage_class("s"))[1::2] == ["  fits: n0 x1"] * 2
    assert simulated(made)[1].startswith("  Unschedulable")


def test_the_newest_default_counts() -> None:
    old, new = (storage_class(name, **{DEFAULT: "true"}) for name in ("old", "new"))
    old["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"
    new["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"

    assert default_class([new, old, storage_class("usual")]) == "new"
    assert default_class([storage_class("usual")]) == ""
