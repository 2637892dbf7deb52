"""Simulation creates the groups of the controllers, for every way in which pods name them."""

from typing import Any

import pytest

from analysis.simulate.simulate import simulate
from api.names import implicit_pod_group
from kube.base.errors import ConfigError
from scheduler.core.search.place import SearchBudget
from tests.cli.commands.test_solver_commands import pod_spec
from tests.scheduler.state_builder import StateBuilder
from tests.support.apps import deployment, stateful_set

Json = dict[str, Any]

PLUGINS = "scheduling.x-k8s.io/v1alpha1"
SUBSETS = "coscheduling.muster.dev/v1alpha1"
OURS = "scheduling.muster.dev"


def pod(name: str, **labels: str) -> Json:
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": pod_spec()}


def plugins_pods(count: int, group: str = "g") -> list[Json]:
    return [pod(f"p{at}", **{"scheduling.x-k8s.io/pod-group": group}) for at in range(count)]


def plugins_group(minimum: int) -> Json:
    spec = {"minMember": minimum}
    return {"apiVersion": PLUGINS, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def subset_group(**subsets: int) -> Json:
    listed = [{"name": name, "minMember": count} for name, count in subsets.items()]
    return {
        "apiVersion": SUBSETS,
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"subsets": listed},
    }


def subset_pods(subset: str, count: int) -> list[Json]:
    labels = {"scheduling.x-k8s.io/pod-group": "g", f"{OURS}/subset": subset}
    return [pod(f"{subset}{at}", **labels) for at in range(count)]


def first_workload(name: str, minimum: int) -> Json:
    listed = [{"name": "worker", "policy": {"gang": {"minCount": minimum}}}]
    return {
        "apiVersion": f"{OURS}/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podGroups": listed},
    }


def keyed(key: str) -> str:
    return implicit_pod_group("train", "worker", key)


def labelled(key: str, count: int) -> list[Json]:
    labels = {f"{OURS}/workload": "train", f"{OURS}/template": "worker"}
    labels |= {f"{OURS}/replica-key": key} if key else {}
    return [pod(f"w{key}{at}", **labels) for at in range(count)]


def second_version(minimum: int) -> list[Json]:
    template = {"name": "worker", "schedulingPolicy": {"gang": {"minCount": minimum}}}
    version = {"apiVersion": f"{OURS}/v1alpha2"}
    spec = {"workloadRef": {"name": "train"}, "podGroupTemplateName": "worker"}
    return [
        version | {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec},
        version
        | {
            "kind": "Workload",
            "metadata": {"name": "train"},
            "spec": {"podGroupTemplates": [template]},
        },
    ]


def native(minimum: int) -> list[Json]:
    """Return a group of Kubernetes' own with its Workload and pods."""
    version = {"apiVersion": "scheduling.k8s.io/v1beta1"}
    policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    reference = {"workloadRef": {"workloadName": "w", "templateName": "worker"}}
    workload = {"podGroupTemplates": [{"name": "worker", **policy}]}
    pods = [pod(f"n{at}") for at in range(minimum)]
    for each in pods:
        each["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return [
        version | {"kind": "Workload", "metadata": {"name": "w"}, "spec": workload},
        version | {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": policy | reference},
        *pods,
    ]


def members(count: int) -> list[Json]:
    return [pod(f"m{at}", **{f"{OURS}/pod-group": "g"}) for at in range(count)]


@pytest.mark.parametrize(
    ("documents", "want"),
    [
        pytest.param(
            [plugins_group(3), *plugins_pods(3)],
            ["PodGroup ns/g: 0 of 3 pods scheduled, minCount 3", "  fits: n0 x2, n1 x1"],
            id="scheduler-plugins' PodGroup",
        ),
        pytest.param(
            [*plugins_pods(3), plugins_group(3)],
            ["PodGroup ns/g: 0 of 3 pods scheduled, minCount 3", "  fits: n0 x2, n1 x1"],
            id="whatever comes first in the file",
        ),
        pytest.param([plugins_group(3)], [], id="no group without a pod"),
        pytest.param(
            [subset_group(a=2), *subset_pods("a", 2)],
            ["PodGroup ns/g-a-4752980b36: 0 of 2 pods scheduled, minCount 2", "  fits: n0 x2"],
            id="one subset, which its pods name",
        ),
        pytest.param(
            [subset_group(a=2), *subset_pods("a", 2), *plugins_pods(2)],
            [
                "PodGroup ns/g: 0 of 2 pods scheduled, minCount 2",
                "  fits: n0 x2",
                "PodGroup ns/g-a-4752980b36: 0 of 2 pods scheduled, minCount 2",
                "  fits: n1 x2",
            ],
            id="one subset, which some of its pods name",
        ),
        pytest.param(
            [subset_group(a=2, b=1), *subset_pods("a", 2), *subset_pods("b", 1)],
            [
                "CompositePodGroup ns/g: 0 of 2 child groups scheduled, minGroupCount 2",
                "  fits: n0 x2, n1 x1",
            ],
            id="two subsets are a tree",
        ),
        pytest.param(
            [first_workload("train", 2), *labelled("", 2)],
            ["PodGroup ns/train-worker: 0 of 2 pods scheduled, minCount 2", "  fits: n0 x2"],
            id="a v1alpha1 Workload and labelled pods",
        ),
        pytest.param(
            [first_workload("train", 2), *labelled("0", 2), *labelled("1", 2)],
            [
                f"PodGroup ns/{keyed('0')}: 0 of 2 pods scheduled, minCount 2",
                "  fits: n0 x2",
                f"PodGroup ns/{keyed('1')}: 0 of 2 pods scheduled, minCount 2",
                "  fits: n1 x2",
            ],
            id="a group for each replica key",
        ),
        pytest.param(
            [*second_version(3), *members(3)],
            ["PodGroup ns/g: 0 of 3 pods scheduled, minCount 3", "  fits: n0 x2, n1 x1"],
            id="a v1alpha2 PodGroup",
        ),
        pytest.param(
            native(3),
            [
                "PodGroup.scheduling.k8s.io ns/g: 0 of 3 pods scheduled, minCount 3",
                "  fits: n0 x2, n1 x1",
            ],
            id="a PodGroup of Kubernetes' own",
        ),
        pytest.param(
            [*native(2), *second_version(2), *members(2)],
            [
                "PodGroup ns/g: 0 of 2 pods scheduled, minCount 2",
                "  fits: n0 x2",
                "PodGroup.scheduling.k8s.io ns/g: 0 of 2 pods scheduled, minCount 2",
                "  fits: n1 x2",
            ],
            id="one of each API with one name",
        ),
    ],
)
def test_what_would_fit_is_said_to_fit(documents: list[Json], want: list[str]) -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=2)

    assert simulate(builder.state, documents, "ns", SearchBudget()).lines == want


@pytest.mark.parametrize("make", [stateful_set, deployment])
def test_what_asks_by_gang_mode_is_a_gang(make: Any) -> None:
    def asks(replicas: int) -> Json:
        made: Json = make(replicas=replicas, gang_mode="Gang")
        made["spec"]["template"]["spec"] = pod_spec()
        return made

    def lines(replicas: int) -> list[str]:
        builder = StateBuilder()
        builder.nodes(2, cpu=2)
        return simulate(builder.state, [asks(replicas)], "ns", SearchBudget()).lines

    assert lines(4)[0].endswith(": 0 of 4 pods scheduled, minCount 4")
    assert lines(4)[1] == "  fits: n0 x2, n1 x2"
    assert "The group needs capacity for 5 more pods" in lines(5)[1]
    assert lines(0) == []


def test_what_admission_would_refuse_is_refused() -> None:
    ordered = stateful_set(parallel=False, gang_mode="Gang")

    with pytest.raises(
        ConfigError, match=r"StatefulSet db would be rejected: .*podManagementPolicy"
    ):
        simulate(StateBuilder().state, [ordered], "ns", SearchBudget())


def test_too_many_pods_for_the_cluster_wait_as_a_gang() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=2)

    lines = simulate(
        builder.state, [plugins_group(5), *plugins_pods(5)], "ns", SearchBudget()
    ).lines

    assert "The group needs capacity for 5 more pods" in lines[1]


def test_a_group_that_is_there_counts_as_it_is() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=2)
    simulate(builder.state, [plugins_group(3), *plugins_pods(1)], "ns", SearchBudget())
    another = pod("q", **{"scheduling.x-k8s.io/pod-group": "g"})

    lines = simulate(builder.state, [plugins_group(1), another], "ns", SearchBudget()).lines

    assert lines == []
    assert len(builder.state.forest.groups["PodGroup", "ns", "g"].members) == 2


@pytest.mark.parametrize("template", ["worker", "other"])
def test_pods_join_a_group_that_an_earlier_version_named(template: str) -> None:
    spec = {
        "workloadRef": {"workloadName": "train", "templateName": template},
        "schedulingPolicy": {"gang": {"minCount": 1}},
    }
    there = {"apiVersion": f"{OURS}/v1alpha3", "kind": "PodGroup", "spec": spec}
    builder = StateBuilder()
    builder.nodes(1, cpu=2)
    simulate(
        builder.state, [there | {"metadata": {"name": "train-worker-0"}}], "ns", SearchBudget()
    )

    simulate(builder.state, [first_workload("train", 2), *labelled("0", 1)], "ns", SearchBudget())

    groups = builder.state.forest.groups
    found = {name: len(group.members) for (_, _, name), group in groups.items()}
    assert found == (
        {"train-worker-0": 1} if template == "worker" else {"train-worker-0": 0, keyed("0"): 1}
    )


def test_a_version_that_is_not_known_is_refused_with_those_that_are() -> None:
    unknown = {"kind": "PodGroup", "metadata": {"name": "g"}}
    unknown |= {"apiVersion": "scheduling.muster.dev/v9"}

    with pytest.raises(ConfigError, match=r"PodGroup g: cannot convert PodGroup scheduling\.m"):
        simulate(StateBuilder().state, [unknown], "ns", SearchBudget())


@pytest.mark.parametrize("pods", [0, 1])
def test_documents_stand_for_so_many_pods_at_most(
    monkeypatch: pytest.MonkeyPatch, pods: int
) -> None:
    template = {"spec": {"parallelism": pods, "template": {"spec": pod_spec()}}}
    jobs = [{"name": "a", "replicas": 2**31 - 1, "template": template}]
    many = {"kind": "JobSet", "metadata": {"name": "j"}, "spec": {"replicatedJobs": jobs}}
    replicas = {"replicas": 2**31 - 1, "template": {"spec": pod_spec()}}
    deployment = {"kind": "Deployment", "metadata": {"name": "d"}, "spec": replicas}

    monkeypatch.setattr("analysis.simulate.simulate.MOST_OBJECTS", 100)

    def simulated(document: Json) -> list[str]:
        return simulate(StateBuilder().state, [document], "ns", SearchBudget()).lines

    if pods:
        with pytest.raises(ConfigError, match="expand to more than 100 groups and pods"):
            simulated(many)
        with pytest.raises(ConfigError, match="expand to more than 100 groups and pods"):
            simulated(deployment)
    else:
        assert simulated(many) == []
