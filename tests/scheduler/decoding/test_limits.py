"""Limits of a pod's content; a pod beyond them is rejected and costs no resources."""

from typing import Any

import msgspec
import pytest

from scheduler.core.search.place import Refusal
from scheduler.core.values.model import PodInfo, Requirements
from scheduler.decoding import decode
from scheduler.decoding.objects import decode_pod
from tests.scheduler.state_builder import StateBuilder


def pod(**spec: Any) -> PodInfo:
    spec = {"schedulerName": "muster-scheduler", "containers": [container()], **spec}
    meta = {"name": "p", "namespace": "ns", "uid": "u"}
    return decode.pod_info(decode_pod(msgspec.json.encode({"metadata": meta, "spec": spec})))


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": "1"}}, **fields}


def expressions(count: int, values: int = 1) -> dict[str, Any]:
    each = [f"v{number}" for number in range(values)]
    listed = [{"key": f"k{n}", "operator": "In", "values": each} for n in range(count)]
    return {"matchExpressions": listed}


def node_terms(count: int, size: int = 1, values: int = 1) -> dict[str, Any]:
    terms = [expressions(size, values)] * count
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def pod_terms(count: int, size: int = 1, values: int = 1, **fields: Any) -> dict[str, Any]:
    term = {"topologyKey": "t", "labelSelector": expressions(size, values), **fields}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * count}
    return {"affinity": {"podAntiAffinity": required}}


def spreads(count: int) -> dict[str, Any]:
    each = {"topologyKey": "t", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
    return {"topologySpreadConstraints": [each] * count}


def ports_and_claims(ports: int, claims: int) -> dict[str, Any]:
    listed = [{"containerPort": n, "hostPort": n} for n in range(1, ports + 1)]
    volumes = [
        {"name": "v", "persistentVolumeClaim": {"claimName": f"c{n}"}} for n in range(claims)
    ]
    return {"containers": [container(ports=listed)], "volumes": volumes}


def disks(count: int) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "iscsi": {"iqn": f"iqn.{n:05}"}} for n in range(count)]}


def monitors(count: int) -> dict[str, Any]:
    listed = [f"10.0.{n}" for n in range(count)]
    return {"volumes": [{"name": "v", "rbd": {"image": "i", "pool": "p", "monitors": listed}}]}


def attached_disks(count: int) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "cinder": {"volumeID": f"d{n}"}} for n in range(count)]}


def many_resources(count: int) -> dict[str, Any]:
    requests = {f"example.com/r{number}": "1" for number in range(count)}
    return {"containers": [{"resources": {"requests": requests}}]}


def namespaces(count: int) -> dict[str, Any]:
    return pod_terms(1, namespaces=[f"ns{number}" for number in range(count)])


def selector_labels(count: int) -> dict[str, Any]:
    return {"nodeSelector": {f"k{number}": "v" for number in range(count)}}


@pytest.mark.parametrize(
    ("most", "more", "want"),
    [
        pytest.param(
            selector_labels(64), selector_labels(65), "65 nodeSelector labels", id="pairs"
        ),
        pytest.param(node_terms(64), node_terms(65), "65 terms of node affinity", id="node terms"),
        pytest.param(
            node_terms(4, 64), node_terms(4, 65), "260 expressions in node affinity", id="node keys"
        ),
        pytest.param(
            node_terms(1, 4, 1024), node_terms(1, 5, 1024), "5120 values in node affinity",
            id="node values",
        ),
        pytest.param(
            {"tolerations": [{"key": "k"}] * 128}, {"tolerations": [{"key": "k"}] * 129},
            "129 tolerations", id="tolerations",
        ),
        pytest.param(pod_terms(64), pod_terms(65), "65 terms about other pods", id="pod terms"),
        pytest.param(spreads(64), spreads(65), "65 terms about other pods", id="spread"),
        pytest.param(
            pod_terms(4, 64), pod_terms(4, 65), "260 expressions about other pods", id="pod keys"
        ),
        pytest.param(
            pod_terms(1, 4, 256), pod_terms(1, 5, 256), "1280 label values about other pods",
            id="pod values",
        ),
        pytest.param(namespaces(256), namespaces(257), "257 namespaces in terms", id="namespaces"),
        pytest.param(many_resources(64), many_resources(65), "65 resources", id="resources"),
        pytest.param(
            ports_and_claims(1024, 0), ports_and_claims(1025, 0), "1025 host ports", id="ports"
        ),
        pytest.param(
            ports_and_claims(0, 256), ports_and_claims(0, 257), "257 volume claims", id="claims"
        ),
        pytest.param(
            disks(256), disks(257), "257 disks, counting an rbd image for each monitor", id="disks"
        ),
        pytest.param(
            monitors(256), monitors(257), "257 disks, counting an rbd image for each monitor",
            id="monitors",
        ),
        pytest.param(
            attached_disks(256), attached_disks(257),
            "257 disks, counting an rbd image for each monitor", id="disks that are only attached",
        ),
    ],
)  # fmt: skip
def test_a_pod_with_too_much_of_a_kind_is_refused_by_name(
    most: dict[str, Any], more: dict[str, Any], want: str
) -> None:
    within, beyond = pod(**most).requirements, pod(**more).requirements

    assert within.excess == ""
    assert beyond.excess.startswith(f"{want}, at most ")
    assert beyond == Requirements(
        beyond.requests,
        ports=beyond.ports,
        claims=beyond.claims,
        excess=beyond.excess,
        disks=beyond.disks,
        attachments=beyond.attachments,
        assumed=beyond.assumed,
    )


@pytest.mark.parametrize("scheduler", ["muster-scheduler", "default-scheduler"])
def test_terms_of_a_pod_with_too_many_are_not_considered(scheduler: str) -> None:
    """The node does not matter; they would be a cost for all others."""
    beyond = pod(**pod_terms(65), schedulerName=scheduler, nodeName="n").requirements
    within = pod(**pod_terms(64), **selector_labels(65), schedulerName=scheduler).requirements

    assert beyond.required_anti_affinity == ()
    assert len(within.required_anti_affinity) == 64


@pytest.mark.parametrize("scheduler", ["muster-scheduler", "default-scheduler"])
def test_of_too_many_disks_the_first_are_considered(scheduler: str) -> None:
    """The node does not matter: each is a cost for all pods that name the same one."""
    many = disks(5000)["volumes"] + attached_disks(5000)["volumes"]
    requirements = pod(volumes=many, schedulerName=scheduler, nodeName="n").requirements

    assert [disk.name for disk in requirements.disks] == [f"iqn.{n:05}" for n in range(256)]
    assert len(requirements.attachments) == 256


def test_of_too_many_labels_the_first_are_considered() -> None:
    names = [f"k{number:04}" for number in range(1000)]
    meta = {"name": "p", "namespace": "ns", "uid": "u", "labels": dict.fromkeys(names, "v")}
    info = decode.pod_info(decode_pod(msgspec.json.encode({"metadata": meta})))

    assert list(info.labels) == names[:128]


def test_the_refusal_says_what_to_change() -> None:
    builder = StateBuilder()
    builder.nodes(2)
    info = pod(**selector_labels(5000))
    builder.state.set_pod(info)
    refusal = builder.place_single(info)

    assert isinstance(refusal, Refusal)
    assert refusal.shortage.message == (
        "A pod has 5000 nodeSelector labels, at most 64 are allowed. Use fewer."
    )
    assert not refusal.shortage.resolvable


_PLAIN = {
    "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
    "nodeSelector": {"disk": "ssd"},
    "volumes": [{"name": "token", "projected": {"sources": []}}],
}


@pytest.mark.parametrize("scheduler", ["muster-scheduler", "default-scheduler"])
def test_pods_that_are_alike_share_one_value(scheduler: str) -> None:
    """A cluster has few templates and many pods: their requirements are stored once."""
    one, other = (pod(**_PLAIN, schedulerName=scheduler).requirements for _ in range(2))

    assert one is other


@pytest.mark.parametrize("scheduler", ["muster-scheduler", "default-scheduler"])
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(many_resources(65), id="resources"),
        pytest.param(selector_labels(65), id="selector"),
        pytest.param({"tolerations": [{"key": "k"}] * 129}, id="tolerations"),
        pytest.param(ports_and_claims(1, 0), id="ports"),
        pytest.param(ports_and_claims(0, 1), id="claims"),
        pytest.param(disks(1), id="disks"),
        pytest.param(pod_terms(1), id="terms"),
    ],
)
def test_nothing_large_is_kept_to_be_shared(spec: dict[str, Any], scheduler: str) -> None:
    """A tenant that creates many large pods would fill the memory with them."""
    one, other = (pod(**spec, schedulerName=scheduler).requirements for _ in range(2))

    assert one == other
    shared = scheduler == "default-scheduler" and set(spec) <= {"nodeSelector", "tolerations"}
    assert (one is other) == shared  # neither of these is read of others' pods
