"""`muster explain`, `simulate`, `replay` and `tree --snapshot`, on a copy of a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.explain.explain import blocker_lines, explain_lines, find
from analysis.simulate.simulate import simulate
from analysis.simulate.stored_pods import PodAdmission
from api.features import USUAL, Feature
from api.priority import PriorityClass
from cli.main import main
from kube.base.errors import ConfigError
from kube.client.meta import OwnerReference
from scheduler.core.explain.explain import Blocker
from scheduler.core.search.place import SearchBudget
from scheduler.decoding.objects import GroupObject, Metadata
from scheduler.snapshot.snapshot import Limits, encode, queue_of, take
from tests.scheduler.core.framework.cluster import claim, cluster_of, disk
from tests.scheduler.state_builder import StateBuilder

Json = dict[str, Any]


def pod_spec(cpu: int = 1) -> Json:
    wants = {"requests": {"cpu": str(cpu)}}
    return {"containers": [{"name": "c", "image": "none", "resources": wants}]}


def job(name: str, pods: int, *, cpu: int = 1, mode: str = "Gang") -> Json:
    annotations = {"scheduling.muster.dev/gang-mode": mode}
    template = {"spec": pod_spec(cpu)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def jobset(name: str, replicas: int, pods: int, *, mode: str) -> Json:
    template = {"spec": job("x", pods)["spec"]}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {"scheduling.muster.dev/gang-mode": mode}},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": replicas, "template": template}]},
    }


def group(name: str, minimum: int, *, parent: str = "") -> Json:
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    return {"kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def member(name: str, of: str) -> Json:
    labels = {"scheduling.muster.dev/pod-group": of}
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": pod_spec()}


@pytest.mark.parametrize(
    ("documents", "want"),
    [
        pytest.param(
            [job("a", 3)],
            ["PodGroup ns/pg-job-a: 0 of 3 pods scheduled, minCount 3",
             "  fits: n0 x2, n1 x1"],
            id="a Job that fits",
        ),
        pytest.param(
            [job("a", 1, mode="Off")],
            ["Pod a-0", "  fits: n0 x1"],
            id="a Job without a gang is pods alone",
        ),
        pytest.param(
            [jobset("j", 2, 2, mode="Composite")],
            ["CompositePodGroup ns/cpg-j: 0 of 1 child groups scheduled, minGroupCount 1",
             "  fits: n0 x2, n1 x2"],
            id="a JobSet becomes a tree",
        ),
        pytest.param(
            [jobset("j", 2, 2, mode="Gang")],
            ["PodGroup ns/pg-j: 0 of 4 pods scheduled, minCount 4", "  fits: n0 x2, n1 x2"],
            id="a JobSet becomes one gang",
        ),
        pytest.param(
            [group("g", 2), member("a", "g"), member("b", "g")],
            ["PodGroup ns/g: 0 of 2 pods scheduled, minCount 2", "  fits: n0 x2"],
            id="groups and pods by hand",
        ),
        pytest.param([member("a", "")], ["Pod a", "  fits: n0 x1"], id="a pod alone"),
        pytest.param(
            [group("g", 2), member("a", "g")],
            [
                "PodGroup ns/g: 0 of 1 pods scheduled, minCount 2",
                (
                    "  Incomplete (quorum): The group has 1 of 2 pods. Create 1 more pod that"
                    " names the group, or lower minCount."
                ),
                "    retried on: a new member, a change of the group",
            ],
            id="a gang without its quorum",
        ),
    ],
)  # fmt: skip
def test_manifests_are_decided_as_the_scheduler_would(
    documents: list[Json], want: list[str]
) -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=2)

    assert simulate(builder.state, documents, "ns", SearchBudget()).lines == want


@pytest.mark.parametrize(
    ("document", "off"),
    [
        (job("a", 2), Feature.JOB),
        (jobset("j", 2, 2, mode="Composite"), Feature.COMPOSITE_POD_GROUP),
    ],
)
def test_what_uses_a_feature_that_is_off_waits_for_its_gate(document: Json, off: Feature) -> None:
    builder = StateBuilder()
    builder.nodes(2, 2)

    lines = simulate(
        builder.state, [document], "ns", SearchBudget(), gates=USUAL.without(off)
    ).lines

    assert not any("fits" in line for line in lines)
    assert any(
        line.startswith(f"  Incomplete (quorum): Feature gate {off} is off") for line in lines
    )


def test_one_after_the_other_takes_its_room_and_the_rest_is_told_why_it_waits() -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=2)

    lines = simulate(builder.state, [job("a", 3), job("b", 3)], "ns", SearchBudget()).lines

    assert lines[1] == "  fits: n0 x2, n1 x1"
    assert lines[3] == (
        "  Unschedulable (capacity): 0/2 nodes are available: 2 Insufficient cpu. The group needs"
        " capacity for 3 more pods; 1 fits. It starts when this capacity is free."
    )


def test_volumes_that_are_there_are_given_once() -> None:
    builder = cluster_of("a b")
    disk(builder, "disk", "b")
    for name in ("one", "two"):
        claim(builder, name)

    lines = simulate(
        builder.state, [using("p", "one"), using("q", "two")], "ns", SearchBudget()
    ).lines

    assert lines[:2] == ["Pod p", "  fits: b x1"]
    assert lines[2] == "Pod q"
    assert lines[3] == (
        "  Unschedulable (capacity): 0/2 nodes are available: 2 node(s) didn't find available"
        ' persistent volumes to bind. Create for claim "two" a ReadWriteOnce'
        " PersistentVolume of class local"
        " with at least 2Gi that these nodes can use."
    )
    assert any(line.endswith(", a change of its claims or of volumes") for line in lines)


def using(name: str, of: str) -> Json:
    """Return a pod with a claim."""
    made = member(name, "")
    made["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": of}}]
    return made


def test_a_group_takes_its_policy_from_the_workload_beside_it() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=2)
    made = group("g", 1)
    made["spec"] = {"workloadRef": {"workloadName": "train", "templateName": "worker"}}
    template = {"name": "worker", "schedulingPolicy": {"gang": {"minCount": 3}}}
    workload = {
        "kind": "Workload",
        "metadata": {"name": "train"},
        "spec": {"podGroupTemplates": [template]},
    }
    members = [member(name, "g") for name in ("a", "b", "c")]

    lines = simulate(builder.state, [made, *members, workload], "ns", SearchBudget()).lines

    assert lines[0] == "PodGroup ns/g: 0 of 3 pods scheduled, minCount 3"
    assert "The group needs capacity for 3 more pods" in lines[1]


def urgent(document: Json, name: str = "urgent") -> Json:
    spec = document["spec"]
    inner = spec["template"]["spec"] if document["kind"] == "Job" else spec
    inner["priorityClassName"] = name
    return document


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([urgent(job("a", 2))], id="of a Job's pods"),
        pytest.param(
            [
                urgent(group("g", 2)),
                *(urgent(member(name, "g")) for name in ("a", "b")),
            ],
            id="of a group and its pods",
        ),
    ],
)
def test_a_priority_class_counts_as_after_admission(documents: list[Json]) -> None:
    builder = StateBuilder()
    builder.nodes(2, cpu=1)
    builder.pod("", node="n0", name="low")

    urgent_class = PodAdmission((PriorityClass("urgent", 1000, False),))
    lines = simulate(builder.state, documents, "ns", SearchBudget(), urgent_class).lines

    at = lines.index("  would preempt 1 pod of lower priority:")
    assert lines[at + 1] == "    Pod ns/low, priority 0, 1 pod"


def test_the_global_default_is_used_where_no_class_is_named() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=1)
    builder.pod("", node="n0", name="low")
    default = PodAdmission((PriorityClass("usual", 5, global_default=True),))

    lines = simulate(builder.state, [job("a", 1)], "ns", SearchBudget(), default).lines

    assert "    Pod ns/low, priority 0, 1 pod" in lines


def test_what_preempts_fits_and_its_victims_are_gone_for_the_next() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=1)
    builder.pod("", node="n0", name="low")
    default = PodAdmission((PriorityClass("usual", 5, global_default=True),))
    documents = [job("a", 1), job("b", 1)]

    first, second = simulate(builder.state, documents, "ns", SearchBudget(), default).roots

    assert (first.fits, first.evicted) == (True, 1)
    assert first.explanation[1] == "  fits after preemption: n0 x1"
    assert (second.fits, second.evicted) == (False, 0)


def test_a_class_that_is_not_there_is_refused_as_at_admission() -> None:
    with pytest.raises(ConfigError, match=r"Pod a-0 would be rejected: .*no PriorityClass"):
        simulate(StateBuilder().state, [urgent(job("a", 1, mode="Off"))], "ns", SearchBudget())


@pytest.mark.parametrize(
    ("document", "want"),
    [
        pytest.param(job("a", 2, mode="Gong"), "Job a would be rejected: .*gang-mode", id="mode"),
        pytest.param(
            {"apiVersion": "scheduling.muster.dev/v1alpha3", **group("g", 0)},
            "PodGroup g would be rejected: .*minCount: ",
            id="a group that breaks a rule",
        ),
        pytest.param(
            {"kind": "Service", "metadata": {"name": "s"}}, "Service s: unsupported kind", id="kind"
        ),
        pytest.param(
            {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"overhead": {"cpu": "x"}}},
            "Pod p: ",
            id="an amount that is none",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_simulated_is_refused_by_name(document: Json, want: str) -> None:
    with pytest.raises(ConfigError, match=want):
        simulate(StateBuilder().state, [document], "ns", SearchBudget())


def waiting_builder() -> StateBuilder:
    builder = StateBuilder()
    builder.nodes(2, cpu=1)
    builder.gang("g", 3)
    builder.pods("g", 3)
    return builder


def test_explain_gives_the_numbers() -> None:
    builder = waiting_builder()
    (entity,) = find(builder.state, {}, "podgroup/g", "ns")

    assert list(explain_lines(builder.state, entity, SearchBudget())) == [
        "PodGroup ns/g: 0 of 3 pods scheduled, minCount 3",
        (
            "  Unschedulable (capacity): 0/2 nodes are available: 2 Insufficient cpu. The group"
            " needs capacity for 3 more pods; 2 fit. Waiting does not help: at most 2 such"
            " pods fit on empty nodes. Lower minCount to 2, or add nodes."
        ),
        "    retried on: free capacity on a node, a new or changed node, a change of the group",
        "    no preemption: nothing with a priority below 0 runs",
    ]


def test_explain_lists_the_reasons_that_the_message_leaves_out() -> None:
    counts = tuple((f"Insufficient r{number}", 1) for number in range(12))
    blocker = Blocker("message", "capacity", ("PodGroup", "ns", "g"), 1, 0, counts)

    _, *more, _ = blocker_lines(blocker)

    assert more == ["  nodes: 1 Insufficient r10", "  nodes: 1 Insufficient r11"]


def test_explain_of_a_child_names_the_group_that_blocks() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=4)
    builder.composite("top", 2)
    for name in ("a", "b"):
        builder.gang(name, 2, parent="top")
    builder.pods("a", 2)
    builder.pod("b")
    (entity,) = find(builder.state, {}, "mpg/a", "ns")

    lines = list(explain_lines(builder.state, entity, SearchBudget()))

    assert lines[1:4] == [
        "  is scheduled together with its root, CompositePodGroup ns/top",
        "  waits for PodGroup ns/b",
        (
            "  Incomplete (quorum): The group has 1 of 2 pods. Create 1 more pod that"
            " names the group, or"
            " lower minCount."
        ),
    ]


def test_explain_of_what_fits_and_of_what_runs() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=4)
    builder.gang("g", 2)
    bound = builder.pod("g", node="n0")
    waiting = builder.pod("g")

    (entity,) = find(builder.state, {}, f"pod/{waiting.name}", "ns")
    assert "    would be scheduled now: n0 x1" in explain_lines(
        builder.state, entity, SearchBudget()
    )
    (entity,) = find(builder.state, {}, f"po/{bound.name}", "ns")
    assert "  is bound to n0" in explain_lines(builder.state, entity, SearchBudget())


@pytest.mark.parametrize(
    ("version", "kind", "asked"),
    [
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "jobset"),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws"),
        ("apps/v1", "StatefulSet", "statefulset"),
        ("apps/v1", "StatefulSet", "StatefulSets.apps"),
        ("apps/v1", "StatefulSet", "sts"),
        ("apps/v1", "Deployment", "deployment"),
        ("apps/v1", "Deployment", "deploy"),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkerset"),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", "trainjob"),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs.trainer.kubeflow.org"),
        ("apps/v1", "ReplicaSet", "replicaset"),
        ("kubeflow.org/v2beta1", "MPIJob", "mpijob"),
        ("ray.io/v1", "RayCluster", "rayclusters"),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplication"),
        ("batch/v1", "CronJob", "cronjob"),
    ],
)
def test_explain_finds_the_groups_of_an_owner(version: str, kind: str, asked: str) -> None:
    builder = waiting_builder()
    key = ("PodGroup", "ns", "g")
    owner = OwnerReference(
        api_version=version,
        kind=kind,
        name="train",
        uid="u",
        controller=True,
    )
    observed = {key: GroupObject(Metadata(name="g", namespace="ns", owner_references=[owner]))}

    (entity,) = found = find(builder.state, observed, f"{asked}/train", "ns")
    assert found == [builder.state.forest.groups[key]]
    lines = list(explain_lines(builder.state, entity, SearchBudget()))
    assert lines[0].startswith("PodGroup ns/g: 0 of ")
    assert any(line.startswith("  Unschedulable (capacity): ") for line in lines)
    for elsewhere in (f"{asked}/other", "job/train"):
        with pytest.raises(ConfigError):
            find(builder.state, observed, elsewhere, "ns")
    with pytest.raises(ConfigError):
        find(builder.state, observed, f"{asked}/train", "another")


def test_explain_finds_the_groups_of_an_owner_in_a_tree() -> None:
    """6012-010: the root belongs to several owners, and controls none of its groups."""
    builder = StateBuilder()
    builder.composite("tree-serve", 2)
    above = builder.composite("replicas", 1, parent="tree-serve")
    leaf = builder.gang("replica", 1, parent="replicas")
    owner = OwnerReference("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "l", "u", True)
    observed = {
        key: GroupObject(Metadata(name=key[2], namespace="ns", owner_references=[owner]))
        for key in (above, leaf)
    }
    (entity,) = find(builder.state, observed, "lws/l", "ns")
    assert entity.key == above
    lines = list(explain_lines(builder.state, entity, SearchBudget()))
    assert "  is scheduled together with its root, CompositePodGroup ns/tree-serve" in lines


@pytest.mark.parametrize(
    "what", ["g", "podgroup/", "node/n0", "podgroup/none", "job/none", "pod/x"]
)
def test_explain_of_what_is_not_there_says_so(what: str) -> None:
    with pytest.raises(ConfigError):
        find(waiting_builder().state, {}, what, "ns")


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    builder = waiting_builder()
    file = tmp_path / "snapshot.json"
    file.write_bytes(
        encode(take(builder.state, queue_of(builder.state), Limits.of(SearchBudget())))
    )
    return file


def test_a_snapshot_is_replayed_to_the_same_decisions(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["replay", str(snapshot)])

    assert code == 0
    assert capsys.readouterr().out.startswith(
        "PodGroup ns/g: as recorded\n  Unschedulable (capacity): "
    )


def test_a_replay_that_comes_out_differently_is_an_error(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot.write_bytes(
        snapshot.read_bytes().replace(b'"cpu":1000,"memory"', b'"cpu":9000,"memory"')
    )

    code = main(["replay", str(snapshot)])

    out = capsys.readouterr().out
    assert code == 1
    assert "PodGroup ns/g: NOT as recorded" in out
    assert "recorded decision:" in out


def test_every_command_works_on_a_snapshot(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump_all([job("a", 2)]))
    ask = ["--snapshot", str(snapshot)]

    codes = [
        main(["explain", "podgroup/g", "-n", "ns", *ask]),
        main(["tree", *ask]),
        main(["simulate", "-f", str(manifest), *ask]),
        main(["explain", "podgroup/none", *ask]),
    ]

    assert codes == [0, 0, 0, 2]
    said = capsys.readouterr()
    assert "PodGroup g: Unschedulable, 0 of 3 pods scheduled (minCount 3)" in said.out
    assert "  fits: n0 x1, n1 x1" in said.out
    assert said.err == 'muster: PodGroup "none" not found in namespace "default"\n'


def test_a_simulation_that_does_not_fit_has_its_own_exit_code(
    snapshot: Path, tmp_path: Path
) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text(yaml.safe_dump(job("a", 20)))

    assert main(["simulate", "-f", str(manifest), "--snapshot", str(snapshot)]) == 1


def asking(name: str, count: str, *, kind: str = "Pod", replicas: int = 2) -> Json:
    """Return pods that specify their group `g`, bare or of an owner kind."""
    meta: Json = {
        "labels": {"scheduling.muster.dev/pod-group": "g"},
        "annotations": {"scheduling.muster.dev/min-count": count},
    }
    if kind == "Pod":
        return {"kind": kind, "metadata": meta | {"name": name}, "spec": pod_spec()}
    template = {"metadata": meta, "spec": pod_spec()}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "template": template},
    }


@pytest.mark.parametrize(
    ("documents", "want"),
    [
        pytest.param(
            [asking("a", "2"), asking("b", "2")],
            ["PodGroup ns/g: 0 of 2 pods scheduled, minCount 2", "  fits: n0 x2"],
            id="bare pods",
        ),
        pytest.param(
            [asking("s", "2", kind="StatefulSet")],
            ["PodGroup ns/g: 0 of 2 pods scheduled, minCount 2", "  fits: n0 x2"],
            id="a StatefulSet",
        ),
        pytest.param(
            [asking("d", "3", kind="Deployment", replicas=0), asking("a", "1")],
            ["PodGroup ns/g: 0 of 1 pods scheduled, minCount 1", "  fits: n0 x1"],
            id="a Deployment without pods",
        ),
        pytest.param(
            [group("g", 1), asking("a", "2")],
            ["PodGroup ns/g: 0 of 1 pods scheduled, minCount 1", "  fits: n0 x1"],
            id="a group of the user counts",
        ),
    ],
)
def test_pods_that_ask_for_a_group_get_it(documents: list[Json], want: list[str]) -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=2)

    assert simulate(builder.state, documents, "ns", SearchBudget()).lines == want


def test_a_group_of_the_cluster_counts_for_pods_that_ask_for_one() -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=2)
    builder.gang("g", 1)

    lines = simulate(builder.state, [asking("a", "2")], "ns", SearchBudget()).lines

    assert lines[0] == "PodGroup ns/g: 0 of 1 pods scheduled, minCount 1"


def test_what_a_pod_says_wrong_is_refused_in_a_simulation_too() -> None:
    with pytest.raises(ConfigError, match=r"Pod a would be rejected: .*min-count"):
        simulate(StateBuilder().state, [asking("a", "few")], "ns", SearchBudget())
