"""The expected pods of a JobSet's groups, if it creates some pods after others run."""

import json
from copy import deepcopy
from typing import Any

import jsonpatch
import pytest
import yaml

from api.constants import (
    ANNOTATION_GROUP_SCOPE,
    MAX_EXPECTED_KINDS,
    MAX_EXPECTED_PODS,
    MAX_EXPECTED_TEMPLATE,
)
from api.integration.common.minimum import NO_PODS, CountedPods, Progress
from api.integration.common.owner_kind import Review
from api.integration.common.placement_templates import placement_template
from api.integration.jobset.admission import jobset_admission, jobset_expected, jobset_groups
from api.rules.validation import validate
from tests.structure.graph import ROOT
from tests.support.owners import job_template, make_jobset

Json = dict[str, Any]
INVALID = "FieldValueInvalid"
EXAMPLES = ROOT / "examples"


def template(pods: int = 1, cpu: str = "1", **spec: Any) -> Json:
    requests = {"requests": {"cpu": cpu}}
    made = job_template().pods(pods).build()
    made["spec"]["template"]["spec"] |= {"containers": [{"name": "main", "resources": requests}]}
    made["spec"]["template"]["spec"] |= spec
    return made


def jobset(mode: str, *jobs: Json, **spec: Any) -> Json:
    made = make_jobset("train").asks(gang_mode=mode).build()
    return made | {"spec": {"replicatedJobs": list(jobs)} | spec}


def job(name: str, replicas: int, made: Json, *after: tuple[str, str]) -> Json:
    entry: Json = {"name": name, "replicas": replicas, "template": made}
    if after:
        entry["dependsOn"] = [{"name": on, "status": status} for on, status in after]
    return entry


IN_ORDER: Json = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
"""The part of a JobSet's spec for the order."""

DRIVER = job("driver", 1, template(1, "1"))
WORKERS = job("worker", 2, template(4, "4"), ("driver", "Ready"))
LATER = job("worker", 2, template(4, "4"), ("driver", "Complete"))
PLAIN = job("worker", 2, template(4, "4"))


def admitted(made: Json) -> Json:
    patch = jobset_admission(made, Review("CREATE", expects=True)).patch
    stored: Json = jsonpatch.apply_patch(made, patch)
    return stored


def nothing(_: str, __: str) -> tuple[Progress | None, CountedPods]:
    return None, NO_PODS


def expected(made: Json, life: Any = nothing) -> dict[str, list[tuple[str, int, int]]]:
    stored = admitted(made)
    return {
        group: [(it["name"], it["count"], it.get("stage", 0)) for it in entries]
        for group, entries in jobset_expected(stored, life).items()
    }


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(jobset("Gang", DRIVER, PLAIN), {}, id="nothing ordered"),
        pytest.param(jobset("Basic", DRIVER, PLAIN, **IN_ORDER), {}, id="no gang"),
        pytest.param(
            jobset("Gang", DRIVER, PLAIN, **IN_ORDER),
            {"pg-train": [("driver", 1, 0), ("worker", 8, 0)]},
            id="in order",
        ),
        pytest.param(
            jobset("Gang", DRIVER, WORKERS),
            {"pg-train": [("driver", 1, 0), ("worker", 8, 0)]},
            id="once the driver is ready",
        ),
        pytest.param(
            jobset("Gang", DRIVER, LATER),
            {"pg-train": [("driver", 1, 1), ("worker", 8, 2)]},
            id="once the driver is complete",
        ),
        pytest.param(
            jobset("Composite", DRIVER, LATER),
            {
                "pg-train-driver-0": [("driver", 1, 1)],
                "pg-train-worker-0": [("worker", 4, 2)],
                "pg-train-worker-1": [("worker", 4, 2)],
            },
            id="a tree, each Job with a group",
        ),
        pytest.param(
            jobset("Gang", DRIVER, job("none", 0, template(2)), WORKERS),
            {"pg-train": [("driver", 1, 0), ("worker", 8, 0)]},
            id="a replicatedJob without pods",
        ),
        pytest.param(
            jobset("Gang", DRIVER, job("b", 2, template(2)), job("c", 3, template(2)), **IN_ORDER),
            {"pg-train": [("driver", 1, 0), ("b", 4, 0), ("c", 6, 0)]},
            id="pods of each replicatedJob are told apart",
        ),
        pytest.param(
            jobset("Gang", *(job(f"j{at}", at, template(2)) for at in range(10)), **IN_ORDER),
            {"pg-train": [("j1", 90, 0)]},
            id="but in more of them than there are kinds, where they ask for the same",
        ),
        pytest.param(
            jobset("Gang", *(job(f"j{at}", 1, template(1, f"{at + 1}")) for at in range(9))),
            {},
            id="many kinds without an order",
        ),
    ],
)
def test_an_entry_for_each_kind_of_pods(made: Json, want: Json) -> None:
    assert expected(made) == want


def test_separate_gangs_expect_nothing_as_each_has_all_its_pods_at_once() -> None:
    builder = make_jobset("train").in_order()
    builder.replicated_job("a", mode="Gang").replicated_job("b", mode="ReplicatedGang")

    assert expected(builder.build()) == {}


@pytest.mark.parametrize(
    ("progress", "pods", "want"),
    [
        pytest.param(None, NO_PODS, 4, id="not created"),
        pytest.param(Progress(), CountedPods(2), 4, id="two of four are there"),
        pytest.param(Progress(1), CountedPods(3, 1), 4, id="one succeeded and is there"),
        pytest.param(
            Progress(4, complete=True), CountedPods(0, 4), 4, id="all succeeded and are there"
        ),
        pytest.param(Progress(4, complete=True), NO_PODS, 0, id="all succeeded and are gone"),
        pytest.param(
            Progress(1, 1), CountedPods(2), 2, id="one index was given up, one pod is gone"
        ),
    ],
)
def test_what_has_ended_and_is_gone_is_not_expected_again(
    progress: Progress | None, pods: CountedPods, want: int
) -> None:
    made = jobset("Gang", DRIVER, job("worker", 1, template(4, "4")), **IN_ORDER)
    made["spec"]["replicatedJobs"][1]["template"]["spec"]["completions"] = 4

    def life(name: str, group: str) -> tuple[Progress | None, CountedPods]:
        assert group == "pg-train"
        return (progress, pods) if name == "train-worker-0" else (Progress(), CountedPods(1))

    assert expected(made, life) == {"pg-train": [("driver", 1, 0), ("worker", want, 0)]}


@pytest.mark.parametrize("mode", ["Gang", "Composite"])
@pytest.mark.parametrize("ordered", ["InOrder", "dependsOn"])
def test_what_is_accepted_is_a_group_that_the_rules_accept(mode: str, ordered: str) -> None:
    parts = (DRIVER, PLAIN) if ordered == "InOrder" else (DRIVER, WORKERS)
    made = jobset(mode, *parts, **(IN_ORDER if ordered == "InOrder" else {}))
    admission = jobset_admission(made, Review("CREATE", expects=True))
    stored = admitted(made)
    pods = jobset_expected(stored, nothing)
    groups = [obj for obj in jobset_groups(stored) if obj["kind"] == "PodGroup"]

    assert not admission.causes
    assert {obj["metadata"]["name"] for obj in groups} == pods.keys()
    for obj in groups:
        obj["spec"]["expectedPods"] = pods[obj["metadata"]["name"]]
        assert not validate("PodGroup", obj, None, "CREATE").causes


def faults(made: Json) -> list[tuple[str, str]]:
    found = jobset_admission(made, Review("CREATE", expects=True)).causes
    return [(it.field, it.reason) for it in found]


LARGE: Json = {"nodeSelector": {"key": "v" * MAX_EXPECTED_TEMPLATE}}
OTHERS = [job(f"j{at}", 1, template(1, f"{at + 1}")) for at in range(MAX_EXPECTED_KINDS + 1)]


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(
            jobset("Gang", *OTHERS, **IN_ORDER),
            [("spec.replicatedJobs", INVALID)],
            id="more kinds than a group may expect",
        ),
        pytest.param(jobset("Gang", *OTHERS[1:], **IN_ORDER), [], id="the most kinds"),
        pytest.param(
            jobset("Gang", DRIVER, job("b", 1, template(1, "1", **LARGE)), **IN_ORDER),
            [("spec.replicatedJobs[1].template.spec.template", INVALID)],
            id="a template that is too large",
        ),
        pytest.param(
            jobset("Gang", DRIVER, job("b", 1, template(1, "1", **LARGE))),
            [],
            id="large, without order",
        ),
        pytest.param(
            jobset("Gang", job("b", 2, template(MAX_EXPECTED_PODS)), DRIVER, **IN_ORDER),
            [("spec.replicatedJobs[0].replicas", INVALID)],
            id="too many pods",
        ),
        pytest.param(
            jobset("Composite", job("b", 2, template(MAX_EXPECTED_PODS)), DRIVER, **IN_ORDER),
            [],
            id="as many pods as one group of a tree may expect",
        ),
    ],
)
def test_more_than_a_group_may_expect_is_refused(made: Json, want: list[tuple[str, str]]) -> None:
    assert faults(made) == want
    if want:
        assert expected(made) in ({}, {"pg-train": []})


def test_a_thousand_replicated_jobs() -> None:
    same = [job(f"j{at}", 1, template(2)) for at in range(1000)]
    chain = [DRIVER, *(job(f"j{at}", 1, template(2), ("driver", "Ready")) for at in range(999))]
    different = [job(f"j{at}", 1, template(2, f"{at + 1}m")) for at in range(1000)]

    assert expected(jobset("Gang", *same, **IN_ORDER)) == {"pg-train": [("j0", 2000, 0)]}
    assert expected(jobset("Gang", *chain)) == {"pg-train": [("driver", 1999, 0)]}
    assert faults(jobset("Gang", *different, **IN_ORDER)) == [("spec.replicatedJobs", INVALID)]


def test_without_the_gate_an_order_is_refused_as_before() -> None:
    for made in (jobset("Gang", DRIVER, WORKERS), jobset("Composite", DRIVER, PLAIN, **IN_ORDER)):
        [fault] = jobset_admission(made, Review("CREATE")).causes
        assert "use gang-mode on the replicatedJobs instead" in fault.message


def nested(depth: int) -> Json:
    found: Json = {}
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    "pod_template",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"spec": []}, id="a list"),
        pytest.param({"metadata": {"labels": []}, "spec": {"containers": [1]}}, id="wrong types"),
        pytest.param({"spec": {"containers": [{"resources": {"limits": 1}}]}}, id="wrong limits"),
        pytest.param({"spec": {"affinity": nested(100_000), "containers": [{}]}}, id="nested"),
        pytest.param({"spec": {"nodeSelector": {"a": "\ud800"}, "containers": [{}]}}, id="text"),
    ],
)
def test_a_template_of_any_structure(pod_template: Json) -> None:
    marked = {"annotations": {ANNOTATION_GROUP_SCOPE: "JobSet"}}
    entry = {"name": "a", "replicas": 1}
    entry["template"] = {"metadata": marked, "spec": {"template": pod_template}}
    driver = DRIVER | {"template": DRIVER["template"] | {"metadata": marked}}
    made = jobset("Gang", driver, entry, **IN_ORDER)

    found = jobset_expected(made, nothing)["pg-train"]

    assert found == [] or len(found) == 2
    assert all(field.startswith("spec.replicatedJobs[1]") for field, _ in faults(made))


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(
            {"containers": [{"name": "a", "image": "x", "env": [{"name": "A"}]}]},
            {"containers": [{"name": "a"}]},
            id="what decides nothing is left out",
        ),
        pytest.param(
            {"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1"}}}]},
            {"containers": [{"resources": {"requests": {"cpu": "2", "memory": "1"}}}]},
            id="a limit without a request is one, as Kubernetes has it",
        ),
        pytest.param(
            {"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}]},
            {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
            id="a limit beside a request decides nothing",
        ),
        pytest.param(
            {"containers": [{}], "resources": {"limits": {"cpu": "2"}}},
            {"containers": [{}], "resources": {"requests": {"cpu": "2"}}},
            id="a limit of the whole pod",
        ),
        pytest.param(
            {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "resources": {"limits": {"cpu": "2"}},
            },
            {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
            id="a limit of the whole pod, whose containers have requests",
        ),
        pytest.param(
            {"containers": [{"ports": [{"containerPort": 1}, {"hostPort": 2}]}]},
            {"containers": [{"ports": [{"containerPort": None, "hostPort": 2}]}]},
            id="ports of the node",
        ),
        pytest.param(
            {"containers": [{"ports": [{"containerPort": 1}]}], "hostNetwork": True},
            {"containers": [{"ports": [{"containerPort": 1, "hostPort": 1}]}]},
            id="ports in the network of the node",
        ),
        pytest.param(
            {"initContainers": [{"name": "s", "restartPolicy": "Always", "command": ["x"]}]},
            {"initContainers": [{"name": "s", "restartPolicy": "Always"}]},
            id="a sidecar",
        ),
        pytest.param(
            {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "csi": {"driver": "d"}}]},
            {"volumes": [{"name": "b", "csi": {"driver": "d"}}]},
            id="volumes that not each node can have",
        ),
    ],
)
def test_a_template_is_pruned_to_what_decides_placement(spec: Json, want: Json) -> None:
    assert placement_template({"spec": spec}, {}) == {"spec": want}


def test_labels_are_those_that_the_pods_will_have() -> None:
    made = deepcopy(jobset("Gang", DRIVER, WORKERS))
    made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {
        "labels": {"app": "x"},
        "annotations": {"note": "n" * MAX_EXPECTED_TEMPLATE},
    }
    stored = admitted(made)

    driver = jobset_expected(stored, nothing)["pg-train"][0]["template"]

    assert driver["metadata"] == {
        "labels": {
            "app": "x",
            "jobset.sigs.k8s.io/jobset-name": "train",
            "jobset.sigs.k8s.io/replicatedjob-name": "driver",
        }
    }
    assert len(json.dumps(driver)) < 500


def test_a_trainer_runtime_with_initializers() -> None:
    """The example, as the JobSet that Trainer generates from its template for four nodes."""
    runtime, _ = yaml.safe_load_all((EXAMPLES / "trainer-initializers.yaml").read_text())
    said, nodes = runtime["spec"]["template"], runtime["spec"]["mlPolicy"]["numNodes"]
    made = {"metadata": {"name": "tune", "namespace": "ml", "uid": "u"} | said["metadata"]}
    made["spec"] = deepcopy(said["spec"])
    for it in made["spec"]["replicatedJobs"]:
        it["replicas"] = 1
        it["template"]["spec"]["parallelism"] = nodes if it["name"] == "node" else 1

    assert faults(made) == []
    assert expected(made) == {
        "pg-tune": [("dataset-initializer", 1, 1), ("model-initializer", 1, 2), ("node", 4, 3)]
    }


def test_the_example_that_starts_in_order() -> None:
    made = yaml.safe_load((EXAMPLES / "jobset-in-order.yaml").read_text())

    assert faults(made) == []
    assert expected(made) == {"pg-driven": [("driver", 1, 0), ("workers", 8, 0)]}
