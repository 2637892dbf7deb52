"""Simulation of manifests with device claims; explain names the users of devices."""

import copy
from typing import Any

import pytest

from analysis.explain.explain import explain_lines
from analysis.simulate.simulate import simulate
from api.constants import ANNOTATION_SHARED_CLAIMS, ANNOTATION_TOPOLOGY, LABEL_POD_GROUP
from kube.base.errors import ConfigError
from scheduler.cel.selectors import Selectors
from scheduler.core.search.place import SearchBudget
from scheduler.snapshot.snapshot import Limits, decode, encode, queue_of, restore, take
from tests.cli.commands.test_solver_commands import group, job, pod_spec
from tests.scheduler.devices.builders import device
from tests.scheduler.devices.cluster import DeviceCluster
from tests.scheduler.devices.preemption import DevicePreemption

Json = dict[str, Any]


def spec(count: int = 1, *selectors: str, name: str = "gpu", device_class: str = "gpu") -> Json:
    exactly: Json = {"deviceClassName": device_class, "count": count}
    exactly["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return {"devices": {"requests": [{"name": name, "exactly": exactly}]}}


def template(name: str = "t", **wanted: Any) -> Json:
    return {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": spec(**wanted)},
    }


def claim(name: str, **wanted: Any) -> Json:
    return {"kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec(**wanted)}


def with_claims(document: Json, **entries: Json) -> Json:
    pod = document["spec"]["template"]["spec"] if document["kind"] == "Job" else document["spec"]
    pod["resourceClaims"] = [{"name": name} | entry for name, entry in entries.items()]
    return document


OWN = {"resourceClaimTemplateName": "t"}


def cluster(nodes: int = 2, count: int = 2) -> DeviceCluster:
    made = DeviceCluster(Selectors().evaluate)
    for at in range(nodes):
        made.gpu_node(f"n{at}", *(device(f"gpu-{i}", {"size": "small"}) for i in range(count)))
    return made


def simulated(made: DeviceCluster, *documents: Json) -> list[str]:
    return simulate(made.state, documents, "ns", SearchBudget()).lines


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(4, "  fits: n0 x2, n1 x2", id="as many as there are devices"),
        pytest.param(
            5,
            "  Unschedulable (capacity): 0/2 nodes are available: 2 cannot allocate all claims.",
            id="one more",
        ),
    ],
)
def test_claims_are_made_from_templates(pods: int, want: str) -> None:
    lines = simulated(cluster(), template(), with_claims(job("a", pods), gpu=OWN))

    assert lines[1].startswith(want)


def test_one_after_the_other_takes_its_devices() -> None:
    made = cluster(1, 3)
    jobs = [with_claims(job(name, 2), gpu=OWN) for name in "ab"]

    lines = simulated(made, *jobs, template())

    assert lines[1] == "  fits: n0 x2"
    assert "; 1 fits" in lines[3]


def test_a_claim_in_the_files_is_shared_by_the_pods_that_name_it() -> None:
    lines = simulated(
        cluster(), claim("c"), with_claims(job("a", 3), common={"resourceClaimName": "c"})
    )

    assert lines[1] == "  fits: n0 x3"


def test_classes_and_slices_of_the_files_count() -> None:
    made = cluster()
    nic: Json = {"kind": "DeviceClass", "metadata": {"name": "nic"}, "spec": {
        "selectors": [{"cel": {"expression": 'device.driver == "nic.example.com"'}}]}}  # fmt: skip
    cards: Json = {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {
        "driver": "nic.example.com", "nodeName": "n1", "devices": [{"name": "a"}],
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}}}  # fmt: skip
    wanted = with_claims(job("a", 1), nic=OWN)

    lines = simulated(made, wanted, template(device_class="nic"), nic, cards)

    assert lines[1] == "  fits: n1 x1"


@pytest.mark.parametrize(
    ("documents", "want"),
    [
        pytest.param(
            [{"kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec()}],
            r'Pod p: resourceClaims\[0\]: ResourceClaimTemplate "t" not found in the files',
            id="a template that is not there",
        ),
        pytest.param(
            [template() | {"spec": {"spec": {"devices": {"requests": [{"name": "x", "new": 1}]}}}}],
            "ResourceClaimTemplate t: uses spec.devices.requests",
            id="an unknown field",
        ),
        pytest.param(
            [{"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {"future": 1}}],
            "ResourceSlice s: uses spec.future, which Muster does not know",
            id="an unknown field of a slice",
        ),
    ],
)
def test_what_cannot_be_simulated_is_refused_by_name(documents: list[Json], want: str) -> None:
    for document in documents:
        if document["kind"] == "Pod":
            with_claims(document, gpu=OWN)

    with pytest.raises(ConfigError, match=want):
        simulated(cluster(), *documents)


def test_a_named_claim_that_is_nowhere_is_refused() -> None:
    with pytest.raises(ConfigError, match='ResourceClaim "c" not found'):
        simulated(cluster(), with_claims(job("a", 1), common={"resourceClaimName": "c"}))


def test_the_simulation_of_a_snapshot_judges_selectors() -> None:
    made = cluster()
    data = encode(take(made.state, queue_of(made.state), Limits.of(SearchBudget())))
    state, _ = restore(decode(data, "a test"))
    small = 'device.attributes["gpu.example.com"].size == "small"'
    documents = [
        {**template(), "spec": {"spec": spec(1, small)}},
        with_claims(job("a", 4), gpu=OWN),
    ]

    lines = simulate(state, documents, "ns", SearchBudget()).lines

    assert lines[1] == "  fits: n0 x2, n1 x2"


def test_explain_says_how_many_devices_of_which_class_a_group_uses() -> None:
    made = DevicePreemption()
    made.gpu_node("n0", count=4)
    made.gang("g", 2)
    shared = made.allocated("shared", "n0", "gpu-3")
    pods = [made.holds("n0", f"gpu-{at}", group="g", claims=(shared,)) for at in range(2)]

    group = made.state.forest.groups["PodGroup", "ns", "g"]
    lines = list(explain_lines(made.state, group, SearchBudget()))
    of_pod = list(explain_lines(made.state, made.single(pods[0]), SearchBudget()))

    assert lines[1] == "  uses 3 devices of class gpu"
    assert of_pod[1] == "  uses 2 devices of class gpu"


def test_a_topology_by_an_attribute_is_simulated_and_explained() -> None:
    made = DevicePreemption()
    for at, clique in enumerate("abb"):
        made.gpu_node(f"n{at}", device("d", {"clique": clique}), cpu=2)
    key = "gpu.example.com/clique"
    document = job("a", 4)
    document["metadata"]["annotations"][ANNOTATION_TOPOLOGY] = key
    assert simulate(made.state, [document], "ns", SearchBudget()).lines[1] == "  fits: n1 x2, n2 x2"

    made.gang("g", 1, rack=True, key=key)
    made.pod("g", node="n1")
    group = made.state.forest.groups["PodGroup", "ns", "g"]
    assert list(explain_lines(made.state, group, SearchBudget()))[1] == f"  runs in {key}: b"
    made.table.slices.remove("gpu.example.com-n1")
    assert list(explain_lines(made.state, group, SearchBudget()))[1] == f"  runs in {key}: none"


def test_device_taint_rules_of_the_files_count() -> None:
    taint = {"key": "broken", "effect": "NoSchedule"}
    selector = {"driver": "gpu.example.com", "pool": "n0"}
    rule = {"kind": "DeviceTaintRule", "metadata": {"name": "r"}}
    rule["spec"] = {"deviceSelector": selector, "taint": taint}

    lines = simulated(cluster(), rule, template(), with_claims(job("a", 2), gpu=OWN))

    assert lines[1] == "  fits: n1 x2"


def test_a_claim_of_a_whole_group_is_made_and_shared() -> None:
    document = with_claims(job("a", 2), gpu=OWN)
    document["metadata"]["annotations"][ANNOTATION_SHARED_CLAIMS] = "gpu"
    made = cluster()

    assert simulated(made, template(), document)[1] == "  fits: n0 x2"
    assert [key for key in made.table.claims if key[1] == "pg-job-a.gpu"]
    assert len(made.table.assumed) == 1


def pods_of_a_group(entry: Json) -> list[Json]:
    members = group("g", 2)
    members["spec"]["resourceClaims"] = [{"name": "gpu", **OWN}]
    pods = []
    for at in range(2):
        meta = {"name": f"p{at}", "labels": {LABEL_POD_GROUP: "g"}}
        pod = {"kind": "Pod", "metadata": meta, "spec": pod_spec(1)}
        pods.append(with_claims(pod, gpu=entry))
    return [*pods, members, template()]


def test_pods_name_the_claim_of_their_group_in_whatever_order_they_are_given() -> None:
    lines = simulated(cluster(), *pods_of_a_group({"resourceClaimName": "g.gpu"}))

    assert lines[1] == "  fits: n0 x2"


def test_a_pod_that_names_the_template_of_its_group_is_refused_as_at_admission() -> None:
    with pytest.raises(ConfigError, match=r"resourceClaimName g\.gpu"):
        simulated(cluster(), *pods_of_a_group(OWN))


def test_a_group_whose_template_is_not_there_is_refused_by_name() -> None:
    documents = pods_of_a_group({"resourceClaimName": "g.gpu"})[:-1]

    with pytest.raises(
        ConfigError, match='PodGroup g: entry gpu: ResourceClaimTemplate "t" not found'
    ):
        simulated(cluster(), *documents)


@pytest.mark.parametrize(
    ("resource", "name"),
    [("example.com/gpu", "example.com/gpu"), ("deviceclass.resource.kubernetes.io/mapped", None)],
)
def test_devices_of_a_class_in_the_files_stand_for_an_extended_resource(
    resource: str, name: str | None
) -> None:
    device_class = {
        "kind": "DeviceClass",
        "metadata": {"name": "mapped"},
        "spec": {"extendedResourceName": name},
    }
    document = job("train", 4)
    container = document["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"][resource] = "1"

    fits = simulated(cluster(), device_class, copy.deepcopy(document))
    short = simulated(cluster(count=1), device_class, document)

    assert fits[1] == "  fits: n0 x2, n1 x2"
    assert "2 cannot allocate all claims" in short[1]
