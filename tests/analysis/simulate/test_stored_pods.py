"""A pod in a simulation equals the one that the API server would store."""

import copy
from typing import Any, cast

import pytest

from analysis.simulate.simulate import simulate
from analysis.simulate.stored_pods import PodAdmission
from api.integration.common.placement_templates import placement_template
from api.pod_defaults import with_defaults
from api.priority import PriorityClass
from kube.base.errors import ConfigError, Forbidden, KubeError, NotFound
from kube.client.client import Client
from kube.client.resources import Resource
from scheduler.core.search.place import SearchBudget
from scheduler.decoding import decode
from scheduler.decoding.objects import pod_of
from tests.scheduler.state_builder import StateBuilder

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
DEFAULT = "storageclass.kubernetes.io/is-default-class"


def container(requests: Json | None = None, limits: Json | None = None, **fields: Any) -> Json:
    said = {"requests": requests, "limits": limits}
    resources = {key: value for key, value in said.items() if value is not None}
    return {"name": "c"} | ({"resources": resources} if resources else {}) | fields


def pod(*containers: Json, **spec: Any) -> Json:
    meta = {"name": "p", "namespace": "ns"}
    return {"kind": "Pod", "metadata": meta, "spec": {"containers": list(containers), **spec}}


def test_a_pod_with_limits_requests_what_its_containers_do() -> None:
    """`defaultPodRequests`: kube-scheduler assumes no further requests of its containers then."""
    first, second = container({"memory": "64Mi"}), container({}, {"memory": "1Gi"})
    made = pod(first, second, container(), resources={"limits": {"cpu": "64"}})

    assert PodAdmission().store(made) == []

    requests = made["spec"]["resources"]["requests"]
    assert {key: str(it) for key, it in requests.items()} == {"cpu": "64", "memory": "1140850688"}


def gang(count: int, spec: Json) -> Json:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a", "annotations": {"scheduling.muster.dev/gang-mode": "Gang"}},
        "spec": {
            "parallelism": count,
            "completions": count,
            "template": {"spec": {"restartPolicy": "Never", **spec}},
        },
    }


def limit_range(*limits: Json, name: str = "r", namespace: str = "ns") -> Json:
    meta = {"name": name, "namespace": namespace}
    spec = {"limits": list(limits)}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": spec}


def runtime_class(name: str = "vm", **fields: Any) -> Json:
    meta = {"name": name}
    return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": meta, **fields}


def of_containers(**amounts: Json) -> Json:
    return {"type": "Container", **amounts}


def stored(made: Json, *objects: Json, **known: Any) -> Json:
    """Return the spec as stored."""
    made = copy.deepcopy(made)
    assert PodAdmission(**known).with_manifests(objects).store(made) == []
    spec: Json = made["spec"]
    return spec


def rejected(made: Json, *objects: Json, **known: Any) -> list[tuple[str, str]]:
    causes = PodAdmission(**known).with_manifests(objects).store(copy.deepcopy(made))
    return [(cause.field, cause.message) for cause in causes]


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(container(limits={GPU: "8"}), {GPU: "8"}, id="a limit is a request"),
        pytest.param(
            container({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}),
            {"cpu": "1", "memory": "1Gi"},
            id="unless there is one",
        ),
        pytest.param(container({"cpu": "0"}, {"cpu": "2"}), {"cpu": "0"}, id="of zero too"),
    ],
)
@pytest.mark.parametrize("key", ["containers", "initContainers"])
def test_limits_are_requests(made: Json, want: Json, key: str) -> None:
    of_pod = pod(made) if key == "containers" else pod(container(), initContainers=[made])

    assert stored(of_pod)[key][0]["resources"]["requests"] == want


@pytest.mark.parametrize(
    ("resources", "inner", "want"),
    [
        pytest.param({"limits": {"cpu": "4"}}, {}, {"cpu": "4"}, id="a limit of the pod"),
        pytest.param(
            {"limits": {"cpu": "4"}, "requests": {"cpu": "2"}}, {}, {"cpu": "2"}, id="a request"
        ),
        pytest.param({"limits": {"cpu": "4"}}, {"cpu": "1"}, {"cpu": "1000m"}, id="of a container"),
    ],
)
@pytest.mark.parametrize("key", ["containers", "initContainers"])
def test_limits_of_the_whole_pod(resources: Json, inner: Json, want: Json, key: str) -> None:
    more = {"initContainers": [container(inner)]} if key == "initContainers" else {}
    first = container() if more else container(inner or None)

    spec = stored(pod(first, resources=resources, **more))

    assert spec["resources"].get("requests") == want


@pytest.mark.parametrize(
    ("port", "on_host", "want"),
    [
        ({"containerPort": 22}, True, 22),
        ({"containerPort": 22}, False, None),
        ({"containerPort": 22, "hostPort": 22}, False, 22),
        ({}, True, None),
    ],
)
def test_ports_on_the_network_of_the_host(port: Json, on_host: bool, want: int | None) -> None:
    spec = stored(pod(container(ports=[port]), hostNetwork=on_host))

    assert spec["containers"][0]["ports"][0].get("hostPort") == want


@pytest.mark.parametrize(
    ("item", "requests", "limits"),
    [
        pytest.param(of_containers(defaultRequest={"cpu": "1"}), {"cpu": "1"}, None, id="request"),
        pytest.param(of_containers(default={"cpu": "2"}), {"cpu": "2"}, {"cpu": "2"}, id="limit"),
        pytest.param(
            of_containers(default={"cpu": "2"}, defaultRequest={"cpu": "1"}),
            {"cpu": "1"},
            {"cpu": "2"},
            id="both",
        ),
        pytest.param(of_containers(max={"cpu": "3"}), {"cpu": "3"}, {"cpu": "3"}, id="maximum"),
        pytest.param(of_containers(min={"cpu": "1"}), {"cpu": "1"}, None, id="minimum"),
        pytest.param({"type": "Pod", "max": {"memory": "1Gi"}}, None, None, id="of whole pods"),
    ],
)
def test_a_limit_range_gives_containers_what_they_lack(
    item: Json, requests: Json | None, limits: Json | None
) -> None:
    resources = [container()]
    memory = {"memory": "1Mi"} if item["type"] == "Pod" else None
    spec = stored(pod(*resources, container(memory, memory)), limit_range(item))

    found = spec["containers"][0].get("resources", {})
    assert found.get("requests") == requests
    assert found.get("limits") == limits


def test_a_limit_range_leaves_what_is_written() -> None:
    spec = stored(
        pod(container({"cpu": "1"}, {"cpu": "2"})),
        limit_range(of_containers(default={"cpu": "4"}, defaultRequest={"cpu": "3"})),
    )

    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}


def test_a_limit_range_of_another_namespace_does_not_count() -> None:
    other = limit_range(of_containers(defaultRequest={"cpu": "1"}), namespace="other")

    assert "resources" not in stored(pod(container()), other)["containers"][0]


@pytest.mark.parametrize(
    ("item", "want"),
    [
        (
            of_containers(min={"cpu": "2"}, defaultRequest={}),
            "minimum cpu usage per Container is 2, but request is 1",
        ),
        (
            of_containers(max={"cpu": "500m"}),
            "maximum cpu usage per Container is 500m, but request is 1",
        ),
        (of_containers(maxLimitRequestRatio={"cpu": "1.5"}), "cpu max limit to request ratio"),
        (
            {"type": "Pod", "max": {"cpu": "3"}},
            "maximum cpu usage per Pod is 3, but limit is 4000m",
        ),
        ({"type": "Pod", "min": {"memory": "1"}}, "minimum memory usage per Pod is 1.  No request"),
    ],
)
def test_a_pod_beyond_a_limit_range_is_rejected(item: Json, want: str) -> None:
    limit = {} if "max" in item and item["type"] == "Container" else {"cpu": "2"}
    two = [container({"cpu": "1"}, limit), container({"cpu": "1"}, limit)]

    causes = rejected(pod(*two), limit_range(item))

    assert any(want in message for _, message in causes)


def test_a_pod_within_its_limit_ranges_is_accepted() -> None:
    bounds = {"min": {"cpu": "1"}, "max": {"cpu": "4"}}
    whole = [of_containers(**bounds, maxLimitRequestRatio={"cpu": "2"}), {"type": "Pod", **bounds}]
    spec = stored(
        pod(container({"cpu": "1"}, {"cpu": "2"}), container({"cpu": "1"}, {"cpu": "2"})),
        limit_range(*whole),
    )

    assert len(spec["containers"]) == 2


def test_a_runtime_class_adds_overhead_selector_and_tolerations() -> None:
    toleration = {"key": "vm", "operator": "Exists"}
    found = runtime_class(
        overhead={"podFixed": {"cpu": "1"}},
        scheduling={"nodeSelector": {"vm": "yes"}, "tolerations": [toleration]},
    )

    spec = stored(pod(container(), runtimeClassName="vm", nodeSelector={"a": "b"}), found)

    assert spec["overhead"] == {"cpu": "1"}
    assert spec["nodeSelector"] == {"a": "b", "vm": "yes"}
    assert spec["tolerations"] == [toleration]


@pytest.mark.parametrize(
    ("spec", "complete", "want"),
    [
        ({"runtimeClassName": "none"}, True, ["spec.runtimeClassName"]),
        ({"runtimeClassName": "none"}, False, []),
        ({"runtimeClassName": "vm", "overhead": {"cpu": "2"}}, True, ["spec.overhead"]),
        ({"runtimeClassName": "vm", "overhead": {"cpu": "1000m"}}, True, []),
        ({"runtimeClassName": "vm", "nodeSelector": {"vm": "no"}}, True, ["spec.nodeSelector[vm]"]),
    ],
)
def test_what_contradicts_a_runtime_class_is_rejected(
    spec: Json, complete: bool, want: list[str]
) -> None:
    found = runtime_class(
        overhead={"podFixed": {"cpu": "1"}}, scheduling={"nodeSelector": {"vm": "yes"}}
    )

    causes = rejected(pod(container(), **spec), found, complete=complete)

    assert [field for field, _ in causes] == want


def test_the_files_replace_what_is_in_the_cluster() -> None:
    known = {
        "limit_ranges": (limit_range(of_containers(defaultRequest={"cpu": "1"})),),
        "runtime_classes": {"vm": runtime_class(overhead={"podFixed": {"cpu": "1"}})},
        "priority_classes": (PriorityClass("high", 1),),
    }
    given = [
        limit_range(of_containers(defaultRequest={"cpu": "2"})),
        runtime_class(overhead={"podFixed": {"cpu": "2"}}),
        {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 2},
    ]

    spec = stored(
        pod(container(), runtimeClassName="vm", priorityClassName="high"), *given, **known
    )

    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "2"}
    assert spec["overhead"] == {"cpu": "2"}
    assert spec["priority"] == 2


def requirements(spec: Json) -> object:
    return decode.pod_info(pod_of({"metadata": {"name": "p"}, "spec": spec})).requirements


@pytest.mark.parametrize(
    "made",
    [
        pod(container(limits={GPU: "1"}, ports=[{"containerPort": 1}]), hostNetwork=True),
        pod(container({"cpu": "1"}), resources={"limits": {"cpu": "4", "memory": "1Gi"}}),
    ],
)
def test_pods_that_are_expected_ask_for_what_those_that_are_stored_ask_for(made: Json) -> None:
    of_template, of_pod = (
        placement_template({"spec": it}, {})["spec"] for it in (made["spec"], stored(made))
    )

    assert requirements(of_template) == requirements(of_pod)
    assert with_defaults(with_defaults(made["spec"])) == with_defaults(made["spec"])


def simulated(nodes: int, *documents: Json) -> list[str]:
    builder = StateBuilder()
    builder.nodes(nodes, cpu=2)
    return simulate(builder.state, documents, "ns", SearchBudget()).lines


@pytest.mark.parametrize(
    ("spec", "more", "want"),
    [
        pytest.param(
            {"containers": [container(limits={GPU: "8"})]},
            [],
            "  Unschedulable",
            id="devices in limits",
        ),
        pytest.param(
            {"containers": [container(ports=[{"containerPort": 2222}])], "hostNetwork": True},
            [],
            "  Unschedulable",
            id="one port of the host",
        ),
        pytest.param(
            {"containers": [container()]},
            [limit_range(of_containers(defaultRequest={"cpu": "2"}))],
            "  Unschedulable",
            id="a LimitRange",
        ),
        pytest.param(
            {"containers": [container({"cpu": "1"})], "runtimeClassName": "vm"},
            [runtime_class(overhead={"podFixed": {"cpu": "1"}})],
            "  Unschedulable",
            id="an overhead",
        ),
        pytest.param({"containers": [container({"cpu": "1"})]}, [], "  fits: n0 x2", id="neither"),
    ],
)
def test_a_gang_is_decided_by_what_is_stored(spec: Json, more: list[Json], want: str) -> None:
    lines = simulated(1, *more, gang(2, spec))

    assert lines[1].startswith(want)


def test_a_pod_that_would_be_rejected_is_named() -> None:
    bound = limit_range(of_containers(max={"cpu": "1"}))

    with pytest.raises(ConfigError, match=r"Pod a-0 would be rejected: .*maximum cpu usage"):
        simulated(1, bound, gang(1, {"containers": [container({"cpu": "2"})]}))


def test_a_priority_class_of_the_files_counts() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=1)
    builder.pod("", node="n0", name="low")
    cls = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5}
    cls |= {"metadata": {"name": "high"}}
    asks = {"containers": [container({"cpu": "1"})], "priorityClassName": "high"}

    lines = simulate(builder.state, [gang(1, asks), cls], "ns", SearchBudget()).lines

    assert "    Pod ns/low, priority 0, 1 pod" in lines


class Answers:
    """A client whose lists return these objects, or raise."""

    def __init__(self, **lists: list[Json] | KubeError) -> None:
        self._lists = lists

    async def list(self, resource: Resource) -> Json:
        found = self._lists[resource.plural]
        if isinstance(found, KubeError):
            raise found
        return {"items": found}


async def test_what_the_cluster_has_is_read() -> None:
    ranges = [limit_range(of_containers(defaultRequest={"cpu": "1"}))]
    standard = {"metadata": {"name": "standard", "annotations": {DEFAULT: "true"}}}
    client = Answers(
        limitranges=ranges, runtimeclasses=[runtime_class()], storageclasses=[standard]
    )

    found = await PodAdmission().with_cluster(cast("Client", client))

    assert found.limit_ranges == tuple(ranges)
    assert found.runtime_classes.keys() == {"vm"}
    assert found.default_storage_class == "standard"
    assert (found.complete, found.notes) == (True, ())


async def test_what_may_not_be_read_is_said_and_what_is_not_served_is_not_there() -> None:
    forbidden = Forbidden(403, "Forbidden", "limitranges is forbidden")
    none = NotFound(404, "NotFound", "no")
    client = Answers(limitranges=forbidden, runtimeclasses=none, storageclasses=none)

    found = await PodAdmission().with_cluster(cast("Client", client))

    assert found.complete
    assert found.notes[0].startswith("left out: the effects of limitranges on pods: ")
    lines = simulate(StateBuilder().state, [pod(container())], "ns", SearchBudget(), found).lines
    assert lines[-1] == found.notes[0]
